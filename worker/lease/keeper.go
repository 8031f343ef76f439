// Package lease has a worker run in one process at a time.
//
// A Keeper claims a lease from the controller and runs its worker while it holds
// that. Whoever holds a lease renews it all the time; a Keeper that could not
// renew stops its worker well before the controller would let another process
// take over. Both sides measure with clocks that nobody sets, from before the
// request here and from after it there, so the two times never overlap.
//
// A process that was held up in between, by a signal or a debugger, may still do one
// thing more when it goes on. So everything that the worker writes carries the
// epoch of its tenure, which the controller and the providers check.
package lease

import (
	"context"
	"sync"
	"time"

	"github.com/juju/errors"
	"github.com/juju/loggo"
	"gopkg.in/tomb.v2"

	"github.com/slipway-project/slipway/core/kind"
	"github.com/slipway-project/slipway/worker"
)

var logger = loggo.GetLogger("slipway.worker.lease")

// ErrLost says that the lease could not be renewed in time, or that somebody else
// has it.
const ErrLost = errors.ConstError("lease lost")

// DefaultDuration is for how long a lease is claimed. A worker that died is
// replaced after that time.
const DefaultDuration = 6 * time.Second

// Claimer claims one lease; see package api/singular.
type Claimer interface {
	// Claim takes the lease or renews it, and returns the owner's epoch. It
	// returns an error satisfying kind.LeaseDenied if somebody else has it.
	Claim(ctx context.Context) (int64, error)
	// Wait returns when the lease can be claimed.
	Wait(ctx context.Context) error
	// Release gives the lease up.
	Release(ctx context.Context) error
}

// Config is what a Keeper works with. All fields but Duration are required.
type Config struct {
	Name     string // of the lease, for the log
	Claimer  Claimer
	Duration time.Duration // what Claimer claims it for; 0 means DefaultDuration

	// Start starts the worker for one tenure. The worker must stop soon after it
	// is killed, whatever it is doing.
	Start func(t *Tenure) (worker.Worker, error)
}

// Validate returns an error satisfying errors.NotValid if something is missing.
func (c Config) Validate() error {
	if c.Name == "" || c.Claimer == nil || c.Start == nil {
		return errors.NotValidf("lease without a name, a claimer or a worker")
	}
	return nil
}

// Tenure is the time from one claim of the lease until it is lost.
type Tenure struct {
	// Epoch grows with every tenure, whoever's it is.
	Epoch int64

	mu    sync.Mutex
	until time.Time
}

// Rest returns how long the worker may go on, as of the last renewal. It is zero
// once the lease is lost.
func (t *Tenure) Rest() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return max(0, time.Until(t.until))
}

func (t *Tenure) extend(until time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.until = until
}

// Keeper runs a worker while it holds a lease, and otherwise waits for it. It
// ends when it is killed, when its worker fails, and when the controller cannot be
// asked; that is for a worker.Runner to go on from.
type Keeper struct {
	tomb tomb.Tomb
	cfg  Config
}

// New starts a Keeper.
func New(cfg Config) (*Keeper, error) {
	if err := cfg.Validate(); err != nil {
		return nil, errors.Trace(err)
	}
	if cfg.Duration == 0 {
		cfg.Duration = DefaultDuration
	}
	k := &Keeper{cfg: cfg}
	k.tomb.Go(k.loop)
	return k, nil
}

// Kill asks the Keeper and its worker to stop.
func (k *Keeper) Kill() { k.tomb.Kill(nil) }

// Wait returns when both have stopped: nil after Kill, else why.
func (k *Keeper) Wait() error { return k.tomb.Wait() }

// Dead is closed when Wait would return.
func (k *Keeper) Dead() <-chan struct{} { return k.tomb.Dead() }

// loop claims the lease, again and again.
func (k *Keeper) loop() error {
	ctx := k.tomb.Context(nil)
	for {
		begun := time.Now()
		epoch, err := k.cfg.Claimer.Claim(ctx)
		switch {
		case !k.tomb.Alive():
			k.release()
			return nil
		case err == nil:
			err = k.serve(&Tenure{Epoch: epoch, until: k.end(begun)})
		case errors.Is(err, kind.LeaseDenied):
			logger.Infof("lease %s: waiting until the worker that has it is gone: %v", k.cfg.Name, err)
			err = k.cfg.Claimer.Wait(ctx)
		}
		if !k.tomb.Alive() {
			return nil
		}
		if err != nil && !errors.Is(err, ErrLost) {
			return errors.Trace(err)
		}
	}
}

// end returns when a worker has to stop at the latest that was allowed to work by
// a claim begun at a time. The last quarter is for stopping.
func (k *Keeper) end(begun time.Time) time.Time { return begun.Add(k.cfg.Duration * 3 / 4) }

// serve runs the worker for one tenure.
func (k *Keeper) serve(t *Tenure) error {
	logger.Infof("lease %s is held, epoch %d", k.cfg.Name, t.Epoch)
	w, err := k.cfg.Start(t)
	if err != nil {
		k.release()
		return errors.Trace(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- w.Wait() }() // ends when the worker does, which is waited for
	err = k.hold(t, ended)
	if errors.Is(err, ErrLost) {
		logger.Warningf("lease %s, epoch %d: stopping: %v", k.cfg.Name, t.Epoch, err)
	}
	w.Kill()
	if werr := <-ended; err == nil && k.tomb.Alive() {
		err = werr
		if err == nil {
			err = errors.New("it stopped without being asked to")
		}
	}
	if !errors.Is(err, ErrLost) {
		k.release()
	}
	return err
}

// hold renews the lease until it is lost, the worker ends, or the Keeper is
// killed. What is in ended stays there.
func (k *Keeper) hold(t *Tenure, ended chan error) error {
	ctx, cancel := context.WithCancel(k.tomb.Context(nil))
	defer cancel()
	lost := time.NewTimer(t.Rest())
	defer lost.Stop()
	renew := time.NewTimer(k.cfg.Duration / 4)
	defer renew.Stop()
	answers := make(chan renewal, 1)
	for {
		select {
		case <-k.tomb.Dying():
			return nil
		case err := <-ended:
			ended <- err
			return nil
		case <-lost.C:
			return errors.WithType(errors.New("it could not be renewed in time"), ErrLost)
		case <-renew.C:
			go k.renew(ctx, answers) // there is room for its answer
		case r := <-answers:
			switch {
			case t.Rest() == 0:
				return errors.WithType(errors.New("it was renewed too late"), ErrLost)
			case r.err == nil && r.epoch == t.Epoch:
				t.extend(k.end(r.begun))
				lost.Reset(t.Rest())
				renew.Reset(k.cfg.Duration / 4)
			case r.err == nil:
				return errors.WithType(errors.Errorf("it is at epoch %d by now", r.epoch), ErrLost)
			case errors.Is(r.err, kind.LeaseDenied):
				return errors.WithType(r.err, ErrLost)
			default:
				logger.Debugf("lease %s: trying again to renew it: %v", k.cfg.Name, r.err)
				renew.Reset(k.cfg.Duration / 20)
			}
		}
	}
}

// renewal is the answer to one renewal.
type renewal struct {
	begun time.Time
	epoch int64
	err   error
}

// renew asks once for the lease to go on.
func (k *Keeper) renew(ctx context.Context, answers chan<- renewal) {
	r := renewal{begun: time.Now()}
	r.epoch, r.err = k.cfg.Claimer.Claim(ctx)
	answers <- r
}

// release gives the lease up, so that others need not wait; if that fails, they do.
func (k *Keeper) release() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(k.tomb.Context(nil)), 2*time.Second)
	defer cancel()
	if err := k.cfg.Claimer.Release(ctx); err != nil {
		logger.Debugf("lease %s could not be given up: %v", k.cfg.Name, err)
	}
}
