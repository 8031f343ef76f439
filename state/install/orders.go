package install

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/state"
	"github.com/slipway-project/slipway/store"
	"github.com/slipway-project/slipway/watcher"
)

// read returns a host's order with its revision; nil if there is none.
func (is *Installs) read(ctx context.Context, host string) (*doc, store.Rev, error) {
	docs, err := is.docs.Get(ctx, []store.Key{is.key(host)})
	if err != nil {
		return nil, 0, errors.Trace(err)
	}
	if docs[0].Rev == 0 {
		return nil, 0, nil
	}
	d := new(doc)
	if err := json.Unmarshal(docs[0].Data, d); err != nil {
		return nil, 0, errors.Annotatef(err, "cannot decode the order of host %q", host)
	}
	return d, docs[0].Rev, nil
}

// writeOp returns the operation that writes d over the document read at rev, or as a
// new one when rev is zero.
func (is *Installs) writeOp(d *doc, rev store.Rev) ([]store.Op, error) {
	data, err := json.Marshal(d)
	if err != nil {
		return nil, errors.Annotatef(err, "cannot encode the order of host %q", d.Order.Name)
	}
	if rev == 0 {
		return []store.Op{store.Insert(is.key(d.Order.Host), data, nil)}, nil
	}
	return []store.Op{store.Replace(is.key(d.Order.Host), rev, data, nil)}, nil
}

// change applies a change to a host's order. An error of change ends it, unless it
// satisfies store.ErrConflict; errKeep writes nothing and is no error.
func (is *Installs) change(ctx context.Context, host string, change func(d *doc) error) error {
	return is.docs.Run(ctx, func(int) ([]store.Op, error) {
		d, rev, err := is.read(ctx, host)
		if err != nil {
			return nil, err
		}
		if d == nil {
			return nil, errors.NotFoundf("order for host %q", host)
		}
		switch err := change(d); {
		case errors.Is(err, errKeep):
			return nil, nil
		case err != nil:
			return nil, err
		}
		return is.writeOp(d, rev)
	})
}

// errKeep says that there is nothing to write.
const errKeep = errors.ConstError("nothing to write")

// Start makes a host's order, in place of any other. What the order lacks is
// an error satisfying errors.NotValid, found here rather than on the machine.
func (is *Installs) Start(ctx context.Context, o Order) (Install, error) {
	if o.Host == "" || o.Purpose != PurposeInstall && o.Purpose != PurposeWipe {
		return Install{}, errors.NotValidf("order %q for host %q", o.Purpose, o.Host)
	}
	if err := o.Network.Validate(); err != nil {
		return Install{}, errors.Annotate(err, "cannot use the installer's network")
	}
	if _, err := machineConfig(&doc{Order: o}, o.Data); err != nil {
		return Install{}, errors.Annotatef(err, "cannot order the installation of host %q", o.Name)
	}
	var out Install
	err := is.docs.Run(ctx, func(int) ([]store.Op, error) {
		old, rev, err := is.read(ctx, o.Host)
		if err != nil {
			return nil, err
		}
		now := is.docs.Now()
		d := &doc{Order: o, Started: now}
		if old != nil {
			old.leave(now, "replaced by another order")
			d.Number, d.Boots, d.Disk = old.Number, old.Boots, old.Disk
			d.Inventory, d.Firmware, d.Health = old.Inventory, old.Firmware, old.Health
		}
		s := secrets{Data: o.Data}
		dropped, err := is.boot(ctx, d, &s, now)
		if err != nil {
			return nil, err
		}
		out = d.public()
		out.Medium = s.Medium
		ops, err := is.writeOp(d, rev)
		return append(ops, dropped...), err
	})
	return out, errors.Trace(err)
}

// leave ends a boot that is given up.
func (d *doc) leave(now time.Time, why string) {
	if n := len(d.Boots); n > 0 && d.Boots[n-1].Ended.IsZero() {
		d.Boots[n-1].Ended, d.Boots[n-1].Phase, d.Boots[n-1].Message = now, PhaseFailed, why
	}
}

// boot gives an order its next boot: a number, a medium and a token. It returns what
// removes the logs of boots that are not remembered any more.
func (is *Installs) boot(ctx context.Context, d *doc, s *secrets, now time.Time) ([]store.Op, error) {
	s.Medium, s.Credential = newSecret(), ""
	d.Number++
	d.Tries++
	d.MediumHash, d.TokenHash, d.MediumUntil = hash(s.Medium), hash(tokenOf(s.Medium)), now.Add(MediumLife)
	d.Key, d.Claimed, d.CredentialHash = nil, time.Time{}, ""
	d.Phase, d.Step, d.Message, d.Steps = PhaseWaiting, "", "", nil
	d.BootStarted, d.Heard = now, time.Time{}
	d.Prepared, d.Booted, d.Ejected, d.Restarted = time.Time{}, time.Time{}, time.Time{}, time.Time{}
	d.Boots = append(d.Boots, Boot{Number: d.Number, Purpose: d.Order.Purpose, Started: now, Phase: PhaseWaiting})
	if err := is.seal(d, *s); err != nil {
		return nil, err
	}
	extra := max(0, len(d.Boots)-maxBoots)
	gone := d.Boots[:extra]
	d.Boots = d.Boots[extra:]
	return is.dropLogs(ctx, d.Order.Host, gone)
}

// Renew gives up the present boot for a reason, and orders another one for the same
// order: with a new number, medium and token. A boot that has ended, or another one than
// number, is left as it is.
func (is *Installs) Renew(ctx context.Context, host string, number int, reason string) error {
	return is.docs.Run(ctx, func(int) ([]store.Op, error) {
		d, rev, err := is.read(ctx, host)
		if err != nil {
			return nil, err
		}
		if d == nil {
			return nil, errors.NotFoundf("order for host %q", host)
		}
		if d.Number != number || d.Phase == PhaseDone || d.Phase == PhaseFailed {
			return nil, nil
		}
		s, err := is.open(d)
		if err != nil {
			return nil, err
		}
		now := is.docs.Now()
		d.leave(now, reason)
		dropped, err := is.boot(ctx, d, &s, now)
		if err != nil {
			return nil, err
		}
		ops, err := is.writeOp(d, rev)
		return append(ops, dropped...), err
	})
}

// Mark notes that a host's order has passed a point.
func (is *Installs) Mark(ctx context.Context, host string, m Mark) error {
	return is.change(ctx, host, func(d *doc) error {
		at := map[Mark]*time.Time{MarkPrepared: &d.Prepared, MarkBooted: &d.Booted, MarkEjected: &d.Ejected, MarkRestarted: &d.Restarted}[m]
		if at == nil {
			return errors.NotValidf("mark %q", m)
		}
		if !at.IsZero() {
			return errKeep
		}
		*at = is.docs.Now()
		return nil
	})
}

// Cancel forgets all about a host's orders, with their logs. There need be none.
func (is *Installs) Cancel(ctx context.Context, host string) error {
	return is.docs.Run(ctx, func(int) ([]store.Op, error) {
		d, rev, err := is.read(ctx, host)
		if err != nil || d == nil {
			return nil, err
		}
		ops, err := is.dropLogs(ctx, host, d.Boots)
		return append(ops, store.Remove(is.key(host), rev)), err
	})
}

// Get returns the orders that there are among hosts, without their data. With media, it
// also opens the secrets of media that are still served.
func (is *Installs) Get(ctx context.Context, hosts []string, media bool) ([]Install, error) {
	keys := make([]store.Key, len(hosts))
	for i, h := range hosts {
		keys[i] = is.key(h)
	}
	docs, err := is.docs.Get(ctx, keys)
	if err != nil {
		return nil, errors.Annotate(err, "cannot read orders for installers")
	}
	var out []Install
	for i, found := range docs {
		if found.Rev == 0 {
			continue
		}
		d := new(doc)
		if err := json.Unmarshal(found.Data, d); err != nil {
			return nil, errors.Annotatef(err, "cannot decode the order of host %q", hosts[i])
		}
		one := d.public()
		if media {
			s, err := is.open(d)
			if err != nil {
				return nil, err
			}
			one.Medium = s.Medium
		}
		out = append(out, one)
	}
	return out, nil
}

// Watch returns a watcher of the orders, by the hosts' UIDs.
func (is *Installs) Watch(ctx context.Context) (watcher.StringsWatcher, error) {
	w, err := is.docs.Watch(ctx, state.InstallsCollection)
	return w, errors.Annotate(err, "cannot watch installations")
}

// String names the order, and none of its data.
func (o Order) String() string { return fmt.Sprintf("%s of host %s", o.Purpose, o.Name) }

// GoString is String, so that %#v tells no more.
func (o Order) GoString() string { return o.String() }
