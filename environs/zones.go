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
	Name      string
	Available bool // whether instances can be started there now
}

// SpreadParams is what SpreadZones decides by.
type SpreadParams struct {
	Zones []Zone
	// Instances are all of the model's.
	Instances []Instance
	// Group are those of Instances to keep away from; none means all.
	Group []instance.ID
	// Only are the zones that will do; nil means all.
	Only []string
}

// SpreadZones returns the names of the available zones in the order in which to
// try them: those with the fewest instances of the group first, and of equal
// ones the first by name. Members of the group that are not among the
// instances count for nothing.
func SpreadZones(p SpreadParams) []string {
	inGroup := make(map[instance.ID]bool, len(p.Group))
	for _, id := range p.Group {
		inGroup[id] = true
	}
	population := map[string]int{}
	for _, i := range p.Instances {
		if len(p.Group) == 0 || inGroup[i.ID] {
			population[i.Zone()]++
		}
	}
	var names []string
	for _, z := range p.Zones {
		if z.Available && (p.Only == nil || slices.Contains(p.Only, z.Name)) {
			names = append(names, z.Name)
		}
	}
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(population[a], population[b]), cmp.Compare(a, b))
	})
	return names
}
