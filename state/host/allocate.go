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
	"github.com/slipway-project/slipway/state"
	"github.com/slipway-project/slipway/store"
)

// ErrNoMatch says that no host can be given to a machine; its text counts what
// stands against each.
const ErrNoMatch = errors.ConstError("no host matches")

// Allocate gives a machine of a model a free host that meets its constraints, and
// returns the host's name. A machine that has a host already keeps it. Host and machine
// are written in one batch, behind the machine's fence. The error satisfies
// ErrNoMatch if there is no such host.
func (hs *Hosts) Allocate(ctx context.Context, modelUUID string, m *state.Machine, want constraints.Value) (string, error) {
	var given string
	err := m.SetHost(ctx, func(current string) (string, []store.Op, error) {
		given = current
		if current != "" {
			return current, nil, nil
		}
		var names []string
		err := hs.docs.Each(ctx, state.HostsCollection, func(name string, _ store.Doc) error {
			names = append(names, name)
			return nil
		})
		if err != nil {
			return "", nil, err
		}
		pairs, err := hs.read(ctx, names)
		if err != nil {
			return "", nil, err
		}
		p, err := choose(pairs, modelUUID, want)
		if err != nil {
			return "", nil, err
		}
		given = p.name
		p.host.Consumer = &Consumer{ModelUUID: modelUUID, MachineID: m.Id()}
		op, err := writeOp(hs.hostKey(p.name), p.hostRev, p.host)
		return given, []store.Op{op}, err
	})
	if err != nil {
		return "", errors.Annotatef(err, "cannot give machine %s a host", m.Id())
	}
	return given, nil
}

// choose returns the best free host: one that is reserved for the model if there
// is one, else the one with the least memory.
func choose(pairs []*pair, modelUUID string, want constraints.Value) (*pair, error) {
	against := map[string]int{}
	var fit []*pair
	total := 0
	for _, p := range pairs {
		if p == nil {
			continue
		}
		total++
		if why := obstacle(p, modelUUID, want); why != "" {
			against[why]++
			continue
		}
		fit = append(fit, p)
	}
	if len(fit) > 0 {
		return slices.MinFunc(fit, func(a, b *pair) int {
			return cmp.Or(-cmp.Compare(a.host.ReserveFor, b.host.ReserveFor), cmp.Compare(memory(a), memory(b)), cmp.Compare(a.name, b.name))
		}), nil
	}
	var reasons []string
	for why, n := range against {
		reasons = append(reasons, fmt.Sprintf("%d %s", n, why))
	}
	slices.Sort(reasons)
	text := fmt.Sprintf("no host matches: of %d hosts, %s", total, strings.Join(reasons, ", "))
	if total == 0 {
		text = "no host matches: there are no hosts, add some with \"slipway add-host\""
	}
	return nil, errors.WithType(errors.New(text), ErrNoMatch)
}

func memory(p *pair) int { return p.status.Status.HardwareDetails.RAMMebibytes }

// obstacle says why a host cannot be given to a machine of a model; empty means that
// it can.
func obstacle(p *pair, modelUUID string, want constraints.Value) string {
	hw, s := p.status.Status.HardwareDetails, p.status.Status
	switch {
	case p.host.Consumer != nil || p.host.Spec.Image != nil:
		return "in use"
	case p.host.Metadata.DeletionTimestamp != nil:
		return "being removed"
	case p.host.ReserveFor != "" && p.host.ReserveFor != modelUUID:
		return "reserved for other models"
	case hasKey(p.host.Metadata.Annotations, metal3v1alpha1.PausedAnnotation):
		return "in maintenance"
	case s.Provisioning.State != metal3v1alpha1.StateReady || hw == nil || s.ErrorType != metal3v1alpha1.NoError:
		return "not ready"
	case want.Arch != nil && *want.Arch != arch(hw.CPU.Arch):
		return "not of arch=" + *want.Arch
	case want.Cores != nil && uint64(max(0, hw.CPU.Count)) < *want.Cores:
		return fmt.Sprintf("with less than cores=%d", *want.Cores)
	case want.Mem != nil && uint64(max(0, hw.RAMMebibytes)) < *want.Mem:
		return fmt.Sprintf("with less than mem=%dM", *want.Mem)
	case want.Tags != nil:
		for _, t := range *want.Tags {
			name, not := strings.CutPrefix(t, "^")
			if hasKey(p.host.Metadata.Labels, name) == not {
				return "without tags=" + t
			}
		}
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
