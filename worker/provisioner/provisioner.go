package provisioner

import (
	"context"
	"sync/atomic"

	"github.com/juju/errors"
	"github.com/juju/loggo"
	"gopkg.in/tomb.v2"

	"github.com/slipway-project/slipway/core/container"
	"github.com/slipway-project/slipway/core/tag"
	"github.com/slipway-project/slipway/environs"
	"github.com/slipway-project/slipway/environs/config"
	"github.com/slipway-project/slipway/watcher"
	"github.com/slipway-project/slipway/worker"
	"github.com/slipway-project/slipway/worker/instancepoller"
)

var logger = loggo.GetLogger("slipway.worker.provisioner")

// Config is what a provisioner works with. API, the UUIDs, and Registry
// or Host are required.
type Config struct {
	API            API       // logged in to the model, as a manager or as Host's agent
	Registry       Providers // that a model may use; not needed with Host
	ModelUUID      string
	ControllerUUID string
	Epoch          int64 // of the lease under which it works; 0 means none
	// Hosts are the site's bare-metal hosts, for models whose machines are some;
	// nil means none.
	Hosts environs.HostPool

	// Instances is whom to tell what becomes of instances that run; nil means that
	// nobody wants to know. It is not used with Host.
	Instances instancepoller.API

	// Network gives containers their addresses; nil means that whoever starts
	// them does, as is so for top-level machines.
	Network Allocator

	// Host is the machine whose containers are cared for; nil means the
	// top-level machines of the model.
	Host *Host
}

// Host is a machine with containers. All fields but Retries are required.
type Host struct {
	ID     string         // of the machine
	Type   container.Type // of those of its direct containers that are cared for
	Broker Broker         // starts and stops them; its instances name model and container as owner
	// Retries tells when another try of containers in error is asked for; nil means
	// that nobody asks.
	Retries func(ctx context.Context) (watcher.NotifyWatcher, error)
}

// Providers opens what runs a model's machines; *environs.Registry does so by the
// name in the model's settings.
type Providers interface {
	// Validate returns settings as they are to be kept, or says what is wrong
	// with them.
	Validate(cfg, old *config.Config) (*config.Config, error)
	// Open opens an environ.
	Open(ctx context.Context, p environs.OpenParams) (environs.Environ, error)
}

var _ Providers = (*environs.Registry)(nil)

// Validate returns an error satisfying errors.NotValid if something is missing.
func (c Config) Validate() error {
	switch {
	case c.API == nil:
		return errors.NotValidf("missing API")
	case c.Registry == nil && c.Host == nil:
		return errors.NotValidf("missing Registry")
	case c.ModelUUID == "" || c.ControllerUUID == "":
		return errors.NotValidf("missing UUID")
	case c.Host != nil && (c.Host.ID == "" || c.Host.Type == "" || c.Host.Broker == nil):
		return errors.NotValidf("host without an id, a container type or a broker")
	}
	return nil
}

// Provisioner cares for the machines of one model, or for the containers of one
// machine, until it is killed, its connection breaks, or the controller cannot be
// understood.
type Provisioner struct {
	tomb  tomb.Tomb
	cfg   Config
	model atomic.Pointer[config.Config]
}

// New starts a provisioner.
func New(cfg Config) (*Provisioner, error) {
	if err := cfg.Validate(); err != nil {
		return nil, errors.Trace(err)
	}
	p := &Provisioner{cfg: cfg}
	p.tomb.Go(p.run)
	return p, nil
}

// Kill asks the provisioner to stop.
func (p *Provisioner) Kill() { p.tomb.Kill(nil) }

// Wait returns when the provisioner has stopped: nil after Kill, else why.
func (p *Provisioner) Wait() error { return p.tomb.Wait() }

// run is loop, but for what comes of being killed.
func (p *Provisioner) run() error {
	err := p.loop()
	if !p.tomb.Alive() {
		return tomb.ErrDying // whatever call was cut off by that
	}
	return err
}

// loop follows the model's configuration, and has a task do the work once the
// configuration can be worked with.
func (p *Provisioner) loop() error {
	ctx := p.tomb.Context(nil)
	changes, err := p.cfg.API.WatchModelConfig(ctx)
	if err != nil {
		return errors.Annotate(err, "cannot watch the model's configuration")
	}
	p.tomb.Go(func() error {
		<-p.tomb.Dying()
		changes.Kill()
		_ = changes.Wait() // its failure has been seen by the loop
		return nil
	})

	var environ environs.Environ
	var work *task
	defer func() {
		if work != nil { // whyever this ends, nobody else would end the task
			work.Kill()
			_ = work.Wait() // the reason of the end is told, or it was asked to
		}
	}()
	for {
		var ended <-chan struct{}
		if work != nil {
			ended = work.tomb.Dead()
		}
		select {
		case <-p.tomb.Dying():
			return tomb.ErrDying
		case <-ended:
			err := work.Wait()
			if err == nil {
				err = errors.New("it stopped without being asked to")
			}
			return errors.Annotate(err, "cannot go on provisioning")
		case _, ok := <-changes.Changes():
			if !ok {
				err := changes.Wait()
				if err == nil && p.tomb.Alive() {
					err = errors.New("model configuration watcher ended")
				}
				return errors.Trace(err)
			}
			if environ, work, err = p.configure(ctx, environ, work); err != nil {
				return errors.Trace(err)
			}
		}
	}
}

// configure takes in the model's configuration: it opens the environ the first
// time, and passes later changes on. A configuration that cannot be worked with
// is logged, and the last good one stays in force.
func (p *Provisioner) configure(ctx context.Context, environ environs.Environ, work *task) (environs.Environ, *task, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	attrs, err := p.cfg.API.ModelConfig(ctx)
	if errors.Is(err, errors.NotFound) { // the model has been removed
		return environ, work, errors.WithType(errors.Annotate(err, "there is nothing more to do"), worker.ErrDone)
	}
	if err != nil {
		return environ, work, errors.Annotate(err, "cannot read the model's configuration")
	}
	model, err := config.New(attrs)
	if err == nil && p.cfg.Host == nil {
		environ, model, err = p.open(ctx, environ, model)
	}
	if err != nil {
		logger.Errorf("model %s: its configuration cannot be used, waiting for another: %v", p.cfg.ModelUUID, err)
		return environ, work, nil
	}
	p.model.Store(model)
	if work != nil {
		work.change(settingsOf(model))
		return environ, work, nil
	}
	cfg := taskConfig{
		api:      p.cfg.API,
		broker:   environ,
		owner:    environs.Owner{ControllerUUID: p.cfg.ControllerUUID, ModelUUID: p.cfg.ModelUUID},
		settings: settingsOf(model),
		network:  p.cfg.Network,
		model:    p.model.Load,
		watch:    p.cfg.API.WatchModelMachines,
		retries:  p.cfg.API.WatchMachineErrorRetry,
		ours:     func(string) bool { return true },
	}
	if h := p.cfg.Host; h != nil {
		cfg.broker, cfg.retries = h.Broker, h.Retries
		cfg.ours = func(id string) bool { return tag.Parent(id) == h.ID && tag.ContainerType(id) == h.Type }
		cfg.watch = func(ctx context.Context) (watcher.StringsWatcher, error) {
			return p.cfg.API.WatchContainers(ctx, h.ID, string(h.Type))
		}
	}
	if h := p.cfg.Host; h == nil && p.cfg.Instances != nil {
		if err := p.watchInstances(environ, cfg.owner); err != nil {
			return environ, nil, errors.Trace(err)
		}
	}
	return environ, newTask(cfg), nil
}

// watchInstances has the controller told what becomes of instances, until the
// provisioner stops.
func (p *Provisioner) watchInstances(environ environs.Environ, owner environs.Owner) error {
	w, err := instancepoller.New(instancepoller.Config{API: p.cfg.Instances, Lister: environ, Owner: owner})
	if err != nil {
		return errors.Trace(err)
	}
	p.tomb.Go(func() error {
		<-p.tomb.Dying()
		w.Kill()
		return errors.Trace(w.Wait())
	})
	return nil
}

// open opens the environ, or has it take in another configuration. It returns
// the environ, which is nil if it cannot be opened, and the configuration as the provider
// reads it.
func (p *Provisioner) open(ctx context.Context, environ environs.Environ, model *config.Config) (environs.Environ, *config.Config, error) {
	model, err := p.cfg.Registry.Validate(model, nil)
	switch {
	case err != nil:
	case environ != nil:
		err = environ.SetConfig(ctx, model)
	default:
		environ, err = p.cfg.Registry.Open(ctx, environs.OpenParams{
			ControllerUUID: p.cfg.ControllerUUID, Config: model, Epoch: p.cfg.Epoch, Hosts: p.cfg.Hosts,
		})
	}
	return environ, model, err
}
