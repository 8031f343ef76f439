package provisioner

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/juju/errors"
	"gopkg.in/tomb.v2"

	apiprovisioner "github.com/slipway-project/slipway/api/provisioner"
	"github.com/slipway-project/slipway/core/status"
	"github.com/slipway-project/slipway/environs"
	"github.com/slipway-project/slipway/environs/config"
	"github.com/slipway-project/slipway/watcher"
)

// bulk is how many machines one call names at the most.
const bulk = 1000

// callTimeout bounds one call to the controller.
const callTimeout = time.Minute

// taskConfig is what a task works with.
type taskConfig struct {
	api      API
	broker   Broker
	owner    environs.Owner        // whose instances these are; names no machine
	model    func() *config.Config // the model's configuration as it is now
	settings settings
	network  Allocator // gives containers addresses; nil means that nobody does

	watch   func(ctx context.Context) (watcher.StringsWatcher, error) // the machines, by id
	retries func(ctx context.Context) (watcher.NotifyWatcher, error)  // nil means that nobody asks for retries
	ours    func(id string) bool                                      // whether a machine in error is one of those
}

// task drives the machines of one model, or the containers of one machine. Its loop alone touches its fields;
// everything that may take time is done by spawn, which reports back.
type task struct {
	tomb     tomb.Tomb
	cfg      taskConfig
	changes  chan settings // from the provisioner
	events   chan func()   // from whatever was spawned
	settings settings

	machines map[string]*machine
	queue    []place
	running  int // machines in phases starting and recording

	lister   *lister
	reporter *reporter

	unread   set // ids to be read again
	suspect  set // ids of machines that somebody else may have begun to start
	reading  bool
	dying    []*machine // to be made dead
	stops    []ended    // to be stopped
	removals []*machine
	broken   map[string]time.Time // when starts were given up that may still bring forth an instance; see chase
	chasing  bool                 // a look for such instances is arranged
	kept     set                  // ids of machines that were seen out and whose instances a harvest mode has left
	records  []started            // to be recorded
	sending  bool                 // a call that records is under way
	showing  bool                 // a look at the places in the queue is arranged

	standings standings
	fatal     error // ends the loop
}

// set is a set of machine ids.
type set map[string]struct{}

// newTask starts a task.
func newTask(cfg taskConfig) *task {
	t := &task{
		cfg:      cfg,
		changes:  make(chan settings),
		events:   make(chan func()),
		settings: cfg.settings,
		machines: make(map[string]*machine),
		unread:   make(set),
		kept:     make(set),
		broken:   make(map[string]time.Time),
	}
	t.lister = &lister{list: t.list, spawn: t.spawn, always: t.stray}
	t.reporter = &reporter{send: cfg.api.SetInstanceStatus, spawn: t.spawn, waiting: make(map[string]apiprovisioner.NewStatus)}
	if f, ok := cfg.broker.(environs.Follower); ok {
		t.follow(f)
	}
	t.tomb.Go(t.run)
	return t
}

// Kill asks the task to stop.
func (t *task) Kill() { t.tomb.Kill(nil) }

// Wait returns when the task, and all that it spawned, has stopped.
func (t *task) Wait() error { return t.tomb.Wait() }

// change gives the task new settings, unless it is stopping.
func (t *task) change(s settings) {
	select {
	case t.changes <- s:
	case <-t.tomb.Dying():
	}
}

// spawn runs work outside of the loop, and what work returns inside of it. Work
// must end when its context is done.
func (t *task) spawn(work func(ctx context.Context) func()) {
	t.tomb.Go(func() error {
		then := work(t.tomb.Context(nil))
		select {
		case t.events <- then:
		case <-t.tomb.Dying():
		}
		return nil
	})
}

// after runs a function in the loop after a pause, unless the machine has
// entered another phase by then.
func (t *task) after(d time.Duration, m *machine, then func()) {
	turn := m.turn
	t.later(d, func() {
		if m.turn == turn {
			then()
		}
	})
}

// later runs a function in the loop after a pause.
func (t *task) later(d time.Duration, then func()) {
	t.spawn(func(ctx context.Context) func() {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
		return then
	})
}

// run is loop, but for what comes of being killed.
func (t *task) run() error {
	err := t.loop()
	if !t.tomb.Alive() {
		return tomb.ErrDying // whatever call was cut off by that
	}
	return err
}

// loop makes all decisions.
func (t *task) loop() error {
	ctx := t.tomb.Context(nil)
	machines, err := t.cfg.watch(ctx)
	if err != nil {
		return errors.Annotate(err, "cannot watch machines")
	}
	t.owns(machines)
	var retries watcher.NotifyWatcher
	var retry <-chan struct{}
	if t.cfg.retries != nil {
		if retries, err = t.cfg.retries(ctx); err != nil {
			return errors.Annotate(err, "cannot watch for retries")
		}
		t.owns(retries)
		retry = retries.Changes()
	}

	t.survey()
	for {
		select {
		case <-t.tomb.Dying():
			return tomb.ErrDying
		case ids, ok := <-machines.Changes():
			if !ok {
				return t.ended(machines.Wait(), "machine watcher")
			}
			for _, id := range ids {
				t.unread[id] = struct{}{}
			}
			if t.suspect == nil {
				t.suspect = maps.Clone(t.unread)
			}
		case _, ok := <-retry:
			if !ok {
				return t.ended(retries.Wait(), "retry watcher")
			}
			t.retry()
		case s := <-t.changes:
			t.settings = s
			t.survey() // another harvest mode may want something stopped
		case then := <-t.events:
			then()
		}
		if t.flush(); t.fatal != nil {
			return t.fatal
		}
	}
}

// owns ties the end of a watcher to the task's.
func (t *task) owns(w interface {
	Kill()
	Wait() error
}) {
	t.tomb.Go(func() error {
		<-t.tomb.Dying()
		w.Kill()
		_ = w.Wait() // a failure has been seen by the loop, or comes of the end
		return nil
	})
}

// ended returns why the loop cannot go on when a watcher has ended.
func (t *task) ended(err error, what string) error {
	if !t.tomb.Alive() {
		return tomb.ErrDying
	}
	if err == nil {
		return errors.Errorf("%s ended", what)
	}
	return errors.Annotatef(err, "%s ended", what)
}

// flush begins whatever calls are due. It runs after each event, so that what
// an event asked for many machines goes into one call.
func (t *task) flush() {
	t.read()
	t.ensureDead()
	t.stopEnded()
	t.remove()
	t.lister.flush()
	t.dispatch()
	t.record()
	t.reporter.flush()
}

// survey asks for an inventory for its own sake.
func (t *task) survey() {
	t.lister.ask(func(_ inventory, err error) {
		if err != nil {
			logger.Warningf("cannot list the instances of model %s, trying again: %v", t.cfg.owner.ModelUUID, err)
			t.later(t.settings.rest.Delay(3), t.survey)
		}
	})
}

// rest has a machine's next attempt at something made after a pause that grows
// with its failures, and its status say why and when.
func (t *task) rest(m *machine, p phase, what string, err error, then func()) {
	m.failures++
	d := t.settings.rest.Delay(m.failures)
	m.enter(p)
	next := time.Now().Add(d)
	message := fmt.Sprintf("%s: %v; attempt %d failed, next try at %s", what, err, m.failures, next.UTC().Format(time.RFC3339))
	logger.Infof("machine %s: %s", m.id, message)
	t.reporter.report(m.id, status.Pending, message, map[string]any{
		status.DataTries: m.failures, status.DataNextTry: next.UTC().Format(time.RFC3339),
	})
	t.after(d, m, then)
}
