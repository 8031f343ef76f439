package apiserver

import (
	"context"
	"crypto/tls"
	"log"
	"net"
	"net/http"
	"reflect"
	"strings"
	"sync/atomic"
	"time"

	"github.com/juju/errors"
	"github.com/juju/loggo"
	"gopkg.in/tomb.v2"

	"github.com/slipway-project/slipway/apiserver/below"
	"github.com/slipway-project/slipway/environs/config"
	"github.com/slipway-project/slipway/internal/logfile"
	"github.com/slipway-project/slipway/internal/patience"
	"github.com/slipway-project/slipway/rpc"
	"github.com/slipway-project/slipway/state"
)

var logger = loggo.GetLogger("slipway.apiserver")

// DefaultVersion is the server version that clients of the 2.x generation
// accept.
const DefaultVersion = "2.0.0"

// maxRequests is how many requests one connection may have under way once it is
// logged in: an agent has one for each of its watchers.
const maxRequests = 10000

// The limits on a connection until it is logged in, so that strangers cannot
// take the server's memory: a login is small, and one at a time is tried.
const (
	strangerRequests = 8         // under way at once
	strangerFrame    = 128 << 10 // bytes of one request
)

// Config says what a server serves, and where.
type Config struct {
	Controller *state.Controller // required; to be closed after the server
	Listen     string            // "host:port", port 0 for any; required unless Listener is set
	Listener   net.Listener      // used instead of Listen; the server closes it

	// Certificate returns what the server proves its name with, for each
	// connection anew; required.
	Certificate func() (*tls.Certificate, error)
	// CACert is the authority that signed it, as PEM, which agents are told;
	// required.
	CACert string

	Version      string        // that clients are told; empty means DefaultVersion
	PingTimeout  time.Duration // of agents; 0 means 3 minutes
	LoginTimeout time.Duration // to log in after connecting; 0 means 2 minutes
	Conn         rpc.ConnConfig

	// ServerID is what this server is called among several of one site, which
	// then tell one another which agents are connected to them. Empty means that
	// this one is alone.
	ServerID string

	// CheckLogin may refuse a login before anything else is looked at; nil
	// means that none is.
	CheckLogin func(authTag string) error

	// Schema returns the table of a provider's own settings, or an error
	// satisfying errors.NotFound if the provider is not known; nil means that
	// every provider is known and has none.
	Schema func(provider string) (config.Schema, error)

	// Observer is told what clients do; nil means that nobody wants to know.
	Observer Observer

	// Logs are the logs of the models; nil means that there are none. To be
	// closed after the server.
	Logs *logfile.Store

	// Installer says how machines are installed that have no other system yet.
	Installer InstallerConfig

	// Routes are served beside the API, by pattern of http.ServeMux.
	Routes map[string]http.Handler
}

// Validate returns an error satisfying errors.NotValid if something required is
// missing.
func (c Config) Validate() error {
	switch {
	case c.Controller == nil:
		return errors.NotValidf("nil Controller")
	case c.Listen == "" && c.Listener == nil:
		return errors.NotValidf("empty Listen address")
	case c.Certificate == nil:
		return errors.NotValidf("nil Certificate")
	case c.CACert == "":
		return errors.NotValidf("empty CACert")
	}
	return nil
}

// Server answers the API until it is killed.
type Server struct {
	cfg       Config
	registry  *registry
	admin     *rpc.Methods
	tomb      tomb.Tomb
	listener  net.Listener
	http      *http.Server
	conns     *connections
	presence  *presence
	dropper   *dropper               // nil for the only server of a site
	authority atomic.Pointer[string] // PEM: whom clients are to trust
	agentGate agentGate
	brake     *brake
	crew      *rpc.Crew // works for all connections

	streams         *streams
	logReaders      chan struct{} // holds a value for each
	logTrouble      trouble
	strangerTrouble trouble // with connections on which nobody has logged in
}

// New returns a server that is listening.
func New(ctx context.Context, cfg Config) (*Server, error) {
	if err := cfg.Validate(); err != nil {
		return nil, errors.Trace(err)
	}
	if cfg.Version == "" {
		cfg.Version = DefaultVersion
	}
	if cfg.PingTimeout == 0 {
		cfg.PingTimeout = 3 * time.Minute
	}
	if cfg.LoginTimeout == 0 {
		cfg.LoginTimeout = 2 * time.Minute
	}
	if cfg.Schema == nil {
		cfg.Schema = func(string) (config.Schema, error) { return nil, nil }
	}
	s := &Server{
		cfg: cfg, listener: cfg.Listener, conns: newConnections(), presence: newPresence(time.Now()),
		agentGate: make(agentGate, agentLogins), brake: newBrake(), crew: rpc.NewCrew(),
		streams: newStreams(), logReaders: make(chan struct{}, maxReaders), logTrouble: trouble{what: "cannot keep the logs of agents", level: loggo.ERROR},
		strangerTrouble: trouble{what: "connection without a login", level: loggo.INFO},
	}
	s.authority.Store(&s.cfg.CACert)
	var err error
	if s.registry, err = newRegistry(facades(), effects()); err != nil {
		return nil, errors.Annotate(err, "cannot set up facades")
	}
	if s.admin, err = rpc.MethodsOf(reflect.TypeFor[*admin]()); err != nil {
		return nil, errors.Annotate(err, "cannot set up logins")
	}
	if err := s.tellAuthority(ctx); err != nil {
		return nil, errors.Annotate(err, "cannot record the CA certificate")
	}
	if cfg.ServerID != "" {
		if s.dropper, err = newDropper(ctx, cfg.Controller, cfg.ServerID, s.conns); err != nil {
			return nil, errors.Trace(err)
		}
	}
	if s.listener == nil {
		if s.listener, err = net.Listen("tcp", cfg.Listen); err != nil {
			return nil, errors.Annotatef(err, "cannot listen on %s", cfg.Listen)
		}
	}
	s.http = s.newHTTP()
	s.tomb.Go(s.serve)
	if cfg.ServerID != "" {
		s.tomb.Go(s.sharePresence)
		s.tomb.Go(s.shareDrops)
	}
	s.tomb.Go(s.stop)
	return s, nil
}

// tellAuthority puts the authority where agents are told of it.
func (s *Server) tellAuthority(ctx context.Context) error {
	ca := *s.authority.Load()
	attrs, err := s.cfg.Controller.ControllerConfig(ctx)
	if err != nil || attrs[below.CACertKey] == ca {
		return errors.Trace(err)
	}
	return s.cfg.Controller.UpdateControllerConfig(ctx, map[string]any{below.CACertKey: ca}, nil)
}

// SetAuthority changes whom clients are to trust, as PEM. They are told when they
// log in: see Recycle.
func (s *Server) SetAuthority(ctx context.Context, ca string) error {
	s.authority.Store(&ca)
	return errors.Annotate(s.tellAuthority(ctx), "cannot record the CA certificate")
}

// Recycle ends the connections there are, one after another with a pause after
// each, so that all clients log in anew. It returns early when ctx is done.
func (s *Server) Recycle(ctx context.Context, pause time.Duration) {
	all := s.conns.list()
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for _, c := range all {
		c.Kill()
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
	logger.Infof("had %d clients log in anew", len(all))
}

// route is what is served at a pattern of http.ServeMux.
type route struct {
	pattern string
	handle  http.HandlerFunc
}

// routes is the table of what the server itself serves. Routes that it was given in
// its Config are not in it.
func (s *Server) routes() []route {
	table := []route{{"/{$}", s.site}, {"/api", s.site}, {"/model/{uuid}/api", s.model}}
	table = append(table, s.logRoutes()...)
	table = append(table, s.toolsRoutes()...)
	return append(table, s.installerRoutes()...)
}

// newHTTP returns the HTTP server, which serves nothing without TLS.
func (s *Server) newHTTP() *http.Server {
	mux := http.NewServeMux()
	for _, r := range s.routes() {
		mux.HandleFunc(r.pattern, r.handle)
	}
	for pattern, handler := range s.cfg.Routes {
		mux.Handle(pattern, handler)
	}
	return &http.Server{
		Handler:           patience.Usual().Around(mux),
		ReadHeaderTimeout: 20 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    32 << 10,
		ErrorLog:          log.New(httpLog{}, "", 0),
		ConnState:         arrived,
		TLSConfig: &tls.Config{
			MinVersion: tls.VersionTLS12,
			NextProtos: []string{"http/1.1"}, // websockets are not for version 2

			// Replies of a few kilobytes go out with one write from the start on.
			DynamicRecordSizingDisabled: true,
			GetConfigForClient:          computing,
			GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
				return s.cfg.Certificate()
			},
		},
	}
}

// httpLog takes what the HTTP server has to say, which is mostly about clients.
type httpLog struct{}

// Write implements io.Writer.
func (httpLog) Write(p []byte) (int, error) {
	text := strings.TrimSpace(string(p))
	if strings.Contains(text, "too many open files") {
		logger.Errorf("%s: raise the limit on open files (ulimit -n)", text)
		return len(p), nil
	}
	logger.Debugf("%s", text)
	return len(p), nil
}

// Addr returns where the server listens.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// Connections returns how many connections there are by who is logged in on
// them: "user", "agent", "manager" for the agents of the controller model, and
// "anonymous" for nobody.
func (s *Server) Connections() map[string]int {
	return s.conns.kinds(s.cfg.Controller.ControllerModelUUID())
}

// Kill asks the server to stop: it takes no more connections and closes those
// there are, once their calls have been answered.
func (s *Server) Kill() { s.tomb.Kill(nil) }

// Wait returns when the server has stopped: nil after Kill, else the reason.
func (s *Server) Wait() error { return s.tomb.Wait() }

// serve answers requests until the server stops.
func (s *Server) serve() error {
	err := s.http.ServeTLS(newAdmission(s.listener, newcomers), "", "")
	if !s.tomb.Alive() {
		return nil
	}
	return errors.Annotate(err, "cannot serve")
}

// stop winds everything down when the server is dying.
func (s *Server) stop() error {
	<-s.tomb.Dying()
	err := s.http.Close()
	s.conns.closeAll()
	s.crew.Close()
	s.streams.wait()
	s.presence.close()
	if err != nil {
		logger.Debugf("closing the listener: %v", err)
	}
	return nil
}

// site serves connections to the site as a whole.
func (s *Server) site(w http.ResponseWriter, r *http.Request) {
	s.connect(w, r, onController, s.cfg.Controller.ControllerModelUUID())
}

// model serves connections to one model.
func (s *Server) model(w http.ResponseWriter, r *http.Request) {
	s.connect(w, r, onModel, r.PathValue("uuid"))
}

// connect turns a request into a connection. A model that does not exist is
// told on the connection, not to the request.
func (s *Server) connect(w http.ResponseWriter, r *http.Request, scope scope, uuid string) {
	if !s.tomb.Alive() {
		http.Error(w, "apiserver shutdown in progress", http.StatusServiceUnavailable)
		return
	}
	if r.Method != http.MethodGet {
		w.Header().Set("Allow", http.MethodGet)
		http.Error(w, "the API is a websocket, which is opened with GET", http.StatusMethodNotAllowed)
		return
	}
	st, err := s.cfg.Controller.State(r.Context(), uuid)
	if err != nil && !errors.Is(err, errors.NotFound) {
		logger.Errorf("cannot open model %q: %v", uuid, err)
		http.Error(w, "cannot open the model", http.StatusInternalServerError)
		return
	}
	c := &connection{server: s, scope: scope, state: st, remote: host(r.RemoteAddr)}
	cfg := s.cfg.Conn
	cfg.Ended, cfg.Crew = c.ended, s.crew
	if c.rpc, err = rpc.Accept(w, r, cfg); err != nil {
		logger.Debugf("%s: %v", c.remote, err)
		return
	}
	var root rpc.Root = noModel{uuid}
	if st != nil {
		root = &anonymous{&admin{conn: c}, s.admin}
	}
	c.rpc.SetMaxRequests(strangerRequests)
	c.rpc.SetMaxFrame(strangerFrame)
	if !s.conns.add(c, s.cfg.LoginTimeout) {
		c.rpc.Kill() // the server began to stop meanwhile
	}
	c.rpc.Start(root)
}

// host returns an address without its port.
func host(addr string) string {
	if h, _, err := net.SplitHostPort(addr); err == nil {
		return h
	}
	return addr
}
