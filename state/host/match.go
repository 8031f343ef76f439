package host

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/core/constraints"
	metal3v1alpha1 "github.com/slipway-project/slipway/environs/baremetal/metal3/v1alpha1"
)

// ZoneLabel is the label that names the zone which a host is in.
const ZoneLabel = "zone"

// Zone returns the zone that the host is in; empty: none.
func (h Host) Zone() string { return h.Record.Metadata.Labels[ZoneLabel] }

// Zone says whether hosts of a zone are free.
type Zone struct {
	Name string
	Free bool // one is ready and belongs to nobody
}

// Zones returns the zones that hosts are in, by name.
func (hs *Hosts) Zones(ctx context.Context, modelUUID string) ([]Zone, error) {
	pairs, err := hs.all(ctx)
	if err != nil {
		return nil, errors.Annotate(err, "cannot read the zones of hosts")
	}
	free := map[string]bool{}
	for _, p := range pairs {
		if p != nil && zoneOf(p) != "" {
			free[zoneOf(p)] = free[zoneOf(p)] || obstacle(p, modelUUID, Request{}) == ""
		}
	}
	out := make([]Zone, 0, len(free))
	for name := range free {
		out = append(out, Zone{name, free[name]})
	}
	slices.SortFunc(out, func(a, b Zone) int { return cmp.Compare(a.Name, b.Name) })
	return out, nil
}

func zoneOf(p *pair) string { return p.host.Metadata.Labels[ZoneLabel] }

// choose returns the best free host: one that is reserved for the model if there
// is one, else one in the zone with the fewest to keep away from, else the one with the
// least memory. Of equal ones it takes any, so that many who choose at a time do not
// all choose the same.
func choose(pairs []*pair, modelUUID string, q Request) (*pair, error) {
	against := map[string]int{}
	crowd := population(pairs, modelUUID, q.Apart)
	var fit []*pair
	total := 0
	better := func(a, b *pair) int {
		return cmp.Or(-cmp.Compare(a.host.ReserveFor, b.host.ReserveFor), cmp.Compare(crowd[zoneOf(a)], crowd[zoneOf(b)]), cmp.Compare(memory(a), memory(b)))
	}
	for _, p := range pairs {
		if p == nil {
			continue
		}
		total++
		if why := obstacle(p, modelUUID, q); why != "" {
			against[why]++
			continue
		}
		if len(fit) > 0 {
			switch c := better(p, fit[0]); {
			case c > 0:
				continue
			case c < 0:
				fit = fit[:0]
			}
		}
		fit = append(fit, p)
	}
	if len(fit) > 0 {
		return fit[rand.IntN(len(fit))], nil
	}
	return nil, noMatch(total, against)
}

// noMatch says why no host can be given.
func noMatch(total int, against map[string]int) error {
	if total == 0 {
		return errors.WithType(errors.New("no host matches: there are no hosts, add some with \"slipway add-host\""), ErrNoMatch)
	}
	var reasons []string
	for why, n := range against {
		reasons = append(reasons, fmt.Sprintf("%d %s", n, why))
	}
	slices.Sort(reasons)
	return errors.WithType(errors.Errorf("no host matches: of %d hosts, %s", total, strings.Join(reasons, ", ")), ErrNoMatch)
}

// population counts the hosts of each zone that are to be kept away from.
func population(pairs []*pair, modelUUID string, apart []string) map[string]int {
	among := make(map[string]bool, len(apart))
	for _, name := range apart {
		among[name] = true
	}
	crowd := map[string]int{}
	for _, p := range pairs {
		if p == nil || p.host.Consumer == nil || p.host.Consumer.ModelUUID != modelUUID {
			continue
		}
		if len(apart) == 0 || among[p.name] {
			crowd[zoneOf(p)]++
		}
	}
	return crowd
}

func memory(p *pair) int {
	if p.status.Status.HardwareDetails == nil {
		return 0
	}
	return p.status.Status.HardwareDetails.RAMMebibytes
}

// obstacle says why a host cannot be given to a machine of a model; empty means that
// it can.
func obstacle(p *pair, modelUUID string, q Request) string {
	s := p.status.Status
	ready := s.Provisioning.State == metal3v1alpha1.StateReady || s.Provisioning.State == metal3v1alpha1.StateAvailable
	switch {
	case q.Name != "" && p.name != q.Name:
		return "not named " + q.Name
	case p.host.Consumer != nil || p.host.Spec.Image != nil:
		return "in use"
	case p.host.Metadata.DeletionTimestamp != nil:
		return "being removed"
	case p.host.ReserveFor != "" && p.host.ReserveFor != modelUUID:
		return "reserved for other models"
	case hasKey(p.host.Metadata.Annotations, metal3v1alpha1.PausedAnnotation):
		return "in maintenance"
	case !ready || s.HardwareDetails == nil || s.ErrorType != metal3v1alpha1.NoError:
		return "not ready"
	case q.Zones != nil && !slices.Contains(q.Zones, zoneOf(p)):
		return "not in zone " + strings.Join(q.Zones, " or ")
	}
	return lack(p, s.HardwareDetails, q.Constraints)
}

// lack says which constraint a host does not meet; empty means none.
func lack(p *pair, hw *metal3v1alpha1.HardwareDetails, want constraints.Value) string {
	switch {
	case want.Arch != nil && *want.Arch != "" && *want.Arch != arch(hw.CPU.Arch):
		return "not of arch=" + *want.Arch
	case want.Cores != nil && uint64(max(0, hw.CPU.Count)) < *want.Cores:
		return fmt.Sprintf("with less than cores=%d", *want.Cores)
	case want.Mem != nil && uint64(max(0, hw.RAMMebibytes)) < *want.Mem:
		return fmt.Sprintf("with less than mem=%dM", *want.Mem)
	}
	for _, t := range want.IncludedTags() {
		if !hasKey(p.host.Metadata.Labels, t) {
			return "without tags=" + t
		}
	}
	for _, t := range want.ExcludedTags() {
		if hasKey(p.host.Metadata.Labels, t) {
			return "without tags=^" + t
		}
	}
	return lackOfDisk(p, hw, want)
}

// lackOfDisk says what is wrong with the disk that the image would go to. Hints that
// people gave have to be met; those of the hardware profile are but a guess.
func lackOfDisk(p *pair, hw *metal3v1alpha1.HardwareDetails, want constraints.Value) string {
	record := metal3v1alpha1.BareMetalHost{Metadata: p.host.Metadata, Spec: p.host.Spec, Status: p.status.Status}
	hints := record.EffectiveHints()
	if _, ok := hints.Choose(hw.Storage, 0); !ok {
		if p.host.Spec.RootDeviceHints != nil {
			return "without a disk that its root-device hints fit"
		}
		hints = nil
	}
	if want.RootDisk == nil || *want.RootDisk == 0 {
		return ""
	}
	if _, ok := hints.Choose(hw.Storage, int64(min(*want.RootDisk, 1<<40))<<20); !ok {
		return fmt.Sprintf("without a disk of root-disk=%dM", *want.RootDisk)
	}
	return ""
}

func hasKey(m map[string]string, key string) bool {
	_, ok := m[key]
	return ok
}

// arch returns an architecture by the name that constraints have for it.
func arch(kernel string) string {
	switch kernel {
	case "x86_64":
		return "amd64"
	case "aarch64":
		return "arm64"
	}
	return kernel
}
