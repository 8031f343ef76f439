package provisioner

import (
	"context"
	"crypto/rand"
	"sync/atomic"
	"time"

	"github.com/juju/errors"
	"gopkg.in/tomb.v2"

	"github.com/slipway-project/slipway/api"
	"github.com/slipway-project/slipway/api/hosts"
	apipoller "github.com/slipway-project/slipway/api/instancepoller"
	"github.com/slipway-project/slipway/api/modelworkers"
	apiprovisioner "github.com/slipway-project/slipway/api/provisioner"
	"github.com/slipway-project/slipway/api/singular"
	"github.com/slipway-project/slipway/core/kind"
	"github.com/slipway-project/slipway/environs"
	"github.com/slipway-project/slipway/worker"
	"github.com/slipway-project/slipway/worker/lease"
)

// ModelsConfig is what Models works with. Info and Registry are required.
type ModelsConfig struct {
	Info     api.Info           // how a manager logs in to the controller model
	Options  api.DialOptions    //
	Registry *environs.Registry // of the providers that models may use
	Only     string             // the one model to care for; empty means all, as they come
	Backoff  worker.Backoff     // between attempts at anything that failed

	// Connected is called with each new connection to the controller model; nil
	// means that nobody wants to know.
	Connected func(c *api.Conn)

	// Lease is for how long a model is claimed; see lease.DefaultDuration, which 0
	// means.
	Lease time.Duration
}

// Models runs a Provisioner for each model whose lease it gets, until it is
// killed or the controller refuses its identity. Each model has a connection of
// its own, and the failure of one touches no other.
type Models struct {
	tomb    tomb.Tomb
	trusted atomic.Pointer[string] // the authorities named last, as PEM
	cfg     ModelsConfig
	runner  *worker.Runner
	session string // tells this process from others with the same identity
}

// NewModels starts the provisioners of all models, or of one.
func NewModels(cfg ModelsConfig) (*Models, error) {
	if cfg.Registry == nil {
		return nil, errors.NotValidf("missing Registry")
	}
	if err := cfg.Info.Validate(); err != nil {
		return nil, errors.Trace(err)
	}
	if cfg.Lease == 0 {
		cfg.Lease = lease.DefaultDuration
	}
	m := &Models{cfg: cfg, runner: worker.NewRunner(cfg.Backoff), session: rand.Text()}
	m.tomb.Go(func() error {
		m.tomb.Go(m.follow)
		<-m.tomb.Dying()
		m.runner.Kill()
		return m.runner.Wait()
	})
	return m, nil
}

// Kill asks all provisioners to stop.
func (m *Models) Kill() { m.tomb.Kill(nil) }

// Wait returns when all have stopped: nil after Kill, else why.
func (m *Models) Wait() error { return m.tomb.Wait() }

// follow hears of models and has a provisioner run for each.
func (m *Models) follow() error {
	r := api.Reconnector{Info: m.cfg.Info, Options: m.cfg.Options, Backoff: m.cfg.Backoff}
	err := r.Run(m.tomb.Context(nil), func(ctx context.Context, c *api.Conn) error {
		ca := c.CACert()
		m.trusted.Store(&ca)
		if m.cfg.Connected != nil {
			m.cfg.Connected(c)
		}
		if m.cfg.Only != "" {
			m.begin(c, m.cfg.Only)
			<-ctx.Done() // the connection is kept: it shows that the worker is there
			return errors.Trace(ctx.Err())
		}
		return m.watch(ctx, c)
	})
	if !m.tomb.Alive() {
		return nil
	}
	return errors.Annotate(err, "cannot care for models")
}

// watch hears of models over one connection, until that ends.
func (m *Models) watch(ctx context.Context, c *api.Conn) error {
	w, err := modelworkers.New(c).WatchModels(ctx)
	if err != nil {
		return errors.Trace(err)
	}
	defer func() {
		w.Kill()
		_ = w.Wait() // its failure has been seen
	}()
	for {
		select {
		case <-ctx.Done():
			return errors.Trace(ctx.Err())
		case uuids, ok := <-w.Changes():
			if !ok {
				return errors.Annotate(w.Wait(), "model watcher ended")
			}
			for _, uuid := range uuids {
				m.begin(c, uuid)
			}
		}
	}
}

// begin has a provisioner run for a model, if none does yet.
func (m *Models) begin(c *api.Conn, uuid string) {
	info := m.cfg.Info
	info.Addrs = c.Addrs()
	info.ModelUUID = uuid
	controller := c.ControllerUUID()
	err := m.runner.Start(uuid, func() (worker.Worker, error) {
		info := info
		info.CACert = *m.trusted.Load() // which may be another by then
		return m.open(info, controller)
	})
	if err == nil {
		logger.Infof("caring for model %s", uuid)
	} else if !errors.Is(err, errors.AlreadyExists) && m.tomb.Alive() {
		logger.Errorf("cannot care for model %s: %v", uuid, err)
	}
}

// open connects to a model and has it cared for whenever this process is the one
// to do so.
func (m *Models) open(info api.Info, controllerUUID string) (worker.Worker, error) {
	conn, err := api.Open(m.tomb.Context(nil), info, m.cfg.Options)
	if errors.Is(err, kind.ModelNotFound) {
		return nil, worker.ErrDone
	}
	if err != nil {
		return nil, errors.Trace(err)
	}
	k, err := lease.New(lease.Config{
		Name: "of model " + info.ModelUUID,
		Claimer: singular.New(singular.Config{
			Caller: conn, Entity: api.ModelTag(info.ModelUUID), Claimant: info.Tag, Session: m.session, Duration: m.cfg.Lease,
		}),
		Duration: m.cfg.Lease,
		Start: func(t *lease.Tenure) (worker.Worker, error) {
			return New(Config{
				API: apiprovisioner.New(conn), Registry: m.cfg.Registry,
				ModelUUID: info.ModelUUID, ControllerUUID: controllerUUID, Epoch: t.Epoch,
				Hosts: hosts.New(conn), Instances: apipoller.New(conn),
			})
		},
	})
	if err != nil {
		_ = conn.Close() // nobody uses it
		return nil, errors.Trace(err)
	}
	return &connected{Keeper: k, conn: conn}, nil
}

// connected is a keeper with a connection of its own, which ends with it.
type connected struct {
	*lease.Keeper
	conn *api.Conn
}

// Wait returns when the keeper has stopped and its connection is closed.
func (c *connected) Wait() error {
	select {
	case <-c.conn.Broken():
		c.Kill()
	case <-c.Dead():
	}
	err := c.Keeper.Wait()
	select {
	case <-c.conn.Broken():
		err = api.ErrBroken
	default:
	}
	_ = c.conn.Close() // done with
	return err
}
