package host

import (
	"cmp"
	"context"
	"fmt"
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

// matcher chooses hosts for several machines of a model, of all hosts as they were read.
type matcher struct {
	modelUUID string
	all       []*pair
	byName    map[string]*pair
	idle      []*pair           // those that are nobody's
	crowds    map[string]*crowd // by the names of the hosts to keep away from
}

// crowd counts the hosts of each zone that are to be kept away from.
type crowd struct {
	among map[string]bool // their names; empty: all of the model's
	zones map[string]int
}

func (c *crowd) add(p *pair) {
	if len(c.among) == 0 || c.among[p.name] {
		c.zones[zoneOf(p)]++
	}
}

// newMatcher returns a matcher of the hosts that pairs has; nil is none.
func newMatcher(pairs []*pair, modelUUID string) *matcher {
	m := &matcher{modelUUID: modelUUID, byName: make(map[string]*pair, len(pairs)), crowds: map[string]*crowd{}}
	for _, p := range pairs {
		if p == nil {
			continue
		}
		m.all, m.byName[p.name] = append(m.all, p), p
		if p.host.Consumer == nil {
			m.idle = append(m.idle, p)
		}
	}
	return m
}

// held returns the host of this name if it is the machine's, and nil else: it may have
// been removed under it.
func (m *matcher) held(name string, by Consumer) *pair {
	p := m.byName[name]
	if p == nil || p.host.Consumer == nil || p.host.Consumer.ModelUUID != by.ModelUUID || p.host.Consumer.MachineID != by.MachineID {
		return nil
	}
	return p
}

// take makes a host somebody's.
func (m *matcher) take(p *pair, by Consumer) {
	p.host.Consumer = &by
	m.idle = slices.DeleteFunc(m.idle, func(i *pair) bool { return i == p })
	for _, c := range m.crowds {
		c.add(p)
	}
}

// crowd returns how many hosts each zone has that are to be kept away from.
func (m *matcher) crowd(apart []string) map[string]int {
	key := strings.Join(apart, " ") // names have no spaces
	if c := m.crowds[key]; c != nil {
		return c.zones
	}
	c := &crowd{among: make(map[string]bool, len(apart)), zones: map[string]int{}}
	for _, name := range apart {
		c.among[name] = true
	}
	for _, p := range m.all {
		if p.host.Consumer != nil && p.host.Consumer.ModelUUID == m.modelUUID {
			c.add(p)
		}
	}
	m.crowds[key] = c
	return c.zones
}

// choose returns the best free host: one that is reserved for the model if there
// is one, else one in the zone with the fewest to keep away from, else the one with the
// least memory. Equal ones have another order for each machine, so that many who choose
// at a time do not all choose the same.
func (m *matcher) choose(w Want) (*pair, error) {
	zones, turn := m.crowd(w.Apart), m.modelUUID+":"+w.MachineID+":"
	better := func(a, b *pair) int {
		return cmp.Or(-cmp.Compare(a.host.ReserveFor, b.host.ReserveFor), cmp.Compare(zones[zoneOf(a)], zones[zoneOf(b)]), cmp.Compare(memory(a), memory(b)))
	}
	var best *pair
	var rank uint64
	for _, p := range m.idle {
		c, r := -1, order(turn, p.name)
		if best != nil {
			c = better(p, best)
		}
		if c > 0 || c == 0 && r > rank { // cheaper to say than what stands against it
			continue
		}
		if obstacle(p, m.modelUUID, w.Request) == "" {
			best, rank = p, r
		}
	}
	if best != nil {
		return best, nil
	}
	against := map[string]int{}
	for _, p := range m.all {
		against[obstacle(p, m.modelUUID, w.Request)]++
	}
	return nil, noMatch(len(m.all), against)
}

// order says where a host stands in a machine's turn: FNV-1a, whose bits are then mixed
// as MurmurHash3 ends, so that names in a row are far apart.
func order(turn, name string) uint64 {
	h := uint64(14695981039346656037)
	for _, s := range [...]string{turn, name} {
		for i := range len(s) {
			h = (h ^ uint64(s[i])) * 1099511628211
		}
	}
	h = (h ^ h>>33) * 0xff51afd7ed558ccd
	h = (h ^ h>>33) * 0xc4ceb9fe1a85ec53
	return h ^ h>>33
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
