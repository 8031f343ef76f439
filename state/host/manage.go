package host

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/environs/baremetal/bmc"
	metal3v1alpha1 "github.com/slipway-project/slipway/environs/baremetal/metal3/v1alpha1"
	"github.com/slipway-project/slipway/state"
	"github.com/slipway-project/slipway/store"
	"github.com/slipway-project/slipway/watcher"
)

// Managed is a host as the one manager sees it that cares for all of them.
type Managed struct {
	Host
	Credentials bmc.Credentials // zero: there are none
	// ForeignFor is for how long another manager may still act on the host.
	ForeignFor time.Duration
}

// Watch returns a watcher of what people want of hosts, by name. What a manager
// saves wakes nobody.
func (hs *Hosts) Watch(ctx context.Context) (watcher.StringsWatcher, error) {
	w, err := hs.docs.Watch(ctx, state.HostsCollection)
	return w, errors.Annotate(err, "cannot watch hosts")
}

// WatchStatus returns a watcher of what the manager found out about hosts, by name.
func (hs *Hosts) WatchStatus(ctx context.Context) (watcher.StringsWatcher, error) {
	w, err := hs.docs.Watch(ctx, state.HostStatusCollection)
	return w, errors.Annotate(err, "cannot watch hosts")
}

// Managed returns the hosts that there are among names, with their credentials. It
// returns an error satisfying kind.LeaseDenied to whoever does not hold the site's
// lease.
func (hs *Hosts) Managed(ctx context.Context, names []string) ([]Managed, error) {
	epoch, err := hs.docs.Epoch(ctx)
	if err != nil {
		return nil, errors.Trace(err)
	}
	pairs, err := hs.read(ctx, names)
	if err != nil {
		return nil, errors.Annotate(err, "cannot read hosts")
	}
	var out []Managed
	for _, p := range pairs {
		if p == nil {
			continue
		}
		m := Managed{Host: p.public()}
		if m.Credentials, err = hs.open(p.host); err != nil {
			return nil, errors.Trace(err)
		}
		if p.status.Intent.Epoch != epoch {
			m.ForeignFor = max(0, p.status.Intent.Until.Sub(hs.docs.Now()))
		}
		out = append(out, m)
	}
	return out, nil
}

// changeStatus applies a change to what is known of a host, and perhaps to what is
// wanted of it, which is written if change returns true.
func (hs *Hosts) changeStatus(ctx context.Context, name string, change func(*pair) (wanted bool)) error {
	return hs.docs.Run(ctx, func(int) ([]store.Op, error) {
		pairs, err := hs.read(ctx, []string{name})
		if err != nil {
			return nil, err
		}
		p := pairs[0]
		if p == nil {
			return nil, errors.NotFoundf("host %q", name)
		}
		wanted := change(p)
		op, err := writeOp(hs.statusKey(name), p.statusRev, p.status)
		if err != nil {
			return nil, err
		}
		ops := []store.Op{op}
		if wanted {
			op, err = writeOp(hs.hostKey(name), p.hostRev, p.host)
			ops = append(ops, op)
		}
		return ops, err
	})
}

// Intend notes that the manager may act on a host for a time from now.
func (hs *Hosts) Intend(ctx context.Context, name string, d time.Duration) error {
	epoch, err := hs.docs.Epoch(ctx)
	if err != nil {
		return errors.Trace(err)
	}
	return hs.changeStatus(ctx, name, func(p *pair) bool {
		p.status.Intent = intent{epoch, hs.docs.Now().Add(d)}
		return false
	})
}

// Update is what a manager found out.
type Update struct {
	Status           metal3v1alpha1.BareMetalHostStatus
	Progress         Progress
	ClearAnnotations []string // that have been dealt with
	Events           []Event  // new ones
}

// Save replaces what is known of a host.
func (hs *Hosts) Save(ctx context.Context, name string, u Update) error {
	return hs.changeStatus(ctx, name, func(p *pair) bool {
		p.status.Status, p.status.Progress = u.Status, u.Progress
		events := slices.Concat(p.status.Events, u.Events)
		p.status.Events = events[max(0, len(events)-maxEvents):]
		cleared := false
		for _, key := range u.ClearAnnotations {
			if _, ok := p.host.Metadata.Annotations[key]; ok {
				delete(p.host.Metadata.Annotations, key)
				cleared = true
			}
		}
		return cleared
	})
}

// Forget removes the record of a host that was let go. One that is to stay is not
// forgotten.
func (hs *Hosts) Forget(ctx context.Context, name string) error {
	return hs.docs.Run(ctx, func(int) ([]store.Op, error) {
		pairs, err := hs.read(ctx, []string{name})
		if err != nil {
			return nil, err
		}
		p := pairs[0]
		switch {
		case p == nil:
			return nil, nil
		case p.host.Metadata.DeletionTimestamp == nil:
			return nil, errors.Errorf("host %q is not to be removed", name)
		}
		ops := []store.Op{store.Remove(hs.hostKey(name), p.hostRev)}
		if p.statusRev != 0 {
			ops = append(ops, store.Remove(hs.statusKey(name), p.statusRev))
		}
		address, err := bmc.Parse(p.host.Spec.BMC.Address)
		if err != nil {
			return nil, errors.Trace(err) // it could be read when the host was added
		}
		claims := hs.claims(address, p.host.Spec.BootMACAddress)
		keys := []store.Key{hs.dataKey(name)}
		for _, c := range claims {
			keys = append(keys, c.key)
		}
		docs, err := hs.docs.Get(ctx, keys)
		if err != nil {
			return nil, err
		}
		for i, d := range docs {
			var by claimDoc
			if d.Rev != 0 && (i == 0 || json.Unmarshal(d.Data, &by) == nil && by.Holder == name) {
				ops = append(ops, store.Remove(d.Key, d.Rev))
			}
		}
		return ops, nil
	})
}
