package installs_test

import (
	"context"
	"encoding/json"
	"sync"
	"testing"
	"time"

	"github.com/juju/errors"
	"go.uber.org/goleak"

	metal3v1alpha1 "github.com/slipway-project/slipway/environs/baremetal/metal3/v1alpha1"
	"github.com/slipway-project/slipway/environs/baremetal/redfish"
	"github.com/slipway-project/slipway/params"
	"github.com/slipway-project/slipway/watcher"
	"github.com/slipway-project/slipway/worker/installs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake is a controller.
type fake struct {
	mu       sync.Mutex
	statuses map[string]params.InstallStatus
	order    params.InstallOrder
	asked    int // calls of Status
	err      error
	changes  chan []string
	once     sync.Once
}

func newFake() *fake {
	return &fake{statuses: map[string]params.InstallStatus{}, changes: make(chan []string, 10)}
}

func (f *fake) Changes() <-chan []string { return f.changes }
func (f *fake) Kill()                    {}
func (f *fake) Wait() error              { return nil }
func (f *fake) end()                     { f.once.Do(func() { close(f.changes) }) }

func (f *fake) Watch(context.Context) (watcher.StringsWatcher, error) { return f, f.err }

func (f *fake) Status(_ context.Context, hosts []string) ([]params.InstallStatus, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked++
	var out []params.InstallStatus
	for _, h := range hosts {
		if s, ok := f.statuses[h]; ok {
			out = append(out, s)
		}
	}
	return out, nil
}

func (f *fake) Start(_ context.Context, o params.InstallOrder) (params.InstallStatus, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.order = o
	s := params.InstallStatus{Host: o.Host, Purpose: o.Purpose, Phase: "waiting", Number: f.statuses[o.Host].Number + 1, Tries: 1, ISO: "https://x/1.iso", Now: time.Now()}
	f.statuses[o.Host] = s
	return s, f.err
}

func (f *fake) set(host string, change func(*params.InstallStatus)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.statuses[host]
	s.Host, s.Now = host, time.Now()
	change(&s)
	f.statuses[host] = s
}

func (f *fake) Mark(_ context.Context, host, mark string) error {
	f.set(host, func(s *params.InstallStatus) {
		if mark == "booted" {
			s.Booted = s.Now
		}
	})
	return nil
}

func (f *fake) Renew(_ context.Context, r params.InstallRenewal) error {
	f.set(r.Host, func(s *params.InstallStatus) {
		if s.Number == r.Number {
			s.Number, s.Tries, s.Booted = s.Number+1, s.Tries+1, time.Time{}
		}
	})
	return nil
}

func (f *fake) Cancel(_ context.Context, host string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.statuses, host)
	return nil
}

// eventually waits until the installer says of a host what is wanted.
func eventually(t *testing.T, i *installs.Installer, host string, ok func(redfish.JobStatus, error) bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(2 * time.Minute); ; <-tick.C {
		j, err := i.Status(t.Context(), host)
		if ok(j, err) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("host %s: %+v, %v", host, j, err)
		}
	}
}

func follow(t *testing.T, i *installs.Installer, f *fake) *installs.Follower {
	t.Helper()
	w := i.Follow(f)
	t.Cleanup(func() {
		w.Kill()
		_ = w.Wait() // a test looks at it if it matters
	})
	return w
}

func TestWithoutAConnectionNothingIsSaidOfAHost(t *testing.T) {
	i, ctx := installs.New(), t.Context()
	_, status := i.Status(ctx, "a")
	_, start := i.Start(ctx, redfish.Job{})
	for what, err := range map[string]error{"status": status, "start": start, "mark": i.Mark(ctx, "a", redfish.MarkBooted), "renew": i.Renew(ctx, "a", 1, ""), "cancel": i.Cancel(ctx, "a")} {
		if !errors.Is(err, installs.ErrAway) || errors.Is(err, errors.NotFound) {
			t.Errorf("%s: %v", what, err)
		}
	}
	f := newFake()
	f.err = errors.New("no")
	if err := i.Follow(f).Wait(); !errors.Is(err, f.err) {
		t.Errorf("Wait = %v", err)
	}
}

func TestWhatTheControllerSaysIsFollowed(t *testing.T) {
	i, f := installs.New(), newFake()
	f.set("a", func(s *params.InstallStatus) { s.Phase, s.Number = "running", 3 })
	w := follow(t, i, f)
	f.changes <- []string{"a", "b"}
	eventually(t, i, "a", func(j redfish.JobStatus, err error) bool {
		return err == nil && j.Phase == redfish.PhaseRunning && j.Number == 3
	})
	eventually(t, i, "b", func(_ redfish.JobStatus, err error) bool { return errors.Is(err, errors.NotFound) })
	f.mu.Lock()
	asked := f.asked
	f.mu.Unlock()
	for range 100 {
		_, _ = i.Status(t.Context(), "a")
	}
	f.mu.Lock()
	if f.asked != asked {
		t.Errorf("the controller was asked %d times more", f.asked-asked)
	}
	f.mu.Unlock()

	// The controller's clock is an hour ahead of ours: how long ago is what counts.
	f.set("a", func(s *params.InstallStatus) {
		s.Now = time.Now().Add(time.Hour)
		s.Phase, s.Step, s.Heard, s.Details = "done", "x", s.Now.Add(-90*time.Second), json.RawMessage(`{"ramMebibytes":7}`)
	})
	f.changes <- []string{"a"}
	eventually(t, i, "a", func(j redfish.JobStatus, err error) bool {
		silent := time.Since(j.LastReport)
		return j.Phase == redfish.PhaseDone && silent > 80*time.Second && silent < 10*time.Minute && j.Details.RAMMebibytes == 7
	})
	f.end()
	if err := w.Wait(); err == nil {
		t.Error("the follower does not tell that its stream ended")
	}
	if _, err := i.Status(t.Context(), "a"); !errors.Is(err, installs.ErrAway) {
		t.Errorf("Status after the end of the connection = %v", err)
	}
}

func TestChangesAreSeenAtOnce(t *testing.T) {
	i, f, ctx := installs.New(), newFake(), t.Context()
	follow(t, i, f)
	f.changes <- []string{}
	eventually(t, i, "a", func(_ redfish.JobStatus, err error) bool { return errors.Is(err, errors.NotFound) })
	job := redfish.Job{Purpose: redfish.PurposeInstall, Host: "a", Name: "n", KeepDisks: []string{"S"}, UserData: "u", Network: `{"dns":[]}`,
		Image: metal3v1alpha1.Image{URL: "x"}, RootHints: &metal3v1alpha1.RootDeviceHints{SerialNumber: "S1"}}
	j, err := i.Start(ctx, job)
	if err != nil || j.ISO != "https://x/1.iso" || f.order.UserData != "u" || string(f.order.RootHints) != `{"serialNumber":"S1"}` || string(f.order.Network) != `{"dns":[]}` {
		t.Fatalf("Start = %+v, %v of %+v", j, err, f.order)
	}
	at := func() redfish.JobStatus {
		j, err := i.Status(ctx, "a")
		if err != nil {
			t.Fatal(err)
		}
		return j
	}
	if got := at(); got.Number != 1 {
		t.Errorf("after Start: %+v", got)
	}
	if err := i.Mark(ctx, "a", redfish.MarkBooted); err != nil || at().Booted.IsZero() {
		t.Errorf("after Mark: %+v, %v", at(), err)
	}
	if err := i.Renew(ctx, "a", 1, "silent"); err != nil || at().Number != 2 || at().Tries != 2 || !at().Booted.IsZero() {
		t.Errorf("after Renew: %+v, %v", at(), err)
	}
	// An answer that is older than what we know changes nothing.
	f.set("a", func(s *params.InstallStatus) { s.Number = 1 })
	f.changes <- []string{"a"}
	f.changes <- []string{"other"}
	eventually(t, i, "other", func(_ redfish.JobStatus, err error) bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return len(f.changes) == 0
	})
	if got := at(); got.Number != 2 {
		t.Errorf("an old answer counts: %+v", got)
	}
	if err := i.Cancel(ctx, "a"); err != nil {
		t.Fatal(err)
	}
	if _, err := i.Status(ctx, "a"); !errors.Is(err, errors.NotFound) {
		t.Errorf("after Cancel: %v", err)
	}
	job.Network = "{"
	if _, err := i.Start(ctx, job); !errors.Is(err, errors.NotValid) {
		t.Errorf("Start with a network that is no JSON = %v", err)
	}
}

// hanging is a controller that does not answer how hosts stand.
type hanging struct {
	*fake
	asked chan struct{}
}

func (h hanging) Status(ctx context.Context, _ []string) ([]params.InstallStatus, error) {
	close(h.asked)
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestAFollowerIsStoppedWhileItAsks(t *testing.T) {
	h := hanging{newFake(), make(chan struct{})}
	w := installs.New().Follow(h)
	h.changes <- []string{"a"}
	<-h.asked
	w.Kill()
	if err := w.Wait(); err != nil {
		t.Errorf("Wait after Kill = %v", err)
	}
}
