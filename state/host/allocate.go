package host

import (
	"context"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/core/constraints"
	metal3v1alpha1 "github.com/slipway-project/slipway/environs/baremetal/metal3/v1alpha1"
	"github.com/slipway-project/slipway/state"
	"github.com/slipway-project/slipway/store"
)

// ErrNoMatch says that no host can be given to a machine; its text counts what
// stands against each.
const ErrNoMatch = errors.ConstError("no host matches")

// Request says what host a machine is to get, and what becomes of it. The zero
// value is usable: any host, which is left as it is.
type Request struct {
	Nonce       string // that the machine is started with
	Constraints constraints.Value
	Name        string   // the only host that will do; empty: any
	Zones       []string // that will do; nil: any
	// Apart are the hosts whose zones to keep away from, as far as can be; none
	// means those of the model.
	Apart []string
	Image *metal3v1alpha1.Image // to write; nil: none
	Data  Data                  // for the machine's first boot
}

// Allocate gives one machine a host; see Pool.Allocate.
func (hs *Hosts) Allocate(ctx context.Context, modelUUID string, m *state.Machine, q Request) (given Host, existed bool, err error) {
	return hs.Pool().Allocate(ctx, modelUUID, m, q)
}

// Pool gives hosts to several machines, and reads all hosts but once for them. It is for
// one call and one goroutine: a host that becomes free while it is in use may be missed.
type Pool struct {
	hosts *Hosts
	pairs []*pair // all; nil: to be read
}

// Pool returns a pool of all hosts.
func (hs *Hosts) Pool() *Pool { return &Pool{hosts: hs} }

// Allocate gives a machine of a model a free host that meets its request, and
// returns the host. A machine that has a host already keeps it as it is, which
// existed says, if the nonce is the same; else the error satisfies
// errors.AlreadyExists. Host and machine are written in one batch, behind the
// machine's fence. The error satisfies ErrNoMatch if there is no such host.
func (p *Pool) Allocate(ctx context.Context, modelUUID string, m *state.Machine, q Request) (given Host, existed bool, err error) {
	tries := 0
	err = m.SetHost(ctx, func(current string) (string, []store.Op, error) {
		if tries++; tries > 1 {
			p.pairs = nil // somebody else was faster
		}
		existed = false
		mine := Consumer{ModelUUID: modelUUID, MachineID: m.Id(), Nonce: q.Nonce}
		if current != "" {
			held, err := p.hosts.held(ctx, current, mine)
			if err != nil {
				return "", nil, err
			}
			if held != nil {
				given, existed = held.public(), true
				return current, nil, nil
			}
		}
		if p.pairs == nil {
			if p.pairs, err = p.hosts.all(ctx); err != nil {
				return "", nil, err
			}
		}
		chosen, err := choose(p.pairs, modelUUID, q)
		if err != nil {
			return "", nil, err
		}
		ops, err := p.hosts.give(ctx, chosen, mine, q) // which is in use from here on
		given = chosen.public()
		return chosen.name, ops, err
	})
	if err != nil {
		if !errors.Is(err, ErrNoMatch) {
			p.pairs = nil // one may be in use there that is not
		}
		return Host{}, false, errors.Annotatef(err, "cannot give machine %s a host", m.Id())
	}
	return given, existed, nil
}

// held returns the host that a machine has, or nil if it was removed under it.
func (hs *Hosts) held(ctx context.Context, name string, by Consumer) (*pair, error) {
	pairs, err := hs.read(ctx, []string{name})
	if err != nil {
		return nil, err
	}
	p := pairs[0]
	if p == nil || p.host.Consumer == nil || p.host.Consumer.ModelUUID != by.ModelUUID || p.host.Consumer.MachineID != by.MachineID {
		return nil, nil
	}
	if p.host.Consumer.Nonce != by.Nonce {
		return nil, errors.AlreadyExistsf("host %s for machine %s, with another nonce,", name, by.MachineID)
	}
	return p, nil
}

// all reads every host.
func (hs *Hosts) all(ctx context.Context) ([]*pair, error) {
	var names []string
	err := hs.docs.Each(ctx, state.HostsCollection, func(name string, _ store.Doc) error {
		names = append(names, name)
		return nil
	})
	if err != nil {
		return nil, errors.Trace(err)
	}
	return hs.read(ctx, names)
}

// give returns the operations that make a host somebody's.
func (hs *Hosts) give(ctx context.Context, p *pair, to Consumer, q Request) ([]store.Op, error) {
	p.host.Consumer = &to
	if q.Image != nil {
		p.host.Spec.Image, p.host.Spec.Online = q.Image, true
	}
	host, err := writeOp(hs.hostKey(p.name), p.hostRev, p.host)
	if err != nil {
		return nil, err
	}
	// Its manager must not have begun anything with it meanwhile.
	ops := []store.Op{host, store.Assert(hs.statusKey(p.name), p.statusRev)}
	if q.Data == (Data{}) {
		return ops, nil
	}
	docs, err := hs.docs.Get(ctx, []store.Key{hs.dataKey(p.name)})
	if err != nil {
		return nil, errors.Trace(err)
	}
	data, err := hs.sealData(p, docs[0].Rev, q.Data)
	return append(ops, data), err
}

// Release takes a host away from the machine of a model that it belongs to: its
// image is removed, and then it is free again. One that belongs to nobody, or is gone,
// is left as it is; the error satisfies errors.NotFound if it is another model's.
func (hs *Hosts) Release(ctx context.Context, st *state.State, name string) error {
	h, err := hs.Get(ctx, name)
	switch {
	case errors.Is(err, errors.NotFound) || err == nil && h.Consumer == nil:
		return nil
	case err != nil:
		return errors.Trace(err)
	case h.Consumer.ModelUUID != st.ModelUUID():
		return errors.NotFoundf("host %q in model %s", name, st.ModelUUID())
	}
	owner := *h.Consumer
	err = st.ReleaseHost(ctx, owner.MachineID, name, func() ([]store.Op, error) {
		pairs, err := hs.read(ctx, []string{name})
		if err != nil || pairs[0] == nil {
			return nil, err
		}
		p := pairs[0]
		if p.host.Consumer == nil || *p.host.Consumer != owner {
			return nil, nil // somebody else was faster
		}
		p.host.Consumer, p.host.Spec.Image = nil, nil
		op, err := writeOp(hs.hostKey(name), p.hostRev, p.host)
		if err != nil {
			return nil, err
		}
		ops := []store.Op{op}
		docs, err := hs.docs.Get(ctx, []store.Key{hs.dataKey(name)})
		if err != nil {
			return nil, errors.Trace(err)
		}
		if docs[0].Rev != 0 {
			ops = append(ops, store.Remove(docs[0].Key, docs[0].Rev))
		}
		return ops, nil
	})
	return errors.Annotatef(err, "cannot release host %q", name)
}

// Consumed returns the hosts that belong to machines of a model: those among names, or
// all if there are no names.
func (hs *Hosts) Consumed(ctx context.Context, modelUUID string, names []string) ([]Host, error) {
	var pairs []*pair
	var err error
	if len(names) == 0 {
		pairs, err = hs.all(ctx)
	} else {
		pairs, err = hs.read(ctx, names)
	}
	if err != nil {
		return nil, errors.Annotate(err, "cannot read hosts")
	}
	var out []Host
	for _, p := range pairs {
		if p != nil && p.host.Consumer != nil && p.host.Consumer.ModelUUID == modelUUID {
			out = append(out, p.public())
		}
	}
	return out, nil
}
