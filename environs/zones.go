package environs

import (
	"cmp"
	"context"
	"slices"

	"github.com/slipway-project/slipway/core/instance"
)

// Zoned is what an Environ is as well if its provider has availability zones.
type Zoned interface {
	// AvailabilityZones returns all zones of the provider.
	AvailabilityZones(ctx context.Context) ([]Zone, error)
}

// Zone is a part of a data centre that fails by itself.
type Zone struct {
	Name      string `json:"name"`
	Available bool   `json:"available"` // whether instances can be started there now
}

// Population counts instances by zone: those of the group, or all of them if
// the group is empty. Members of the group that are not among the instances
// count for nothing.
func Population(instances []Instance, group []instance.ID) map[string]int {
	inGroup := make(map[instance.ID]bool, len(group))
	for _, id := range group {
		inGroup[id] = true
	}
	population := map[string]int{}
	for _, i := range instances {
		if len(group) == 0 || inGroup[i.ID] {
			population[i.Zone()]++
		}
	}
	return population
}

// SpreadZones returns the names of the available zones in the order in which to
// try them: those with the smallest population first, and of equal ones the
// first by name. Only are the zones that will do; nil means all.
func SpreadZones(zones []Zone, population map[string]int, only []string) []string {
	var names []string
	for _, z := range zones {
		if z.Available && (only == nil || slices.Contains(only, z.Name)) {
			names = append(names, z.Name)
		}
	}
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(population[a], population[b]), cmp.Compare(a, b))
	})
	return names
}
