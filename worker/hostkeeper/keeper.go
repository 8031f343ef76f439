// Package hostkeeper runs the host manager of a site, in one process at a time.
package hostkeeper

import (
	"context"
	"crypto/rand"
	"time"

	"github.com/juju/errors"
	"github.com/juju/loggo"
	"gopkg.in/tomb.v2"

	"github.com/slipway-project/slipway/api"
	"github.com/slipway-project/slipway/api/hosts"
	apiinstalls "github.com/slipway-project/slipway/api/installs"
	"github.com/slipway-project/slipway/api/singular"
	"github.com/slipway-project/slipway/environs/baremetal/provisioner"
	"github.com/slipway-project/slipway/worker"
	"github.com/slipway-project/slipway/worker/hostmanager"
	"github.com/slipway-project/slipway/worker/installs"
	"github.com/slipway-project/slipway/worker/lease"
)

var logger = loggo.GetLogger("slipway.worker.hostkeeper")

// Config is what a Keeper works with. Info and Factory are required.
type Config struct {
	Info    api.Info // how a manager logs in to the controller model
	Options api.DialOptions
	// Factory returns the back end's factory, whose Provisioners stop when ctx is
	// done.
	Factory func(ctx context.Context) provisioner.Factory
	// Installer is what the back end has images written by; it is kept up to date while
	// hosts are cared for. Nil means that there is none.
	Installer *installs.Installer
	Lease     time.Duration // for how long the site is claimed; 0 means lease.DefaultDuration
	// CallLimit is longer than any call of the back end takes; see hostmanager.Config.
	CallLimit time.Duration
	Slots     int            // how many hosts may write images at one time; 0 means 20
	Backoff   worker.Backoff // between attempts at anything that failed
}

// Keeper cares for the hosts of a site whenever it is this process that holds the
// site's lease. It lives until it is killed, or the controller refuses its
// identity.
type Keeper struct {
	tomb    tomb.Tomb
	cfg     Config
	session string
}

// New starts a Keeper. The error satisfies errors.NotValid.
func New(cfg Config) (*Keeper, error) {
	if cfg.Factory == nil {
		return nil, errors.NotValidf("host keeper without a back end")
	}
	if err := cfg.Info.Validate(); err != nil {
		return nil, errors.Trace(err)
	}
	if cfg.Lease == 0 {
		cfg.Lease = lease.DefaultDuration
	}
	k := &Keeper{cfg: cfg, session: rand.Text()}
	k.tomb.Go(k.loop)
	return k, nil
}

// Kill asks the Keeper to stop.
func (k *Keeper) Kill() { k.tomb.Kill(nil) }

// Wait returns when it has stopped: nil after Kill, else why.
func (k *Keeper) Wait() error { return k.tomb.Wait() }

// loop keeps a connection, and cares for hosts over it.
func (k *Keeper) loop() error {
	r := api.Reconnector{Info: k.cfg.Info, Options: k.cfg.Options, Backoff: k.cfg.Backoff}
	err := r.Run(k.tomb.Context(nil), k.serve)
	if !k.tomb.Alive() {
		return nil
	}
	return errors.Annotate(err, "cannot care for hosts")
}

// serve cares for hosts over one connection, until that ends or the manager
// fails.
func (k *Keeper) serve(ctx context.Context, conn *api.Conn) error {
	keeper, err := lease.New(lease.Config{
		Name: "of the hosts",
		Claimer: singular.New(singular.Config{
			Caller: conn, Entity: "controller-" + conn.ControllerUUID(), Claimant: k.cfg.Info.Tag, Session: k.session, Duration: k.cfg.Lease,
		}),
		Duration: k.cfg.Lease,
		Start: func(*lease.Tenure) (worker.Worker, error) {
			return k.manage(conn)
		},
	})
	if err != nil {
		return errors.Trace(err)
	}
	stop := context.AfterFunc(ctx, keeper.Kill)
	defer stop()
	return errors.Trace(keeper.Wait())
}

// manage cares for hosts, and follows what their installers report.
func (k *Keeper) manage(conn *api.Conn) (worker.Worker, error) {
	m, err := hostmanager.New(hostmanager.Config{Store: NewStore(hosts.New(conn)), CallLimit: k.cfg.CallLimit, Slots: k.cfg.Slots, Factory: k.cfg.Factory})
	if err != nil || k.cfg.Installer == nil {
		return m, errors.Trace(err)
	}
	return newPair(m, k.cfg.Installer.Follow(apiinstalls.New(conn))), nil
}

// pair is two workers that live and end together.
type pair struct {
	tomb tomb.Tomb
}

func newPair(workers ...worker.Worker) *pair {
	p := &pair{}
	p.tomb.Go(func() error {
		for _, w := range workers {
			p.tomb.Go(func() error {
				stop := context.AfterFunc(p.tomb.Context(nil), w.Kill)
				defer stop()
				err := w.Wait()
				if err == nil && p.tomb.Alive() {
					err = errors.New("a part of the host keeper ended")
				}
				return err
			})
		}
		return nil
	})
	return p
}

// Kill asks both to end.
func (p *pair) Kill() { p.tomb.Kill(nil) }

// Wait returns when both have ended: the error of the first to fail.
func (p *pair) Wait() error { return p.tomb.Wait() }
