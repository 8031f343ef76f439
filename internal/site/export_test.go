package site

import (
	"maps"
	"slices"
)

// Patterns returns what a site serves beside the API.
func (s *Site) Patterns(o Options) []string {
	return append(slices.Sorted(maps.Keys(s.routes(o))), metricsPattern)
}
