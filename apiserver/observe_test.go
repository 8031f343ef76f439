package apiserver_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/slipway-project/slipway/apiserver"
	"github.com/slipway-project/slipway/core/access"
	"github.com/slipway-project/slipway/params"
	"github.com/slipway-project/slipway/rpc"
	"github.com/slipway-project/slipway/state"
)

// witness remembers what it is told.
type witness struct {
	mu     sync.Mutex
	logins []apiserver.Login
	calls  []apiserver.Call
}

func (w *witness) LoggedIn(l apiserver.Login) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.logins = append(w.logins, l)
}

func (w *witness) Called(c apiserver.Call) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls = append(w.calls, c)
}

// take returns what was told since the last time, as lines.
func (w *witness) take() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []string
	for _, l := range w.logins {
		out = append(out, strings.TrimSpace(fmt.Sprintf("login %s %s", l.Who, l.Code)))
	}
	for _, c := range w.calls {
		text := fmt.Sprintf("%s %s(%d).%s", c.Who, c.Facade, c.Version, c.Method)
		if c.Code != "" {
			text += " [" + c.Code + "]"
		}
		if c.Writes {
			text += " writes"
		}
		for _, e := range c.Entities {
			text += " " + e.Name
			if e.Code != "" {
				text += "[" + e.Code + "]"
			}
		}
		if c.More > 0 {
			text += fmt.Sprintf(" and %d", c.More)
		}
		out = append(out, text)
	}
	w.logins, w.calls = nil, nil
	return strings.Join(out, "\n")
}

func (w *witness) expect(t *testing.T, want ...string) {
	t.Helper()
	if got := w.take(); got != strings.Join(want, "\n") {
		t.Errorf("observed:\n%s\nwant:\n%s", got, strings.Join(want, "\n"))
	}
}

func observe(t *testing.T) (*site, *witness) {
	w := &witness{}
	return newSite(t, func(c *apiserver.Config) { c.Observer = w }), w
}

func TestLoginsAreObserved(t *testing.T) {
	s, w := observe(t)
	path := modelPath(s.Default.ModelUUID())
	for _, who := range []credentials{admin, {"user-admin", "wrong", ""}, {"user-nobody", "x", ""}, {"my-secret-password", "x", ""}} {
		_, _ = login(s.dial(path), who) // the witness tells
	}
	w.expect(t, "login user-admin", "login user-admin unauthorized access", "login user-nobody unauthorized access", "login  error")
}

func TestCallsAreObserved(t *testing.T) {
	s, w := observe(t)
	ctx := t.Context()
	c := s.as(modelPath(s.Default.ModelUUID()), admin)
	site := s.as("/api", admin)
	reader := s.person("reader", access.Login, access.Read)
	r := s.as(modelPath(s.Default.ModelUUID()), reader)
	w.take()

	do := func(c *rpc.Client, facade string, version int, method string, args any) {
		t.Helper()
		_ = c.Call(ctx, rpc.Request{Type: facade, Version: version, Method: method}, args, nil) // the witness tells
	}
	jobs := []string{"JobHostUnits"}
	do(c, "Client", 1, "FullStatus", nil)
	do(c, "Client", 1, "AddMachinesV2", params.AddMachines{Machines: []params.AddMachineParams{{Jobs: jobs}, {ParentID: "0", Jobs: jobs}, {Jobs: jobs}}})
	do(r, "Client", 1, "AddMachinesV2", params.AddMachines{Machines: []params.AddMachineParams{{Jobs: jobs}}})
	do(c, "Client", 1, "DestroyMachines", params.DestroyMachines{MachineNames: []string{"0", "1"}})
	do(c, "Client", 1, "RetryProvisioning", entities("machine-0", "machine-9"))
	do(c, "ModelConfig", 1, "ModelSet", params.ModelSet{Config: map[string]any{"http-proxy": "http://planted-secret@proxy:1", "no-proxy": "planted-secret"}})
	do(c, "ModelConfig", 1, "ModelUnset", params.ModelUnset{Keys: []string{"http-proxy"}})
	do(site, "UserManager", 1, "AddUser", params.AddUsers{Users: []params.AddUser{{UserName: "bob", Password: "planted-secret"}, {UserName: "admin", Password: "planted-secret"}}})
	do(site, "UserManager", 1, "SetPassword", params.EntityPasswords{Changes: []params.EntityPassword{{Tag: "user-bob", Password: "planted-secret"}}})
	do(site, "ModelWorkers", 1, "AddWorkers", params.AddWorkers{Workers: []params.AddWorker{{Name: "rack-2"}}})
	do(site, "ModelWorkers", 1, "RemoveWorkers", params.RemoveWorkers{Names: []string{"rack-2"}})
	do(c, "Client", 1, "Nothing", nil)
	got := w.take()
	want := strings.Join([]string{
		"user-admin Client(1).FullStatus",
		"user-admin Client(1).AddMachinesV2 writes 0 #1[error] 1",
		"user-reader Client(1).AddMachinesV2 [unauthorized access] writes #0",
		"user-admin Client(1).DestroyMachines writes 0 1",
		"user-admin Client(1).RetryProvisioning writes machine-0[error] machine-9[not found]",
		"user-admin ModelConfig(1).ModelSet writes http-proxy no-proxy",
		"user-admin ModelConfig(1).ModelUnset writes http-proxy",
		"user-admin UserManager(1).AddUser writes user-bob admin[already exists]",
		"user-admin UserManager(1).SetPassword writes user-bob",
		"user-admin ModelWorkers(1).AddWorkers writes machine-1",
		"user-admin ModelWorkers(1).RemoveWorkers writes rack-2",
	}, "\n")
	if got != want {
		t.Errorf("observed:\n%s\nwant:\n%s", got, want)
	}
}

func TestManyEntitiesAreCounted(t *testing.T) {
	s, w := observe(t)
	m, who := s.agent(s.Default, state.MachineSpec{})
	c := s.as(modelPath(s.Default.ModelUUID()), who)
	w.take()
	var args params.SetStatus
	for range 1003 {
		args.Entities = append(args.Entities, params.EntityStatusArgs{Tag: m.Tag().String(), Status: "started"})
	}
	if err := call(c, "Machiner", 1, "SetStatus", args, nil); err != nil {
		t.Fatal(err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if got := w.calls[0]; len(got.Entities) != 1000 || got.More != 3 || got.Model != s.Default.ModelUUID() || got.Remote != "127.0.0.1" {
		t.Errorf("observed %d entities and %d more, from %s in %s", len(got.Entities), got.More, got.Remote, got.Model)
	}
}
