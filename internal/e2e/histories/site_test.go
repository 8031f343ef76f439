//go:build e2e

package histories_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/juju/loggo"

	"github.com/slipway-project/slipway/api"
	"github.com/slipway-project/slipway/api/agentfile"
	"github.com/slipway-project/slipway/api/clientstore"
	"github.com/slipway-project/slipway/api/modelconfig"
	"github.com/slipway-project/slipway/api/singular"
	"github.com/slipway-project/slipway/internal/e2e/harness"
)

// programs is the folder of the commands.
var programs string

func TestMain(m *testing.M) {
	loggo.GetLogger("slipway").SetLogLevel(loggo.CRITICAL) // connections are lost all the time
	os.Exit(harness.Main(m, &programs, "controllerd"))
}

// site is a controller on the embedded store, with a connection of its operator and
// one of its manager, which hold for one life of the controller.
type site struct {
	t          testing.TB
	controller *harness.Process
	person     api.Info
	manager    api.Info

	mu   sync.Mutex
	life *life
	next chan struct{} // closed when there is another life, or the end
	over bool
}

// life is the connections to one life of the controller.
type life struct {
	n       int
	person  *api.Conn
	manager *api.Conn
}

// newSite makes a site whose controller is not running.
func newSite(t testing.TB) *site {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "site")
	program := filepath.Join(programs, "controllerd")
	harness.Run(t, nil, program, "bootstrap", "--data-dir", dir, "--listen", "127.0.0.1:0")
	s := &site{t: t, next: make(chan struct{})}
	s.controller = harness.New(t, harness.Config{Name: "controller", Program: program, Args: func() []string {
		return []string{"run", "--data-dir", dir, "--listen", "127.0.0.1:0"}
	}})
	known, err := clientstore.New(filepath.Join(dir, "client")).Read()
	if err != nil {
		t.Fatal(err)
	}
	c, account := known.Controllers[known.Current], known.Accounts[known.Current]
	model := known.Models[known.Current].Models["admin/default"].UUID
	s.person = api.Info{CACert: c.CACert, ModelUUID: model, Tag: "user-" + account.User, Password: account.Password}
	file, err := agentfile.Read(filepath.Join(dir, "agents", "machine-0.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	s.manager = file.Info()
	s.manager.ModelUUID = model
	return s
}

// begin starts a life of the controller. Its address is a new one each time, so
// that nobody else can have taken it.
func (s *site) begin() {
	s.t.Helper()
	addr := s.controller.Serve()
	l := &life{}
	ctx, cancel := context.WithTimeout(context.Background(), harness.Patience)
	defer cancel()
	for _, c := range []struct {
		info api.Info
		conn **api.Conn
	}{{s.person, &l.person}, {s.manager, &l.manager}} {
		c.info.Addrs = []string{addr}
		conn, err := api.Open(ctx, c.info, api.DialOptions{})
		if err != nil {
			s.t.Fatal(err)
		}
		*c.conn = conn
	}
	lease := singular.New(singular.Config{Caller: l.manager, Entity: api.ModelTag(s.manager.ModelUUID), Claimant: s.manager.Tag,
		Session: fmt.Sprintf("histories-%d", os.Getpid()), Duration: time.Minute})
	if _, err := lease.Claim(ctx); err != nil {
		s.t.Fatal(err)
	}
	s.change(l, false)
}

// change has everybody go on with another life.
func (s *site) change(l *life, over bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if old := s.life; old != nil {
		_, _ = old.person.Close(), old.manager.Close() // they have ended
		if l != nil {
			l.n = old.n + 1
		}
	}
	s.life, s.over = l, over
	close(s.next)
	s.next = make(chan struct{})
}

// end says that there is no further life.
func (s *site) end() { s.change(nil, true) }

// after returns a life later than the first n, once there is one; nil if there will
// be none.
func (s *site) after(n int) *life {
	for {
		s.mu.Lock()
		l, next, over := s.life, s.next, s.over
		s.mu.Unlock()
		if over {
			return nil
		}
		if l != nil && l.n >= n {
			return l
		}
		<-next
	}
}

// working returns a life whose connections are not known to have ended, nil if there
// will be none.
func (s *site) working() *life {
	for n := 0; ; {
		l := s.after(n)
		if l == nil {
			return nil
		}
		select {
		case <-l.person.Broken():
		case <-l.manager.Broken():
		default:
			return l
		}
		n = l.n + 1
	}
}

// configure has the site take machines that nobody starts.
func (s *site) configure() {
	s.t.Helper()
	err := modelconfig.New(s.after(0).person).Set(context.Background(), map[string]any{"rack-url": "http://127.0.0.1:9", "rack-token": "none"})
	if err != nil {
		s.t.Fatal(err)
	}
}
