package containers

import (
	"context"
	"time"

	"github.com/juju/errors"
	"github.com/juju/loggo"
	"gopkg.in/tomb.v2"

	apiprovisioner "github.com/slipway-project/slipway/api/provisioner"
	"github.com/slipway-project/slipway/core/container"
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
	SetSupportedContainers(ctx context.Context, id string, types ...string) error
	WatchContainers(ctx context.Context, id, containerType string) (watcher.StringsWatcher, error)
	WatchAllContainers(ctx context.Context, id string) (watcher.StringsWatcher, error)
}

var _ API = (*apiprovisioner.Client)(nil)

// Config is what the worker works with. All but LXD.AgentBinary and Backoff is
// required.
type Config struct {
	API            API // logged in as the machine
	MachineID      string
	ModelUUID      string
	ControllerUUID string
	// Addresses are those under which this machine reaches the API, host:port
	// each. Containers are told of them before those that the controller
	// publishes, which may not lead there from this machine.
	Addresses []string
	// LXD says where the machine's own LXD server is, as its only host.
	LXD lxd.Options
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
	if !usable {
		<-w.tomb.Dying() // the next connection looks again
		return tomb.ErrDying
	}
	if err := w.awaitFirst(ctx); err != nil {
		return w.ended(err)
	}
	p, err := provisioner.New(provisioner.Config{
		API:            hostAPI{API: w.cfg.API, host: w.cfg.MachineID, addresses: w.cfg.Addresses},
		Registry:       providers{w.cfg},
		ModelUUID:      w.cfg.ModelUUID,
		ControllerUUID: w.cfg.ControllerUUID,
	})
	if err != nil {
		return errors.Trace(err)
	}
	w.tomb.Go(func() error {
		<-w.tomb.Dying()
		p.Kill()
		return nil
	})
	err = p.Wait()
	if err == nil && w.tomb.Alive() {
		err = errors.New("it stopped without being asked to")
	}
	return w.ended(errors.Annotate(err, "cannot go on provisioning containers"))
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

// awaitFirst returns when a container has been asked for and the machine is set
// up for it.
func (w *Worker) awaitFirst(ctx context.Context) error {
	all, err := w.cfg.API.WatchAllContainers(ctx, w.cfg.MachineID)
	if err != nil {
		return errors.Annotate(err, "cannot watch containers")
	}
	defer func() {
		all.Kill()
		_ = all.Wait() // its end is no news
	}()
	var again <-chan time.Time
	var waiting []string
	for failures := 0; ; {
		select {
		case <-w.tomb.Dying():
			return tomb.ErrDying
		case ids, ok := <-all.Changes():
			if !ok {
				return errors.Annotate(all.Wait(), "cannot watch containers")
			}
			for _, id := range ids {
				if tag.ContainerType(id) == container.LXD {
					waiting = append(waiting, id)
				}
			}
		case <-again:
		}
		if len(waiting) == 0 {
			continue
		}
		err := lxd.SetUp(ctx, w.address())
		if err == nil {
			return nil
		}
		failures++
		pause := w.cfg.Backoff.Delay(failures)
		again = time.After(pause)
		w.complain(ctx, waiting, err, failures, time.Now().Add(pause))
	}
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
