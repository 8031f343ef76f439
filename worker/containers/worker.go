package containers

import (
	"context"
	"slices"
	"time"

	"github.com/juju/errors"
	"github.com/juju/loggo"
	"gopkg.in/tomb.v2"

	apiprovisioner "github.com/slipway-project/slipway/api/provisioner"
	"github.com/slipway-project/slipway/core/container"
	"github.com/slipway-project/slipway/core/life"
	"github.com/slipway-project/slipway/core/status"
	"github.com/slipway-project/slipway/core/tag"
	"github.com/slipway-project/slipway/environs/lxd"
	"github.com/slipway-project/slipway/watcher"
	"github.com/slipway-project/slipway/worker"
	"github.com/slipway-project/slipway/worker/provisioner"
)

var logger = loggo.GetLogger("slipway.worker.containers")

// API is what the worker needs of its controller; *apiprovisioner.Client
// satisfies it.
type API interface {
	provisioner.API
	provisioner.Allocator
	SetSupportedContainers(ctx context.Context, id string, types ...string) error
	WatchContainers(ctx context.Context, id, containerType string) (watcher.StringsWatcher, error)
	WatchAllContainers(ctx context.Context, id string) (watcher.StringsWatcher, error)
}

var _ API = (*apiprovisioner.Client)(nil)

// Config is what the worker works with. All but Retries, LXD.AgentBinary, Resolvers
// and Backoff is required.
type Config struct {
	API API // logged in as the machine
	// Retries tells when another try of containers in error is asked for; nil means
	// that nobody asks.
	Retries        func(ctx context.Context) (watcher.NotifyWatcher, error)
	MachineID      string
	ModelUUID      string
	ControllerUUID string
	// Addresses are those under which this machine reaches the API, host:port
	// each. Containers are told of them before those that the controller
	// publishes, which may not lead there from this machine.
	Addresses []string
	// LXD says where the machine's own LXD server is, as its only host.
	LXD lxd.Options
	// Resolvers returns the DNS servers of containers that are given addresses
	// without any; nil means none.
	Resolvers func() []string
	// Backoff is between attempts to set up the machine.
	Backoff worker.Backoff
}

// Validate returns an error satisfying errors.NotValid if something is missing.
func (c Config) Validate() error {
	switch {
	case c.API == nil:
		return errors.NotValidf("missing API")
	case !tag.IsValidMachine(c.MachineID):
		return errors.NotValidf("machine id %q", c.MachineID)
	case c.ModelUUID == "" || c.ControllerUUID == "":
		return errors.NotValidf("missing UUID")
	case len(c.LXD.Hosts) != 1:
		return errors.NotValidf("%d LXD servers (want one)", len(c.LXD.Hosts))
	}
	return nil
}

// Worker provisions the containers on one machine.
type Worker struct {
	tomb tomb.Tomb
	cfg  Config
}

var _ worker.Worker = (*Worker)(nil)

// New starts a worker.
func New(cfg Config) (*Worker, error) {
	if err := cfg.Validate(); err != nil {
		return nil, errors.Trace(err)
	}
	w := &Worker{cfg: cfg}
	w.tomb.Go(w.loop)
	return w, nil
}

// Kill asks the worker to stop. Containers run on.
func (w *Worker) Kill() { w.tomb.Kill(nil) }

// Wait returns when the worker has stopped: nil after Kill, else why.
func (w *Worker) Wait() error { return w.tomb.Wait() }

// lookTimeout bounds a look at whether there is an LXD server.
const lookTimeout = 10 * time.Second

func (w *Worker) loop() error {
	ctx := w.tomb.Context(nil)
	usable, err := w.announce(ctx)
	if err != nil {
		return w.ended(err)
	}
	all, err := w.cfg.API.WatchAllContainers(ctx, w.cfg.MachineID)
	if err != nil {
		return w.ended(errors.Annotate(err, "cannot watch containers"))
	}
	defer func() {
		all.Kill()
		_ = all.Wait() // its end is no news
	}()
	return w.ended(w.attend(ctx, usable, all))
}

// attend sees to the containers for as long as the worker lives. Once one has been
// asked for and the machine is set up, a provisioner does; until then, and for
// containers that this machine cannot hold, those that are to go are removed.
func (w *Worker) attend(ctx context.Context, usable bool, all watcher.StringsWatcher) error {
	var again <-chan time.Time
	var waiting []string
	var ended chan error // the provisioner's; nil before it has been started
	for failures := 0; ; {
		select {
		case <-w.tomb.Dying():
			return tomb.ErrDying
		case err := <-ended:
			return errors.Annotate(err, "cannot go on provisioning containers")
		case ids, ok := <-all.Changes():
			if !ok {
				return errors.Annotate(all.Wait(), "cannot watch containers")
			}
			left, err := w.endPending(ctx, slices.DeleteFunc(slices.Concat(waiting, ids), func(id string) bool {
				return ended != nil && tag.ContainerType(id) == container.LXD
			}))
			if err != nil {
				return err
			}
			waiting = slices.DeleteFunc(left, func(id string) bool { return tag.ContainerType(id) != container.LXD })
		case <-again:
		}
		if ended != nil || !usable || len(waiting) == 0 {
			continue // the next connection looks again what the machine can hold
		}
		err := lxd.SetUp(ctx, w.address())
		if err == nil {
			if ended, err = w.provision(); err != nil {
				return err
			}
			again, waiting = nil, nil
			continue
		}
		failures++
		pause := w.cfg.Backoff.Delay(failures)
		again = time.After(pause)
		w.complain(ctx, waiting, err, failures, time.Now().Add(pause))
	}
}

// provision starts the provisioner. It ends with the worker; why it ends before
// is told on the channel.
func (w *Worker) provision() (chan error, error) {
	p, err := provisioner.New(provisioner.Config{
		API:            hostAPI{API: w.cfg.API, host: w.cfg.MachineID, retries: w.cfg.Retries, addresses: w.cfg.Addresses},
		Registry:       providers{w.cfg},
		Network:        w.cfg.API,
		ModelUUID:      w.cfg.ModelUUID,
		ControllerUUID: w.cfg.ControllerUUID,
	})
	if err != nil {
		return nil, errors.Trace(err)
	}
	w.tomb.Go(func() error {
		<-w.tomb.Dying()
		p.Kill()
		return nil
	})
	ended := make(chan error, 1)
	w.tomb.Go(func() error {
		err := p.Wait()
		if err == nil {
			err = errors.New("it stopped without being asked to")
		}
		ended <- err
		return nil
	})
	return ended, nil
}

// endPending removes those of the containers that are to go and were never
// recorded as started, as long as no provisioner does. It returns the others. One
// that was started all the same is found by its marks when there is a provisioner.
func (w *Worker) endPending(ctx context.Context, ids []string) ([]string, error) {
	slices.Sort(ids)
	ids = slices.Compact(ids)
	if len(ids) == 0 {
		return nil, nil
	}
	lives, err := w.cfg.API.Life(ctx, ids...)
	if err != nil {
		return nil, errors.Annotate(err, "cannot ask for containers")
	}
	instances, err := w.cfg.API.InstanceID(ctx, ids...)
	if err != nil {
		return nil, errors.Annotate(err, "cannot ask for containers")
	}
	var left, gone []string
	for i, id := range ids {
		switch {
		case lives[i].Err != nil: // it has been removed
		case lives[i].Value != life.Alive && errors.Is(instances[i].Err, errors.NotProvisioned):
			gone = append(gone, id)
		default:
			left = append(left, id)
		}
	}
	if len(gone) == 0 {
		return left, nil
	}
	for _, step := range []func(context.Context, ...string) ([]error, error){w.cfg.API.EnsureDead, w.cfg.API.Remove} {
		errs, err := step(ctx, gone...)
		if err != nil {
			return nil, errors.Annotate(err, "cannot remove containers")
		}
		for i, err := range errs {
			if err != nil {
				logger.Warningf("cannot remove container %s, which was never started: %v", gone[i], err)
			}
		}
	}
	return left, nil
}

// ended returns why the loop cannot go on.
func (w *Worker) ended(err error) error {
	if !w.tomb.Alive() {
		return tomb.ErrDying
	}
	return err
}

// address returns where the machine's LXD server is.
func (w *Worker) address() string {
	for _, a := range w.cfg.LXD.Hosts {
		return a
	}
	return ""
}

// announce tells the controller what containers the machine can hold, and
// reports whether it can hold any.
func (w *Worker) announce(ctx context.Context) (bool, error) {
	look, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	var types []string
	why := lxd.Usable(look, w.address())
	if why == nil {
		types = append(types, string(container.LXD))
	} else {
		logger.Infof("machine %s cannot hold containers: %v", w.cfg.MachineID, why)
	}
	err := w.cfg.API.SetSupportedContainers(ctx, w.cfg.MachineID, types...)
	return why == nil, errors.Annotate(err, "cannot tell which containers the machine can hold")
}

// complain has the statuses of waiting containers say that the machine cannot be
// set up yet.
func (w *Worker) complain(ctx context.Context, ids []string, why error, failures int, next time.Time) {
	logger.Warningf("machine %s cannot be set up for containers, trying again: %v", w.cfg.MachineID, why)
	set := make([]apiprovisioner.NewStatus, len(ids))
	for i, id := range ids {
		set[i] = apiprovisioner.NewStatus{
			ID: id, Status: status.Pending,
			Message: "machine " + w.cfg.MachineID + " is not ready for containers: " + why.Error(),
			Data:    map[string]any{status.DataTries: failures, status.DataNextTry: next.UTC().Format(time.RFC3339)},
		}
	}
	if _, err := w.cfg.API.SetInstanceStatus(ctx, set...); err != nil {
		logger.Warningf("cannot say so in the containers' statuses: %v", err)
	}
}
