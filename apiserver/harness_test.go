package apiserver_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorilla/websocket"
	"github.com/juju/errors"

	"github.com/slipway-project/slipway/apiserver"
	"github.com/slipway-project/slipway/core/network"
	"github.com/slipway-project/slipway/internal/memnet"
	"github.com/slipway-project/slipway/internal/tlsfiles"
	"github.com/slipway-project/slipway/params"
	"github.com/slipway-project/slipway/rpc"
	"github.com/slipway-project/slipway/state"
	"github.com/slipway-project/slipway/state/statetest"
	"github.com/slipway-project/slipway/store/storetest"
)

func TestMain(m *testing.M) { statetest.Main(m) }

// patience bounds every wait of these tests.
const patience = time.Minute

// The credentials of the agents that these tests make.
const (
	agentPassword = "an-agent-password-of-many-bytes"
	agentNonce    = "machine-0:nonce"
)

// site is a running server with its state.
type site struct {
	*statetest.Site
	t      testing.TB
	server *apiserver.Server
	addr   string
	tls    *tls.Config
	dialer func(ctx context.Context, network, addr string) (net.Conn, error) // nil means the net package's

	// held, while not nil, is called before each call of the store.
	// What it returns becomes the call's error.
	held atomic.Pointer[func(context.Context, storetest.Call) error]
}

// newSite returns a running server over a new state in memory. Change may
// change how it is configured.
func newSite(t testing.TB, change ...func(*apiserver.Config)) *site {
	t.Helper()
	s := &site{t: t}
	tap := storetest.NewTap(storetest.New(t, state.Collections()))
	tap.SetBefore(func(ctx context.Context, c storetest.Call) error {
		if held := s.held.Load(); held != nil {
			return (*held)(ctx, c)
		}
		return nil
	})
	s.Site = statetest.OpenWith(t, statetest.Config{Store: tap})
	s.serve(change...)
	return s
}

// inMemory runs a test with a clock of its own and a site that is reached in memory:
// what it says about time does not depend on how busy the machine is.
func inMemory(t *testing.T, f func(t *testing.T, s *site), change ...func(*apiserver.Config)) {
	synctest.Test(t, func(t *testing.T) {
		l := memnet.Listen()
		s := newSite(t, append(change, func(c *apiserver.Config) { c.Listener = l })...)
		s.dialer = l.Dial
		f(t, s)
	})
}

// newEmbeddedSite is newSite over the embedded store.
func newEmbeddedSite(t testing.TB) *site {
	t.Helper()
	s := &site{t: t, Site: statetest.Open(t)}
	s.serve()
	return s
}

// serve starts the server.
func (s *site) serve(change ...func(*apiserver.Config)) {
	t := s.t
	t.Helper()
	servers := [][]network.HostPort{{{Address: network.NewAddress("10.0.0.1"), Port: 17070}}}
	if err := s.SetAPIHostPorts(context.Background(), servers); err != nil {
		t.Fatal(err)
	}
	files, err := tlsfiles.Open(t.TempDir(), tlsfiles.Hosts())
	if err != nil {
		t.Fatal(err)
	}
	cfg := apiserver.Config{
		Controller: s.Controller, Listen: "127.0.0.1:0", Certificate: files.Certificate, CACert: files.AuthorityPEM(),
		LoginTimeout: time.Hour, PingTimeout: time.Hour, // a busy machine may take minutes for a test
	}
	for _, f := range change {
		f(&cfg)
	}
	if s.server, err = apiserver.New(context.Background(), cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.server.Kill()
		if err := s.server.Wait(); err != nil {
			t.Errorf("server: %v", err)
		}
	})
	s.addr = s.server.Addr().String()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(files.AuthorityPEM()))
	s.tls = &tls.Config{RootCAs: roots, ServerName: tlsfiles.ServerName}
}

// holdLogins holds up whoever looks for a machine. It returns where each says
// that it has got there, and what lets all of them go.
func (s *site) holdLogins() (reached <-chan struct{}, release func()) {
	arrivals, gate := make(chan struct{}, 100), make(chan struct{})
	hold := func(ctx context.Context, c storetest.Call) error {
		if c.Method != "Get" || c.Keys[0].Collection != "machines" {
			return nil
		}
		arrivals <- struct{}{}
		select {
		case <-gate:
		case <-ctx.Done():
		}
		return nil
	}
	s.held.Store(&hold)
	return arrivals, func() {
		s.held.Store(nil)
		close(gate)
	}
}

// modelPath is where connections to a model go.
func modelPath(uuid string) string { return "/model/" + uuid + "/api" }

// dial opens a connection that is not logged in.
func (s *site) dial(path string) *rpc.Client {
	s.t.Helper()
	c, err := rpc.Dial(context.Background(), rpc.DialConfig{URL: "wss://" + s.addr + path, TLS: s.tls, NetDial: s.dialer})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = c.Close() })
	return c
}

// raw opens a websocket for a test that reads and writes frames itself.
func (s *site) raw(path string) (*websocket.Conn, *http.Response, error) {
	d := websocket.Dialer{TLSClientConfig: s.tls}
	ws, answer, err := d.Dial("wss://"+s.addr+path, nil)
	if err == nil {
		s.t.Cleanup(func() { ws.Close() })
		err = ws.SetReadDeadline(time.Now().Add(patience))
	}
	return ws, answer, err
}

// credentials are what a login needs.
type credentials struct{ tag, password, nonce string }

var (
	admin   = credentials{"user-admin", statetest.AdminPassword, ""}
	manager = credentials{"machine-0", statetest.MachinePassword, statetest.MachineNonce}
)

func login(c *rpc.Client, who credentials) (params.LoginResult, error) {
	var r params.LoginResult
	err := call(c, "Admin", 3, "Login", params.LoginRequest{
		AuthTag: who.tag, Credentials: params.Secret(who.password), Nonce: who.nonce,
	}, &r)
	return r, err
}

// as opens a connection and logs in.
func (s *site) as(path string, who credentials) *rpc.Client {
	s.t.Helper()
	c := s.dial(path)
	if _, err := login(c, who); err != nil {
		s.t.Fatalf("cannot log in as %s: %v", who.tag, err)
	}
	return c
}

// call makes a call that must be answered in time.
func call(c *rpc.Client, facade string, version int, method string, args, result any) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return c.Call(ctx, rpc.Request{Type: facade, Version: version, Method: method}, args, result)
}

// failure returns an error of a call as "message [code]", empty for none.
func failure(err error) string {
	if err == nil {
		return ""
	}
	var e *rpc.Error
	if errors.As(err, &e) && e.Code != "" {
		return e.Message + " [" + e.Code + "]"
	}
	return err.Error()
}

// agent adds a machine whose agent can log in.
func (s *site) agent(st *state.State, spec state.MachineSpec) (*state.Machine, credentials) {
	s.t.Helper()
	m := statetest.AddMachine(s.t, st, spec)
	ctx := context.Background()
	if err := m.SetPassword(ctx, agentPassword); err != nil {
		s.t.Fatal(err)
	}
	if err := m.SetInstanceInfo(ctx, state.InstanceInfo{ID: "i-1", Nonce: agentNonce}); err != nil {
		s.t.Fatal(err)
	}
	return m, credentials{m.Tag().String(), agentPassword, agentNonce}
}

func entities(tags ...string) params.Entities {
	var e params.Entities
	for _, t := range tags {
		e.Entities = append(e.Entities, params.Entity{Tag: t})
	}
	return e
}
