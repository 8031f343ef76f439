package simulated

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/core/arch"
	"github.com/slipway-project/slipway/core/constraints"
	"github.com/slipway-project/slipway/core/hardware"
	"github.com/slipway-project/slipway/environs"
)

// Kind is a kind of hardware in a Rack. Its Name is what the constraint
// instance-type asks for.
type Kind struct {
	Name     string   `json:"name"`
	Arch     string   `json:"arch"` // one of package arch
	Cores    uint64   `json:"cores"`
	CPUPower uint64   `json:"cpu-power"` // 100 is about one year-2007 core
	Mem      uint64   `json:"mem"`       // MiB
	RootDisk uint64   `json:"root-disk"` // MiB
	Tags     []string `json:"tags,omitempty"`
	PerZone  int      `json:"per-zone"` // how many there are in each zone
}

const gib = 1024

// DefaultKinds is the catalogue of a Rack that is given none.
func DefaultKinds() []Kind {
	return []Kind{
		{Name: "small", Arch: arch.AMD64, Cores: 1, CPUPower: 100, Mem: 2 * gib, RootDisk: 20 * gib, PerZone: 4000},
		{Name: "medium", Arch: arch.AMD64, Cores: 4, CPUPower: 400, Mem: 8 * gib, RootDisk: 80 * gib, PerZone: 4000},
		{Name: "large", Arch: arch.AMD64, Cores: 16, CPUPower: 1600, Mem: 64 * gib, RootDisk: 400 * gib, Tags: []string{"ssd"}, PerZone: 2000},
		{Name: "huge", Arch: arch.AMD64, Cores: 64, CPUPower: 6400, Mem: 512 * gib, RootDisk: 2000 * gib, Tags: []string{"ssd", "nvme"}, PerZone: 500},
		{Name: "gpu", Arch: arch.AMD64, Cores: 32, CPUPower: 3200, Mem: 256 * gib, RootDisk: 1000 * gib, Tags: []string{"ssd", "gpu"}, PerZone: 200},
		{Name: "arm", Arch: arch.ARM64, Cores: 8, CPUPower: 600, Mem: 16 * gib, RootDisk: 160 * gib, Tags: []string{"ssd"}, PerZone: 2000},
		{Name: "power", Arch: arch.PPC64EL, Cores: 20, CPUPower: 3000, Mem: 128 * gib, RootDisk: 800 * gib, PerZone: 100},
	}
}

// DefaultZones are the zones of a Rack that is given none.
func DefaultZones() []environs.Zone {
	return []environs.Zone{{Name: "zone1", Available: true}, {Name: "zone2", Available: true}, {Name: "zone3", Available: true}}
}

// Description is what a Rack has.
type Description struct {
	Zones []environs.Zone `json:"zones"`
	Kinds []Kind          `json:"kinds"`
}

// zone finds a zone by name.
func (d Description) zone(name string) (environs.Zone, bool) {
	i := slices.IndexFunc(d.Zones, func(z environs.Zone) bool { return z.Name == name })
	if i < 0 {
		return environs.Zone{}, false
	}
	return d.Zones[i], true
}

// kind finds a kind of hardware by name. One that the rack no longer has, as
// after a restart with another catalogue, is known by its name alone.
func (d Description) kind(name string) Kind {
	i := slices.IndexFunc(d.Kinds, func(k Kind) bool { return k.Name == name })
	if i < 0 {
		return Kind{Name: name}
	}
	return d.Kinds[i]
}

// characteristics returns what an instance of k is like; an empty zone means
// none in particular.
func (k Kind) characteristics(zone string) hardware.Characteristics {
	c := hardware.Characteristics{Arch: &k.Arch, Mem: &k.Mem, RootDisk: &k.RootDisk, CPUCores: &k.Cores, CPUPower: &k.CPUPower}
	if len(k.Tags) > 0 {
		tags := slices.Clone(k.Tags)
		c.Tags = &tags
	}
	if zone != "" {
		c.AvailabilityZone = &zone
	}
	return c
}

// fitting returns the kinds that meet v, the smallest first. If there is none,
// the error, which is permanent, says how many kinds each demand excludes.
func (d Description) fitting(v constraints.Value) ([]Kind, error) {
	var fit []Kind
	var demands []string // in the order of their first appearance
	excluded := map[string]int{}
	for _, k := range d.Kinds {
		unmet := k.characteristics("").Unmet(v)
		if v.InstanceType != nil && *v.InstanceType != "" && *v.InstanceType != k.Name {
			unmet = append(unmet, "instance-type="+*v.InstanceType)
		}
		for _, u := range unmet {
			if excluded[u]++; excluded[u] == 1 {
				demands = append(demands, u)
			}
		}
		if len(unmet) == 0 {
			fit = append(fit, k)
		}
	}
	if len(fit) == 0 {
		reasons := make([]string, len(demands))
		for i, u := range demands {
			reasons[i] = fmt.Sprintf("%s excludes %d", u, excluded[u])
		}
		return nil, errors.WithType(errors.Errorf("no hardware meets constraints %q: of %d kinds, %s",
			v, len(d.Kinds), strings.Join(reasons, ", ")), environs.ErrPermanent)
	}
	slices.SortFunc(fit, func(a, b Kind) int {
		return cmp.Or(cmp.Compare(a.Mem, b.Mem), cmp.Compare(a.Cores, b.Cores), cmp.Compare(a.RootDisk, b.RootDisk), cmp.Compare(a.Name, b.Name))
	})
	return fit, nil
}

// validator returns what the rack can do with constraints. An instance type
// fixes all that the other demands are about, so it goes with none of them.
func (d Description) validator() *constraints.Validator {
	var arches, names []string
	for _, k := range d.Kinds {
		names = append(names, k.Name)
		if !slices.Contains(arches, k.Arch) {
			arches = append(arches, k.Arch)
		}
	}
	return &constraints.Validator{
		Unsupported: []string{constraints.Spaces, constraints.VirtType},
		Conflicts: []constraints.Conflict{{
			Reds:  []string{constraints.InstanceType},
			Blues: []string{constraints.Arch, constraints.Cores, constraints.CPUPower, constraints.Mem, constraints.RootDisk},
		}},
		Vocabulary: map[string][]string{constraints.Arch: arches, constraints.InstanceType: names},
	}
}

// directive is a placement as the rack understands it: "zone=NAME", "fail=N", or
// both, separated by a comma.
type directive struct {
	zone string // empty means any
	fail int    // how many starts of the machine fail first
}

// parsePlacement reads a placement; empty text asks for nothing. Its error
// satisfies errors.NotValid and says what zones there are.
func (d Description) parsePlacement(text string) (directive, error) {
	var out directive
	if text == "" {
		return out, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		name, value, _ := strings.Cut(part, "=")
		switch name {
		case "zone":
			if _, ok := d.zone(value); !ok {
				names := make([]string, len(d.Zones))
				for i, z := range d.Zones {
					names[i] = z.Name
				}
				return out, errors.NotValidf("availability zone %q (the rack has %s)", value, strings.Join(names, ", "))
			}
			out.zone = value
		case "fail":
			n, err := strconv.Atoi(value)
			if err != nil || n < 0 || n > 1000 {
				return out, errors.NotValidf("placement %q (want fail=N, N from 0 to 1000)", part)
			}
			out.fail = n
		default:
			return out, errors.NotValidf("placement %q (want zone=NAME or fail=N)", part)
		}
	}
	return out, nil
}
