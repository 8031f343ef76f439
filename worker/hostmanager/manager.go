package hostmanager

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/juju/errors"
	"github.com/juju/loggo"
	"gopkg.in/tomb.v2"

	"github.com/slipway-project/slipway/environs/baremetal/bmc"
	metal3v1alpha1 "github.com/slipway-project/slipway/environs/baremetal/metal3/v1alpha1"
	"github.com/slipway-project/slipway/environs/baremetal/provisioner"
	"github.com/slipway-project/slipway/watcher"
)

var logger = loggo.GetLogger("slipway.worker.hostmanager")

// Config is what a manager needs.
type Config struct {
	// Store is where host records are; required.
	Store Store
	// Factory returns the back end's factory, whose Provisioners stop when ctx is
	// done; required. It is called once for each host.
	Factory func(ctx context.Context) provisioner.Factory
	// Slots is how many hosts may write images at one time; 0 means 20.
	Slots int
	// CallLimit is longer than any call of the back end takes; 0 means 2 minutes.
	CallLimit time.Duration
	// Random returns numbers in [0, 1) for the jitter of waiting times; nil means
	// truly random ones. It is called from many goroutines.
	Random func() float64
}

// Validate returns an error satisfying errors.NotValid if something is missing.
func (c Config) Validate() error {
	switch {
	case c.Store == nil:
		return errors.NotValidf("host manager without Store")
	case c.Factory == nil:
		return errors.NotValidf("host manager without Factory")
	case c.Slots < 0:
		return errors.NotValidf("host manager with %d slots", c.Slots)
	}
	return nil
}

// Manager looks after all hosts. It is a worker: it lives until it is killed, its
// store fails, or another manager takes over.
type Manager struct {
	config Config
	tomb   tomb.Tomb
	queue  *queue

	mu     sync.Mutex
	actors map[string]*actor
}

// New starts a manager. The error satisfies errors.NotValid.
func New(c Config) (*Manager, error) {
	if err := c.Validate(); err != nil {
		return nil, errors.Trace(err)
	}
	if c.Slots == 0 {
		c.Slots = 20
	}
	if c.CallLimit == 0 {
		c.CallLimit = 2 * time.Minute
	}
	if c.Random == nil {
		c.Random = rand.Float64
	}
	m := &Manager{config: c, actors: make(map[string]*actor)}
	m.queue = newQueue(c.Slots, m.wake)
	m.tomb.Go(m.run)
	return m, nil
}

// Kill asks the manager to stop. Calls under way are broken off.
func (m *Manager) Kill() { m.tomb.Kill(nil) }

// Wait returns when the manager has stopped; ErrNotOwner if another one has taken
// over.
func (m *Manager) Wait() error { return m.tomb.Wait() }

// run is loop, but for what comes of being killed.
func (m *Manager) run() error {
	err := m.loop()
	if !m.tomb.Alive() {
		return tomb.ErrDying // whatever call was cut off by that
	}
	return err
}

// loop hands out records as they change.
func (m *Manager) loop() error {
	ctx := m.tomb.Context(nil)
	w, err := m.config.Store.WatchHosts(ctx)
	if err != nil {
		return errors.Annotate(err, "cannot watch hosts")
	}
	defer func() {
		w.Kill()
		_ = w.Wait()
	}()
	for {
		select {
		case <-m.tomb.Dying():
			return tomb.ErrDying
		case ids, ok := <-w.Changes():
			if !ok {
				return ended(w)
			}
			if err := m.update(ctx, ids); err != nil {
				return errors.Trace(err)
			}
		}
	}
}

// ended returns why a watcher ended.
func ended(w watcher.Watcher) error {
	if err := w.Wait(); err != nil {
		return errors.Annotate(err, "cannot watch hosts")
	}
	return errors.New("the stream of changes to hosts ended")
}

// update reads the named hosts and hands them to their actors.
func (m *Manager) update(ctx context.Context, ids []string) error {
	if len(ids) == 0 {
		return nil
	}
	records, err := m.config.Store.Hosts(ctx, ids)
	if err != nil {
		return errors.Annotate(err, "cannot read hosts")
	}
	gone := make(map[string]bool, len(ids))
	for _, id := range ids {
		gone[id] = true
	}
	// Many at once are a start: their first passes are spread, one each
	// millisecond.
	spread := time.Duration(len(records)) * time.Millisecond
	for _, r := range records {
		delete(gone, r.ID)
		m.actor(ctx, r.ID, time.Duration(m.config.Random()*float64(spread))).offer(r)
	}
	for id := range gone {
		m.mu.Lock()
		a := m.actors[id]
		m.mu.Unlock()
		if a != nil {
			a.cancel()
		}
	}
	return nil
}

// actor returns the actor of a host. One that has to be started begins after a
// delay, and not before the last actor of the same host has ended.
func (m *Manager) actor(ctx context.Context, id string, delay time.Duration) *actor {
	m.mu.Lock()
	defer m.mu.Unlock()
	before := m.actors[id]
	if before != nil && before.ctx.Err() == nil {
		return before
	}
	a := &actor{m: m, id: id, poke: make(chan struct{}, 1), force: make(chan struct{}), done: make(chan struct{})}
	a.ctx, a.cancel = context.WithCancel(ctx)
	a.factory = m.config.Factory(a.ctx)
	m.actors[id] = a
	m.tomb.Go(func() error {
		defer m.forget(a)
		if before != nil {
			<-before.done // its calls end with its context
		}
		timer := time.NewTimer(delay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-a.ctx.Done():
			return nil
		}
		return a.run()
	})
	return a
}

// forget drops an actor that has ended.
func (m *Manager) forget(a *actor) {
	close(a.done)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.actors[a.id] == a {
		delete(m.actors, a.id)
	}
}

// wake has a host's actor make a pass.
func (m *Manager) wake(id string) {
	m.mu.Lock()
	a := m.actors[id]
	m.mu.Unlock()
	if a != nil {
		a.wake()
	}
}

// ByFamily returns a factory that leaves each host to the factory of its BMC's
// family, and hosts of other families to the fallback, which may be nil.
func ByFamily(factories map[bmc.Family]provisioner.Factory, fallback provisioner.Factory) provisioner.Factory {
	return func(host *metal3v1alpha1.BareMetalHost, creds bmc.Credentials, publish provisioner.EventPublisher) (provisioner.Provisioner, error) {
		address, err := bmc.Parse(host.Spec.BMC.Address)
		if err != nil {
			return nil, errors.Trace(err)
		}
		factory, ok := factories[address.Driver.Family]
		if !ok {
			factory = fallback
		}
		if factory == nil {
			return nil, errors.NewNotSupported(nil, "this site has no back end for BMCs of type "+address.Driver.Scheme)
		}
		return factory(host, creds, publish)
	}
}
