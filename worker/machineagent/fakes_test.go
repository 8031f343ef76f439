package machineagent

import (
	"context"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/juju/errors"
	"gopkg.in/tomb.v2"

	"github.com/slipway-project/slipway/api"
	"github.com/slipway-project/slipway/api/agentfile"
	"github.com/slipway-project/slipway/core/hardware"
	"github.com/slipway-project/slipway/core/life"
	"github.com/slipway-project/slipway/core/network"
	"github.com/slipway-project/slipway/core/status"
	"github.com/slipway-project/slipway/internal/tlsfiles"
	"github.com/slipway-project/slipway/params"
	"github.com/slipway-project/slipway/rpc"
	"github.com/slipway-project/slipway/watcher"
)

const firstPassword = "the-first-password-of-it"

// feed is a watcher that a test drives.
type feed struct {
	tomb tomb.Tomb
	ch   chan struct{}
}

func newFeed() *feed {
	f := &feed{ch: make(chan struct{}, 100)}
	f.ch <- struct{}{}
	f.tomb.Go(func() error { <-f.tomb.Dying(); return nil })
	return f
}

func (f *feed) Kill()                    { f.tomb.Kill(nil) }
func (f *feed) Wait() error              { return f.tomb.Wait() }
func (f *feed) Changes() <-chan struct{} { return f.ch }

// controller is a controller with one machine, for agents to connect to.
type controller struct {
	mu        sync.Mutex
	password  string
	life      life.Value
	statuses  []status.Status
	messages  []string // of the statuses
	addresses []network.Address
	servers   []string
	ca        string // whom it says to trust; empty means nothing new
	dials     []time.Time
	links     []*fakeLink

	dialErr       error
	ensureDeadErr error
	// setPassword, unless it is nil, takes the place of what happens when the
	// password is to be changed.
	setPassword func(c *controller, to string) error
}

func newController() *controller {
	return &controller{password: firstPassword, life: life.Alive, servers: []string{"10.0.0.1:17070"}}
}

func (c *controller) do(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f()
}

// change changes the machine, and tells the agent.
func (c *controller) change(f func()) {
	c.do(f)
	c.do(func() {
		for _, l := range c.links {
			l.lives.ch <- struct{}{}
			l.controllers.ch <- struct{}{}
		}
	})
}

// cut breaks all connections.
func (c *controller) cut() {
	c.do(func() {
		for _, l := range c.links {
			l.breakOnce.Do(func() { close(l.broken) })
		}
		c.links = nil
	})
}

func (c *controller) dial(_ context.Context, info api.Info) (link, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dials = append(c.dials, time.Now())
	if c.dialErr != nil {
		return nil, c.dialErr
	}
	if string(info.Password) != c.password {
		return nil, errors.Unauthorizedf("invalid entity name or password")
	}
	l := &fakeLink{controller: c, lives: newFeed(), controllers: newFeed(), broken: make(chan struct{})}
	c.links = append(c.links, l)
	return l, nil
}

// fakeLink is a connection to a controller.
type fakeLink struct {
	*controller
	lives, controllers *feed
	broken             chan struct{}
	breakOnce          sync.Once
}

var _ link = (*fakeLink)(nil)

func (l *fakeLink) Broken() <-chan struct{} { return l.broken }
func (l *fakeLink) Addrs() []string         { return []string{"127.0.0.1:17070"} }
func (l *fakeLink) CACert() string          { return l.ca }
func (l *fakeLink) Close() error {
	l.breakOnce.Do(func() { close(l.broken) })
	l.lives.Kill()
	l.controllers.Kill()
	l.do(func() { l.links = slices.DeleteFunc(l.links, func(o *fakeLink) bool { return o == l }) })
	return nil
}
func (l *fakeLink) ModelUUID() string                                 { return "" }
func (l *fakeLink) ControllerUUID() string                            { return "" }
func (l *fakeLink) Call(context.Context, rpc.Request, any, any) error { return nil }

func (l *fakeLink) Watch(context.Context) (watcher.NotifyWatcher, error) { return l.lives, nil }
func (l *fakeLink) WatchAPIHostPorts(context.Context) (watcher.NotifyWatcher, error) {
	return l.controllers, nil
}

func (l *fakeLink) APIAddresses(context.Context) (out []string, _ error) {
	l.do(func() { out = slices.Clone(l.servers) })
	return out, nil
}

func (l *fakeLink) Life(context.Context) (v life.Value, err error) {
	l.do(func() { v = l.life })
	return v, nil
}

func (l *fakeLink) SetAddresses(_ context.Context, a []network.Address) error {
	l.do(func() { l.addresses = a })
	return nil
}

func (l *fakeLink) SetStatus(_ context.Context, s status.Status, message string, _ map[string]any) error {
	l.do(func() { l.statuses, l.messages = append(l.statuses, s), append(l.messages, message) })
	return nil
}

func (l *fakeLink) EnsureDead(context.Context) (err error) {
	l.do(func() {
		if err = l.ensureDeadErr; err == nil {
			l.life = life.Dead
		}
	})
	return err
}

func (l *fakeLink) SetPassword(_ context.Context, p params.Secret) (err error) {
	l.do(func() {
		if l.setPassword != nil {
			err = l.setPassword(l.controller, string(p))
			return
		}
		l.password = string(p)
	})
	return err
}

// fakeSystem is a machine in a test.
type fakeSystem struct {
	mu        sync.Mutex
	addresses []network.Address
	changes   chan struct{}
	removed   []string
}

func newSystem() *fakeSystem {
	return &fakeSystem{addresses: network.NewAddresses("10.9.8.7"), changes: make(chan struct{}, 1)}
}

func (f *fakeSystem) Addresses() ([]network.Address, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.addresses), nil
}

func (f *fakeSystem) Changes(ctx context.Context) <-chan struct{} {
	out := make(chan struct{})
	go func() {
		defer close(out)
		for {
			select {
			case <-ctx.Done():
				return
			case <-f.changes:
			}
			select {
			case out <- struct{}{}:
			case <-ctx.Done():
				return
			}
		}
	}()
	return out
}

func (f *fakeSystem) Hardware() hardware.Characteristics { return hardware.Characteristics{} }

func (f *fakeSystem) Remove(path string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.removed = append(f.removed, path)
	return nil
}

// writeFile lays down the agent file of machine 0, and returns its path.
func writeFile(t *testing.T) string {
	t.Helper()
	ca, err := tlsfiles.NewAuthority("test", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "agent.yaml")
	if err := agentfile.Write(path, agentfile.File{
		Tag: "machine-0", Password: firstPassword, Nonce: "nonce", ModelUUID: "deadbeef-0bad-400d-8000-4b1d0d06f00d",
		APIAddresses: []string{"127.0.0.1:17070"}, CACert: string(ca.Cert),
	}); err != nil {
		t.Fatal(err)
	}
	return path
}
