package site

import (
	"context"
	stderrors "errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/juju/errors"
	"gopkg.in/tomb.v2"

	"github.com/slipway-project/slipway/api/agentfile"
	"github.com/slipway-project/slipway/apiserver"
	"github.com/slipway-project/slipway/environs"
	hostsim "github.com/slipway-project/slipway/environs/baremetal/simulated"
	"github.com/slipway-project/slipway/environs/config"
	"github.com/slipway-project/slipway/environs/simulated"
	"github.com/slipway-project/slipway/internal/metrics"
	"github.com/slipway-project/slipway/internal/tlsfiles"
	"github.com/slipway-project/slipway/state"
	"github.com/slipway-project/slipway/store"
	"github.com/slipway-project/slipway/worker/provisioner"
)

// Options say how to serve a site.
type Options struct {
	Dir      Dir                // required
	Registry *environs.Registry // required
	Listen   string             // instead of what the site was prepared with; empty means that
	// ListenAlso are more addresses of this machine to serve on, without ports: the
	// port is that of Listen. They are published as well.
	ListenAlso []string
	Worker     bool // whether to run the provisioners of all models in this process too
	Routes     map[string]http.Handler

	LogsSize int64         // of what is kept of one model's log, in bytes; 0 means 1 GiB
	LogsAge  time.Duration // of what is kept of logs; 0 means 72 hours

	Installer InstallerOptions

	AuditLog      string // file to record logins and changes in; empty means none
	MetricsListen string // HOST:PORT to serve metrics on; empty means nowhere

	// HostAgent is the program of the agents of simulated hosts, and HostDelays how
	// long each operation on such a host takes; see simulated.Options of their back
	// end. They matter only with Worker.
	HostAgent  simulated.AgentFunc
	HostDelays map[hostsim.Op]time.Duration
}

// Site is a controller that serves.
type Site struct {
	tomb    tomb.Tomb
	parts   []part // in the order in which they were started
	address string
	eyes    *eyes
	ownLog  *ownLog

	metricsAddress string // empty if metrics are not served
}

// part is something that a site consists of.
type part struct {
	name string
	kill func()
	wait func() error
	dead <-chan struct{} // closed when it ends by itself; nil if it never does
}

// Open opens a data directory and serves it. When it returns, clients are
// answered. A part that fails ends the whole.
func Open(ctx context.Context, o Options) (*Site, error) {
	settings, err := o.Dir.readDir()
	if err != nil {
		return nil, errors.Trace(err)
	}
	if o.Listen != "" {
		if _, _, err := splitListen(o.Listen); err != nil {
			return nil, errors.Trace(err)
		}
		settings.Listen = o.Listen
	}
	settings.Advertise = slices.Concat(settings.Advertise, o.ListenAlso)
	s := &Site{}
	if err := s.start(ctx, o, settings); err != nil {
		s.stop()
		return nil, errors.Trace(err)
	}
	s.tomb.Go(s.loop)
	return s, nil
}

// Addr returns where the site is served, as host:port.
func (s *Site) Addr() string { return s.address }

// Kill asks the site to end.
func (s *Site) Kill() { s.tomb.Kill(nil) }

// Wait returns when everything has ended: nil after Kill, else why.
func (s *Site) Wait() error { return s.tomb.Wait() }

// MetricsAddr returns where metrics are served, as host:port; empty if they are
// not.
func (s *Site) MetricsAddr() string { return s.metricsAddress }

// Reopen has the audit log begin anew at its path, where another program may
// have moved it away.
func (s *Site) Reopen() {
	if s.eyes.audit != nil {
		s.eyes.audit.Reopen()
	}
}

// start starts the parts, each after those that it needs.
func (s *Site) start(ctx context.Context, o Options, settings Settings) error {
	installer, err := o.Installer.config(o.Dir)
	if err != nil {
		return errors.Trace(err)
	}
	if err := s.openEyes(o); err != nil {
		return errors.Trace(err)
	}
	db, err := openStore(ctx, o.Dir, settings.Store)
	if err != nil {
		return errors.Trace(err)
	}
	s.add(part{name: "store", wait: db.Close})
	if m := s.eyes.metrics; m != nil {
		db = m.Store(db)
	}
	if err := upgrade(ctx, o.Dir, settings, o.Registry, db); err != nil {
		return errors.Trace(err)
	}
	controller, err := s.startState(ctx, o, db)
	if err != nil {
		return errors.Trace(err)
	}
	certs, err := tlsfiles.Open(string(o.Dir), hosts(settings))
	if err != nil {
		return errors.Trace(err)
	}
	s.eyes.health.probe = controller.Probe
	if err := s.openLogs(o, controller); err != nil {
		return errors.Trace(err)
	}
	listener, err := listen(settings.Listen, o.ListenAlso)
	if err != nil {
		return listenError(err, strings.Join(slices.Concat([]string{settings.Listen}, o.ListenAlso), " and "), "--listen")
	}
	server, err := apiserver.New(ctx, apiserver.Config{
		Controller: controller, Listener: listener,
		Certificate: certs.Certificate, CACert: certs.AuthorityPEM(),
		Schema:   func(provider string) (config.Schema, error) { return schemaOf(o.Registry, provider) },
		Observer: s.eyes.observer(), Logs: s.ownLog.logs, Routes: s.routes(o), Installer: installer,
		ServerID: settings.sharedID(),
	})
	if err != nil {
		return stderrors.Join(err, listener.Close())
	}
	s.address = server.Addr().String()
	s.add(part{name: "API server", kill: server.Kill, wait: server.Wait, dead: ended(server.Wait)})
	live := metrics.Live{Controller: controller, Server: server, Probe: s.eyes.health.look}
	if err := s.startMetrics(o.MetricsListen, live, certs.Certificate); err != nil {
		return errors.Trace(err)
	}
	herald, err := newHerald(ctx, o.Dir, controller, settings, s.address)
	if err != nil {
		return errors.Trace(err)
	}
	s.add(part{name: "herald", kill: herald.Kill, wait: herald.Wait, dead: herald.tomb.Dead()})
	trust, err := newAuthority(ctx, o.Dir, settings, certs, server)
	if err != nil {
		return errors.Trace(err)
	}
	s.add(part{name: "certificate authority", kill: trust.Kill, wait: trust.Wait})
	if o.Worker {
		return errors.Trace(s.startWorker(o))
	}
	return nil
}

// routes returns what is served beside the API.
func (s *Site) routes(o Options) map[string]http.Handler {
	routes := map[string]http.Handler{"GET /health": s.eyes.health}
	maps.Copy(routes, o.Routes)
	return routes
}

// schemaOf returns the table of a provider's own settings.
func schemaOf(r *environs.Registry, name string) (config.Schema, error) {
	p, err := r.Provider(name)
	if err != nil {
		return nil, errors.Trace(err)
	}
	return p.Schema(), nil
}

// startState opens the state and what keeps it in order.
func (s *Site) startState(ctx context.Context, o Options, db store.Store) (*state.Controller, error) {
	policy := newPolicy(o.Registry)
	keys, err := o.Dir.hostKeys()
	if err != nil {
		return nil, errors.Trace(err)
	}
	controller, err := state.Open(ctx, db, state.Options{Policy: policy, HostKeys: keys})
	if err != nil {
		return nil, errors.Annotatef(err, "cannot open the state in %s", o.Dir)
	}
	s.add(part{name: "state", wait: controller.Close})
	if err := checkHostKeys(ctx, o.Dir, controller); err != nil {
		return nil, errors.Trace(err)
	}
	rotation := newKeyRotation(o.Dir, controller)
	s.add(part{name: "keys of hosts", kill: rotation.Kill, wait: rotation.Wait})
	work := newCleaner(controller.Cleanups())
	s.add(part{name: "cleaner", kill: work.Kill, wait: work.Wait, dead: work.tomb.Dead()})
	return controller, nil
}

// startWorker runs the provisioners, which talk to the site as they would to
// any other.
func (s *Site) startWorker(o Options) error {
	w, err := StartModels(ModelsOptions{AgentFile: o.Dir.AgentFile(), Registry: o.Registry})
	if err != nil {
		return errors.Trace(err)
	}
	s.add(part{name: "provisioners", kill: w.Kill, wait: w.Wait, dead: ended(w.Wait)})
	h, err := StartHosts(HostsOptions{
		AgentFile: o.Dir.AgentFile(), SimulatedDir: o.Dir.Metal(),
		Simulated: hostsim.Options{Boot: bootWith(o.HostAgent), Delays: o.HostDelays},
	})
	if err != nil {
		return errors.Trace(err)
	}
	s.add(part{name: "host keeper", kill: h.Kill, wait: h.Wait, dead: ended(h.Wait)})
	return nil
}

// ModelsOptions say whose provisioners to run, and how.
type ModelsOptions struct {
	AgentFile string             // the identity to log in with; required
	Registry  *environs.Registry // required
	Only      string             // the UUID of the one model to care for; empty means all
	Lease     time.Duration      // for how long a model is claimed; 0 means lease.DefaultDuration
}

// StartModels runs the provisioners of models.
func StartModels(o ModelsOptions) (*provisioner.Models, error) {
	agent, err := agentfile.Read(o.AgentFile)
	if err != nil {
		return nil, errors.Trace(err)
	}
	return provisioner.NewModels(provisioner.ModelsConfig{
		Info: agent.Info(), Registry: o.Registry, Only: o.Only, Lease: o.Lease,
		Connected: keepTrust(o.AgentFile),
	})
}

// listenError says in one line why a server cannot listen where a flag says.
func listenError(err error, listen, flag string) error {
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return errors.Errorf("cannot listen on %s: the port is in use by another process; stop it, or choose another with %s", listen, flag)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return errors.Errorf("cannot listen on %s: this machine does not have that address; choose another with %s", listen, flag)
	case errors.Is(err, syscall.EACCES):
		return errors.Errorf("cannot listen on %s: the port is reserved for the superuser; choose another with %s", listen, flag)
	}
	return errors.Trace(err)
}

func (s *Site) add(p part) { s.parts = append(s.parts, p) }

// ended returns a channel that is closed when a part has ended.
func ended(wait func() error) <-chan struct{} {
	ch := make(chan struct{})
	go func() { // ends with the part, which the site waits for
		defer close(ch)
		_ = wait() // told by whoever waits for the part
	}()
	return ch
}

// loop waits until the site is to end, or one of its parts does.
func (s *Site) loop() error {
	failed := make(chan string, len(s.parts))
	for _, p := range s.parts {
		if p.dead == nil {
			continue
		}
		s.tomb.Go(func() error {
			<-p.dead // stop makes sure of it
			failed <- p.name
			return nil
		})
	}
	var err error
	select {
	case <-s.tomb.Dying():
	case name := <-failed:
		err = errors.Errorf("%s ended", name)
		for _, p := range s.parts {
			if p.name == name {
				if cause := p.wait(); cause != nil {
					err = errors.Annotatef(cause, "%s ended", name)
				}
			}
		}
	}
	s.stop()
	return err
}

// stop ends the parts, the last one first.
func (s *Site) stop() {
	for i := len(s.parts) - 1; i >= 0; i-- {
		p := s.parts[i]
		if p.kill != nil {
			p.kill()
		}
		if err := p.wait(); err != nil {
			logger.Warningf("%s did not end cleanly: %v", p.name, err)
		}
	}
	s.parts = nil
}

// String names the site by its address.
func (s *Site) String() string { return fmt.Sprintf("site at %s", s.address) }
