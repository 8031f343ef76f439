package host

import (
	"context"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/state"
	"github.com/slipway-project/slipway/store"
)

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
