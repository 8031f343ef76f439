package simulated_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/api/apitest"
	"github.com/slipway-project/slipway/core/life"
	"github.com/slipway-project/slipway/core/network"
	"github.com/slipway-project/slipway/core/status"
	"github.com/slipway-project/slipway/environs/simulated"
	"github.com/slipway-project/slipway/params"
	"github.com/slipway-project/slipway/watcher"
	"github.com/slipway-project/slipway/worker"
)

// fakeAPI is the machine that an agent reports on.
type fakeAPI struct {
	changes chan struct{}

	mu       sync.Mutex
	life     life.Value
	lifeErr  error
	deathErr error
	status   status.Status
	calls    []string
}

func newFakeAPI() *fakeAPI {
	f := &fakeAPI{changes: make(chan struct{}, 1), life: life.Alive}
	f.changes <- struct{}{}
	return f
}

// change alters the machine and tells the agent.
func (f *fakeAPI) change(how func()) {
	f.mu.Lock()
	how()
	f.mu.Unlock()
	f.changes <- struct{}{}
}

func (f *fakeAPI) called(call string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, call)
}

func (f *fakeAPI) seen() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.calls)
}

func (f *fakeAPI) Changes() <-chan struct{} { return f.changes }
func (f *fakeAPI) Kill()                    { f.called("kill") }
func (f *fakeAPI) Wait() error              { return nil }

func (f *fakeAPI) Watch(context.Context) (watcher.NotifyWatcher, error) { return f, nil }

func (f *fakeAPI) Life(context.Context) (life.Value, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.life, f.lifeErr
}

func (f *fakeAPI) SetAddresses(_ context.Context, a []network.Address) error {
	f.called("addresses " + a[0].Value)
	return nil
}

func (f *fakeAPI) Status(context.Context) (status.Status, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.status, nil
}

func (f *fakeAPI) SetStatus(_ context.Context, s status.Status, _ string, _ map[string]any) error {
	f.called(string(s))
	return nil
}

func (f *fakeAPI) EnsureDead(context.Context) error {
	f.called("dead")
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.deathErr
}

func agentOf(machine string) simulated.Agent {
	return simulated.Agent{MachineID: machine, Nonce: "n", Password: "hush", Addresses: network.NewAddresses("10.0.0.1")}
}

func TestAgentsThatComeBackLeaveTheirStatusAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for at, want := range map[status.Status]string{status.Started: "", status.Pending: "started", status.Down: "started"} {
			f := newFakeAPI()
			f.status = at
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { done <- simulated.RunAgent(ctx, f, agentOf("0")) }()
			synctest.Wait()
			if got := f.seen(); slices.Contains(got, "started") != (want != "") {
				t.Errorf("calls of an agent that finds status %s = %q", at, got)
			}
			cancel()
			<-done
		}
	})
}

func TestAgentsLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeAPI()
		done := make(chan error, 1)
		go func() { done <- simulated.RunAgent(t.Context(), f, agentOf("0")) }()
		synctest.Wait()
		f.change(func() {}) // says nothing new, and is not reported twice
		synctest.Wait()
		f.change(func() { f.life, f.deathErr = life.Dying, errors.New("it has containers") })
		synctest.Wait()
		want := []string{"addresses 10.0.0.1", "started", "stopped", "dead"}
		if got := f.seen(); !slices.Equal(got, want) {
			t.Errorf("calls = %q, want %q", got, want)
		}
		f.mu.Lock()
		f.deathErr = nil // and no event: the agent tries again by itself
		f.mu.Unlock()
		if err := <-done; err != nil {
			t.Errorf("RunAgent = %v, want nil", err)
		}
		if got := f.seen(); !slices.Equal(got, append(want, "dead", "kill")) {
			t.Errorf("calls = %q", got)
		}
	})
}

func TestAgentEndsWhenItsMachineIsGone(t *testing.T) {
	for name, how := range map[string]func(*fakeAPI){
		"removed": func(f *fakeAPI) { f.lifeErr = errors.NotFoundf("machine 0") },
		"dead":    func(f *fakeAPI) { f.life = life.Dead },
		"removed while dying": func(f *fakeAPI) {
			f.life, f.deathErr = life.Dying, errors.NotFoundf("machine 0")
		},
	} {
		f := newFakeAPI()
		how(f)
		if err := simulated.RunAgent(t.Context(), f, agentOf("0")); err != nil {
			t.Errorf("%s: RunAgent = %v, want nil", name, err)
		}
	}
	f := newFakeAPI()
	f.lifeErr = errors.Unauthorizedf("no")
	if err := simulated.RunAgent(t.Context(), f, agentOf("0")); !errors.Is(err, errors.Unauthorized) {
		t.Errorf("RunAgent = %v: a refusal is no proof that the machine is gone", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := simulated.RunAgent(ctx, newSilentAPI(), agentOf("0")); !errors.Is(err, context.Canceled) {
		t.Errorf("RunAgent = %v, want context.Canceled", err)
	}
}

// newSilentAPI never sends an event.
func newSilentAPI() *fakeAPI { return &fakeAPI{changes: make(chan struct{})} }

func TestAgentLogsInOverTheAPI(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	s := apitest.NewServer(t, apitest.Options{})
	var mu sync.Mutex
	var logins []params.LoginRequest
	s.Handle("Admin.Login", func(_ context.Context, r apitest.Request) (any, error) {
		var q params.LoginRequest
		if err := r.Read(&q); err != nil {
			return nil, err
		}
		mu.Lock()
		defer mu.Unlock()
		logins = append(logins, q)
		if len(logins) < 3 { // the instance is not recorded yet
			return nil, errors.NotProvisionedf("machine 0")
		}
		return params.LoginResult{ModelTag: "model-" + apitest.ModelUUID, ControllerTag: "controller-" + apitest.ControllerUUID}, nil
	})
	s.Reply("Machiner.Watch", params.NotifyWatchResults{Results: []params.NotifyWatchResult{{NotifyWatcherID: "1"}}})
	s.Handle("NotifyWatcher.Next", func(ctx context.Context, _ apitest.Request) (any, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	})
	s.Reply("NotifyWatcher.Stop", struct{}{})
	s.Reply("Machiner.Life", params.LifeResults{Results: []params.LifeResult{{Life: "dying"}}})
	s.Reply("Machiner.SetStatus", params.ErrorResults{Results: []params.ErrorResult{{}}})
	s.Reply("Machiner.EnsureDead", params.ErrorResults{Results: []params.ErrorResult{{}}})

	run := simulated.NewAgent(simulated.AgentOptions{Backoff: worker.Backoff{Min: time.Millisecond, Max: 100 * time.Millisecond}})
	a := agentOf("0")
	a.APIAddresses, a.CACert, a.ModelUUID = []string{s.Addr}, s.CACert, apitest.ModelUUID
	if err := run(ctx, a); err != nil {
		t.Fatalf("the agent ended with %v after %d calls", err, len(s.Calls()))
	}
	mu.Lock()
	defer mu.Unlock()
	if q := logins[len(logins)-1]; q.AuthTag != "machine-0" || q.Nonce != "n" || string(q.Credentials) != "hush" {
		t.Errorf("logged in as %q with nonce %q", q.AuthTag, q.Nonce)
	}
	for _, want := range []string{"Machiner(1).SetStatus", "Machiner(1).EnsureDead"} {
		if !slices.Contains(s.Calls(), want) {
			t.Errorf("calls = %q, want %s", s.Calls(), want)
		}
	}
}
