package state

import (
	"context"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/core/kind"
	"github.com/slipway-project/slipway/store"
)

// The shortest and the longest time for which a lease can be claimed.
const (
	MinLease = time.Second
	MaxLease = time.Minute
)

// siteLease is the name of the lease on what belongs to no model.
const siteLease = "site"

// leaseDoc says whose the work on something is. It changes with its owner and
// at no other time, so that a write which asserts its revision is refused after any
// change of owner.
type leaseDoc struct {
	Holder string    `json:"holder,omitempty"` // empty when it was given up
	Epoch  int64     `json:"epoch"`            // grows with every owner
	Since  time.Time `json:"since"`
}

// renewalDoc says that the owner was still there. Its times are for people; that
// it changes is what counts.
type renewalDoc struct {
	Epoch    int64         `json:"epoch"`
	Duration time.Duration `json:"duration"` // in nanoseconds; for how long it holds
	At       time.Time     `json:"at"`
}

// Lease is the right to care for something, one worker at a time: for a
// model, or for what belongs to the whole site. An owner renews it; who has not for
// the time that it was claimed for may be replaced. How long that is ago is
// measured by whoever wants to replace the owner, from when it saw the last
// renewal, with a clock that nobody can set.
type Lease struct {
	c     *Controller
	name  string // the model's UUID, or siteLease
	fence *Fence // what claims are bound to; nil means nothing
}

// Lease returns the lease on the model's machines. What is claimed through it is
// bound to the fence that st has; see WithFence.
func (st *State) Lease() *Lease { return &Lease{c: st.c, name: st.modelUUID, fence: st.fence} }

// SiteLease returns the lease on what belongs to no model. What is claimed
// through it is bound to the fence that st has.
func (st *State) SiteLease() *Lease { return &Lease{c: st.c, name: siteLease, fence: st.fence} }

// LeaseInfo says who has a lease.
type LeaseInfo struct {
	Holder  string // empty means nobody
	Epoch   int64  // 0 means that there never was an owner
	Since   time.Time
	Renewed time.Time // by the clock of the controller that took the renewal
}

// leaseDocs is what is stored of a lease.
type leaseDocs struct {
	lease      leaseDoc
	renewal    renewalDoc
	leaseRev   store.Rev // 0 if there is none
	renewalRev store.Rev
	model      store.Doc // of a model's lease
}

func (l *Lease) key() store.Key        { return siteKey(leasesC, l.name) }
func (l *Lease) renewalKey() store.Key { return siteKey(renewalsC, l.name) }

// read reads the lease. It returns an error satisfying errors.NotFound if its model
// is gone.
func (l *Lease) read(ctx context.Context) (leaseDocs, error) {
	var ld leaseDocs
	keys := []store.Key{l.key(), l.renewalKey()}
	if l.name != siteLease {
		keys = append(keys, siteKey(modelsC, l.name))
	}
	docs, err := l.c.store.GetAll(ctx, keys)
	if err != nil {
		return ld, errors.Annotatef(err, "cannot read lease %s", l.name)
	}
	if l.name != siteLease {
		if ld.model = docs[2]; ld.model.Rev == 0 {
			return ld, noModel(l.name)
		}
	}
	if ld.leaseRev = docs[0].Rev; ld.leaseRev != 0 {
		d, err := decode[leaseDoc](docs[0])
		if err != nil {
			return ld, errors.Trace(err)
		}
		ld.lease = *d
	}
	if ld.renewalRev = docs[1].Rev; ld.renewalRev != 0 {
		d, err := decode[renewalDoc](docs[1])
		if err != nil {
			return ld, errors.Trace(err)
		}
		ld.renewal = *d
	}
	return ld, nil
}

// Info returns who has the lease.
func (l *Lease) Info(ctx context.Context) (LeaseInfo, error) {
	ld, err := l.read(ctx)
	if err != nil {
		return LeaseInfo{}, errors.Trace(err)
	}
	return LeaseInfo{Holder: ld.lease.Holder, Epoch: ld.lease.Epoch, Since: ld.lease.Since, Renewed: ld.renewal.At}, nil
}

// Claim makes holder the owner for a time, or renews what holder has, and returns
// the owner's epoch. A holder that claims through another fence than before gets
// a new epoch, and the fence before lets nothing pass any more.
//
// It returns an error satisfying kind.LeaseDenied if somebody else is the owner,
// errors.NotValid for a duration out of bounds, and errors.NotFound if the
// model is gone.
func (l *Lease) Claim(ctx context.Context, holder string, d time.Duration) (int64, error) {
	if holder == "" || d < MinLease || d > MaxLease {
		return 0, errors.NotValidf("claim of a lease by %q for %v (%v to %v)", holder, d, MinLease, MaxLease)
	}
	var epoch int64
	renewed := false
	err := l.c.run(ctx, func(int) ([]store.Op, error) {
		ld, err := l.read(ctx)
		if err != nil {
			return nil, err
		}
		var ops []store.Op
		epoch, renewed = ld.lease.Epoch, ld.lease.Holder == holder && l.fence.epochOf(l) == ld.lease.Epoch
		switch {
		case renewed:
			ops = append(ops, store.Assert(l.key(), ld.leaseRev))
		case ld.lease.Holder != "" && ld.lease.Holder != holder && l.rest(ld) > 0:
			return nil, errors.WithType(errors.Errorf("lease %s is held by %s", l.name, ld.lease.Holder), kind.LeaseDenied)
		default:
			epoch++
			op, err := writeOp(l.key(), ld.leaseRev, leaseDoc{Holder: holder, Epoch: epoch, Since: l.c.now()}, nil)
			if err != nil {
				return nil, errors.Trace(err)
			}
			ops = append(ops, op)
			if ld.model.Rev != 0 && ld.leaseRev == 0 { // a model's removal takes its lease along
				ops = append(ops, store.Assert(ld.model.Key, ld.model.Rev))
			}
		}
		op, err := writeOp(l.renewalKey(), ld.renewalRev, renewalDoc{Epoch: epoch, Duration: d, At: l.c.now()}, nil)
		return append(ops, op), err
	})
	if err != nil {
		return 0, errors.Trace(err)
	}
	if renewed {
		return epoch, nil
	}
	logger.Infof("lease %s is %s's from now on, epoch %d", l.name, holder, epoch)
	return epoch, l.bind(ctx, holder, epoch)
}

// bind lets the fence pass writes of an epoch.
func (l *Lease) bind(ctx context.Context, holder string, epoch int64) error {
	if l.fence == nil {
		return nil
	}
	ld, err := l.read(ctx)
	if err != nil {
		return errors.Trace(err)
	}
	if ld.lease.Holder != holder || ld.lease.Epoch != epoch {
		return errors.WithType(errors.Errorf("lease %s has just been taken by %s", l.name, ld.lease.Holder), kind.LeaseDenied)
	}
	l.fence.open(l, epoch, ld.leaseRev)
	return nil
}

// Release gives up what was claimed through this lease's fence, so that somebody
// else need not wait. A lease that is not held is no error.
func (l *Lease) Release(ctx context.Context) error {
	epoch := l.fence.epochOf(l)
	if epoch == 0 {
		return nil
	}
	l.fence.open(l, 0, 0)
	err := l.c.run(ctx, func(int) ([]store.Op, error) {
		ld, err := l.read(ctx)
		if err != nil || ld.lease.Epoch != epoch || ld.lease.Holder == "" {
			return nil, err
		}
		op, err := writeOp(l.key(), ld.leaseRev, leaseDoc{Epoch: epoch, Since: l.c.now()}, nil)
		return []store.Op{op}, err
	})
	if errors.Is(err, errors.NotFound) {
		return nil
	}
	return errors.Annotatef(err, "cannot release lease %s", l.name)
}

// Wait returns when the lease can be claimed: it has no owner, or the owner
// has not renewed it in time. It returns ctx's error when that is done first.
func (l *Lease) Wait(ctx context.Context) error {
	var topics []topic
	for _, key := range []store.Key{l.key(), l.renewalKey()} {
		topics = append(topics, topic{collection: key.Collection, id: key.ID})
	}
	w := l.c.hub.watchTopic(topics...)
	defer w.Kill()
	for {
		ld, err := l.read(ctx)
		if err != nil {
			return errors.Trace(err)
		}
		rest := l.rest(ld)
		if ld.lease.Holder == "" || rest <= 0 {
			return nil
		}
		timer := time.NewTimer(rest)
		select {
		case <-ctx.Done():
			err = errors.Trace(ctx.Err())
		case _, ok := <-w.Changes():
			if !ok {
				err = errors.Trace(w.Wait())
			}
		case <-timer.C:
		}
		timer.Stop()
		if err != nil {
			return err
		}
	}
}

// sighting is when a controller first saw a lease at some revisions. Its time has
// the monotonic clock in it.
type sighting struct {
	lease, renewal store.Rev
	at             time.Time
}

// rest returns how long the owner has until somebody else may take over, as
// far as this controller can tell.
func (l *Lease) rest(ld leaseDocs) time.Duration {
	l.c.leasesMu.Lock()
	defer l.c.leasesMu.Unlock()
	seen := l.c.leases[l.name]
	if seen.lease != ld.leaseRev || seen.renewal != ld.renewalRev {
		seen = sighting{ld.leaseRev, ld.renewalRev, time.Now()}
		l.c.leases[l.name] = seen
	}
	duration := ld.renewal.Duration
	if ld.renewal.Epoch != ld.lease.Epoch {
		duration = MaxLease // not reached: both are written together
	}
	return duration - time.Since(seen.at)
}
