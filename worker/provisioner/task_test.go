package provisioner

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/juju/errors"
	"go.uber.org/goleak"

	"github.com/slipway-project/slipway/core/instance"
	"github.com/slipway-project/slipway/core/life"
	"github.com/slipway-project/slipway/core/status"
	"github.com/slipway-project/slipway/environs"
	"github.com/slipway-project/slipway/params"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// wait lets fake time pass, and all that is due then happen.
func wait(d time.Duration) {
	time.Sleep(d) // of fake time
	synctest.Wait()
}

func wantInstance(t *testing.T, f *fakeAPI, id string, want instance.ID) {
	t.Helper()
	m, ok := f.get(id)
	if !ok {
		t.Errorf("machine %s is gone, want instance %q", id, want)
		return
	}
	if m.instance != want {
		t.Errorf("machine %s has instance %q, want %q (instance status %q: %s)", id, m.instance, want, m.instStat.Status, m.instStat.Message)
	}
}

func wantGone(t *testing.T, f *fakeAPI, id string) {
	t.Helper()
	if m, ok := f.get(id); ok {
		t.Errorf("machine %s is there, %s (%s), want it removed", id, m.life, m.instStat.Message)
	}
}

func wantDid(t *testing.T, b *fakeBroker, want ...string) {
	t.Helper()
	if got := b.did(); got != strings.Join(want, "\n") {
		t.Errorf("the broker did\n%s\nwant\n%s", got, strings.Join(want, "\n"))
	}
}

func dies(m *fakeMachine)    { m.life = life.Dead }
func isDying(m *fakeMachine) { m.life = life.Dying }
func provisioned(id instance.ID) func(*fakeMachine) {
	return func(m *fakeMachine) { m.instance, m.nonce = id, "n" }
}

func TestVolumesAreMadeWithTheInstanceAndRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, b := newFakeAPI("0"), newFakeBroker()
		f.volumes = []params.VolumeParams{
			{VolumeTag: "volume-4", Size: 1024, Provider: "static", Attributes: map[string]any{"foo": "bar"}}, {VolumeTag: "volume-5", Size: 1, Provider: "nfs"},
		}
		run(t, f, b, nil)
		wait(time.Second)
		m, _ := f.get("0")
		if want := "[{4 i-1 in staticmap[foo:bar] 1024 sdb false} {5 i-1 in nfsmap[] 1 sdb false}]"; fmt.Sprint(m.volumes) != want {
			t.Errorf("recorded volumes %v, want %v", m.volumes, want)
		}
	})
}

// A machine is told of the newest agent for its series, at every address.
func TestMachineIsToldWhereItsAgentIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, b := newFakeAPI("0"), newFakeBroker()
		for _, v := range []string{"2.0.0-jammy-amd64", "2.1.0-jammy-amd64", "2.1.0-jammy-amd64", "2.1.0-jammy-arm64", "2.2.0-noble-amd64", "no version"} {
			f.tools = append(f.tools, params.Tools{Version: v, URL: "https://c/" + v, SHA256: "ab", Size: 1})
		}
		run(t, f, b, nil)
		wait(time.Second)
		var got []string
		for _, p := range b.packages {
			got = append(got, p.Version.String())
		}
		if want := []string{"2.1.0-jammy-amd64", "2.1.0-jammy-amd64", "2.1.0-jammy-arm64"}; !slices.Equal(got, want) {
			t.Errorf("machine 0 was told of %q, want %q", got, want)
		}
		if f.calls["FindTools"] != 1 {
			t.Errorf("%d calls of FindTools, want 1", f.calls["FindTools"])
		}
	})
}

func TestPendingMachineIsStartedAndRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, b := newFakeAPI("0"), newFakeBroker()
		run(t, f, b, nil)
		wait(time.Second)
		wantInstance(t, f, "0", "i-1")
		m, _ := f.get("0")
		if m.nonce == "" || m.nonce != b.instances["i-1"].Nonce {
			t.Errorf("recorded nonce %q, want the instance's %q", m.nonce, b.instances["i-1"].Nonce)
		}
		if len(m.password) < 24 {
			t.Errorf("password of %d bytes, want at least 24", len(m.password))
		}
		if m.instStat.Status != status.Running || m.status.Status != status.Pending {
			t.Errorf("statuses %q and %q, want running and pending", m.instStat.Status, m.status.Status)
		}
		f.change("0", dies)
		wait(time.Second)
		wantGone(t, f, "0")
		wantDid(t, b, "start 0 i-1", "stop i-1")
	})
}

func TestAThousandMachinesCostFewCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ids []string
		for i := range 1000 {
			ids = append(ids, fmt.Sprint(i))
		}
		f, b := newFakeAPI(ids...), newFakeBroker()
		run(t, f, b, map[string]any{"num-provision-workers": 100})
		wait(time.Minute)
		if n := len(b.left()); n != 1000 {
			t.Fatalf("%d instances, want 1000", n)
		}
		if f.calls["Life"] > 3 || b.tries["list"] > 3 {
			t.Errorf("%d calls of Life and %d of AllInstances, want at most 3 each", f.calls["Life"], b.tries["list"])
		}
	})
}

func TestOneMachinesTroubleIsItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, b := newFakeAPI("0", "1", "2"), newFakeBroker()
		f.infoErr = func(id string) error {
			if id == "1" {
				return errors.New("no matching tools available")
			}
			return nil
		}
		run(t, f, b, nil)
		wait(time.Second)
		for _, id := range []string{"0", "2"} {
			if m, _ := f.get(id); m.instance == "" {
				t.Errorf("machine %s was not started", id)
			}
		}
		m, _ := f.get("1")
		if m.status.Status != status.Error || m.status.Message != "no matching tools available" {
			t.Errorf("status of machine 1 = %q %q, want error with the reason", m.status.Status, m.status.Message)
		}
		wait(time.Hour)
		if n := b.tries["start 1"]; n != 0 {
			t.Errorf("machine 1 was started %d times", n)
		}
	})
}

func TestDyingMachineThatCannotDieHoldsUpNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, b := newFakeAPI("0", "1"), newFakeBroker()
		f.machines["0"].life = life.Dying
		refusals := 0
		f.ensureDeadErr = func(string) error {
			if refusals++; refusals < 4 {
				return errors.New(`machine 0 has unit "mysql/0" assigned`)
			}
			return nil
		}
		run(t, f, b, nil)
		wait(time.Second)
		wantInstance(t, f, "1", "i-1")
		m, _ := f.get("0")
		if !strings.Contains(m.instStat.Message, "has unit") || !strings.Contains(m.instStat.Message, "next try at") {
			t.Errorf("instance status of machine 0 says %q, want why and when next", m.instStat.Message)
		}
		wait(5 * time.Minute)
		wantGone(t, f, "0")
	})
}

func TestAStopThatFailsHoldsUpNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, b := newFakeAPI("0", "1", "2"), newFakeBroker()
		for _, id := range []string{"0", "1"} {
			f.machines[id].life = life.Dead
			f.machines[id].instance = instance.ID("old-" + id)
			b.have(instance.ID("old-"+id), owner(id), status.Running)
		}
		b.stopErr = func(id instance.ID, try int) error {
			if id == "old-0" && try < 4 {
				return errors.New("power supply is stuck")
			}
			return nil
		}
		run(t, f, b, nil)
		wait(time.Second)
		wantGone(t, f, "1")
		if m, _ := f.get("2"); m.instance == "" {
			t.Error("machine 2 was not started")
		}
		m, ok := f.get("0")
		if !ok || !strings.Contains(m.instStat.Message, "power supply is stuck") {
			t.Errorf("machine 0 there: %v, instance status %q, want it there with the reason", ok, m.instStat.Message)
		}
		wait(10 * time.Minute)
		wantGone(t, f, "0")
		if left := b.left(); !slices.Equal(left, []instance.ID{"i-1"}) {
			t.Errorf("instances %v left, want i-1", left)
		}
	})
}

func TestAFailedRemoveIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, b := newFakeAPI("0"), newFakeBroker()
		f.machines["0"].life = life.Dead
		tries := 0
		f.removeErr = func(string) error {
			if tries++; tries == 1 {
				return errors.New("state changing too quickly; try again soon")
			}
			return nil
		}
		run(t, f, b, nil)
		wait(time.Minute)
		wantGone(t, f, "0")
	})
}

func TestStartsThatFail(t *testing.T) {
	busy := errors.New("hypervisor is busy")
	permanent := errors.WithType(errors.New("no such flavour"), environs.ErrPermanent)
	tests := []struct {
		name    string
		retries int
		errs    []error // of each attempt; then success
		starts  int
		status  status.Status
		message string
	}{
		{"once", 3, []error{busy}, 2, status.Pending, ""},
		{"permanently", 3, []error{permanent}, 1, status.Error, "no such flavour"},
		{"then permanently", 3, []error{busy, permanent}, 2, status.Error, "no such flavour"},
		{"without retries", 0, []error{busy}, 1, status.Error, "hypervisor is busy; gave up after 1 attempts"},
		{"too often", 2, []error{busy, busy, busy, busy}, 3, status.Error, "hypervisor is busy; gave up after 3 attempts"},
		{"wrapped", 3, []error{errors.Annotate(permanent, "cannot start")}, 1, status.Error, "cannot start: no such flavour"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, b := newFakeAPI("0"), newFakeBroker()
				b.startErr = func(_ context.Context, _ string, try int) error {
					if try <= len(test.errs) {
						return test.errs[try-1]
					}
					return nil
				}
				run(t, f, b, map[string]any{"provisioner-retry-count": test.retries})
				wait(time.Hour)
				if n := b.tries["start 0"]; n != test.starts {
					t.Errorf("%d attempts, want %d", n, test.starts)
				}
				m, _ := f.get("0")
				if m.status.Status != test.status || m.status.Message != test.message {
					t.Errorf("status = %q %q, want %q %q", m.status.Status, m.status.Message, test.status, test.message)
				}
				if (m.instance != "") != (test.status == status.Pending) {
					t.Errorf("instance %q with status %q", m.instance, m.status.Status)
				}
			})
		})
	}
}

// TestFailuresOfTheControllerAreNotHeldAgainstMachines has a controller whose disk
// is full for much longer than a start is tried.
func TestFailuresOfTheControllerAreNotHeldAgainstMachines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, b := newFakeAPI("0"), newFakeBroker()
		full := true
		f.passwordErr = func(string) error {
			if full {
				return errors.New("no space left for the store")
			}
			return nil
		}
		run(t, f, b, map[string]any{"provisioner-retry-count": 2, "provisioner-retry-delay": "1s"})
		wait(10 * time.Hour)
		if m, _ := f.get("0"); m.status.Status != status.Pending || m.instStat.Status != status.Pending {
			t.Errorf("machine 0 is %s, its instance %s: %s", m.status.Status, m.instStat.Status, m.instStat.Message)
		}
		f.mu.Lock()
		full = false
		f.mu.Unlock()
		wait(longestRest * 2)
		wantInstance(t, f, "0", "i-1")
	})
}

func TestStatusSaysWhyAndWhenNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, b := newFakeAPI("0"), newFakeBroker()
		b.startErr = func(context.Context, string, int) error { return errors.New("zone z1 is full") }
		run(t, f, b, nil)
		wait(time.Second)
		m, _ := f.get("0")
		if m.instStat.Status != status.Pending || !strings.Contains(m.instStat.Message, "zone z1 is full; attempt 1 failed, next try at ") {
			t.Errorf("instance status = %q %q, want pending, why, and when next", m.instStat.Status, m.instStat.Message)
		}
		next, err := time.Parse(time.RFC3339, m.instStat.Data[status.DataNextTry].(string))
		if err != nil || next.Before(time.Now()) {
			t.Errorf("next try %v (%v), want a time to come", m.instStat.Data[status.DataNextTry], err)
		}
		if m.status.Status != status.Pending {
			t.Errorf("machine status %q while it is tried again, want pending", m.status.Status)
		}
	})
}

func TestAHangingStartHoldsUpNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, b := newFakeAPI("0", "1"), newFakeBroker()
		b.startErr = func(ctx context.Context, id string, _ int) error {
			if id == "0" {
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		}
		run(t, f, b, map[string]any{"num-provision-workers": 2})
		wait(time.Second)
		wantInstance(t, f, "1", "i-1")
		f.change("1", dies)
		f.change("2", func(*fakeMachine) {})
		wait(time.Second)
		wantGone(t, f, "1")
		wantInstance(t, f, "2", "i-2")
		// The one that hangs can be removed as well.
		f.change("0", dies)
		wait(time.Second)
		wantGone(t, f, "0")
	})
}

func TestAMachineThatDiesWhileItStartsLeavesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, b := newFakeAPI("0"), newFakeBroker()
		b.startErr = func(context.Context, string, int) error {
			time.Sleep(time.Minute) // of fake time; deaf to its context
			return nil
		}
		run(t, f, b, nil)
		wait(time.Second)
		f.change("0", isDying)
		wait(2 * time.Minute)
		wantGone(t, f, "0")
		wantDid(t, b, "start 0 i-1", "stop i-1")
	})
}

// TestAnInstanceThatComesTooLateIsStopped has a provider whose answer to a start that
// was given up is an instance all the same, after the machine was seen out. What
// nobody here has asked for stays, in this harvest mode.
func TestAnInstanceThatComesTooLateIsStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, b := newFakeAPI("0"), newFakeBroker()
		b.startErr = func(ctx context.Context, _ string, _ int) error {
			<-ctx.Done()
			return ctx.Err()
		}
		run(t, f, b, nil)
		wait(time.Second)
		f.change("0", dies)
		wait(time.Second)
		wantGone(t, f, "0")
		b.have("late", owner("0"), status.Running)
		b.have("foreign", owner("77"), status.Running)
		wait(time.Minute)
		wantDid(t, b, "stop late")
		b.have("later", owner("0"), status.Running)
		wait(time.Minute)
		wantDid(t, b, "stop late", "stop later")
		lists := b.try("list")
		wait(time.Hour)
		if n := b.try("list") - lists; n > 10 {
			t.Errorf("the provider is asked %d times more", n)
		}
	})
}

// TestWhatAnEarlierWorkerAskedForComesTooLate has it come after the machine of its
// start, which an earlier worker had begun, was seen out by this one.
func TestWhatAnEarlierWorkerAskedForComesTooLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, b := newFakeAPI("0"), newFakeBroker()
		f.machines["0"].life = life.Dead
		run(t, f, b, nil)
		wait(time.Second)
		wantGone(t, f, "0")
		b.have("late", owner("0"), status.Running)
		wait(time.Minute)
		wantDid(t, b, "stop late")
	})
}

func TestTransientErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, b := newFakeAPI("0", "1", "2"), newFakeBroker()
		for _, id := range []string{"0", "1", "2"} {
			f.machines[id].status = status.Info{Status: status.Error, Message: "x", Data: map[string]any{"transient": id != "2"}}
		}
		f.machines["1"].life = life.Dying
		f.ensureDeadErr = func(string) error { return errors.New("not yet") }
		f.transientErr = errors.New("cannot list")
		run(t, f, b, nil)
		wait(time.Second)
		wantDid(t, b)
		f.retryFeed.ch <- struct{}{}
		wait(2 * time.Minute) // the first listing fails and is tried again
		wantDid(t, b, "start 0 i-1")
		if n := f.calls["MachinesWithTransientErrors"]; n != 2 {
			t.Errorf("asked %d times for machines to retry, want 2", n)
		}
	})
}

func TestARestartDoesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, b := newFakeAPI("0", "1", "2", "3"), newFakeBroker()
		provisioned("a")(f.machines["0"])
		provisioned("b")(f.machines["1"])
		f.machines["1"].life = life.Dying // its own agent sees it out
		f.machines["2"].status = status.Info{Status: status.Error, Message: "broken"}
		provisioned("d")(f.machines["3"])
		b.have("a", owner("0"), status.Running)
		b.have("b", owner("1"), status.Running)
		b.have("d", owner("3"), status.Running)
		run(t, f, b, nil)
		wait(time.Hour)
		wantDid(t, b)
		if n := f.calls["SetInstanceInfo"] + f.calls["SetPasswords"] + f.calls["EnsureDead"]; n != 0 {
			t.Errorf("%d writes, want none", n)
		}
	})
}

func TestWhatAnEarlierAttemptLeft(t *testing.T) {
	t.Run("is recorded if it is sound", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f, b := newFakeAPI("0"), newFakeBroker()
			b.have("left", owner("0"), status.Running)
			run(t, f, b, nil)
			wait(time.Second)
			wantInstance(t, f, "0", "left")
			if m, _ := f.get("0"); m.nonce != "nonce-of-left" {
				t.Errorf("nonce %q, want the instance's own", m.nonce)
			}
			wantDid(t, b)
		})
	})
	t.Run("is stopped before another is started if it is not", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f, b := newFakeAPI("0"), newFakeBroker()
			b.have("left", owner("0"), status.ProvisioningError)
			run(t, f, b, nil)
			wait(time.Second)
			wantDid(t, b, "stop left", "start 0 i-1")
		})
	})
	t.Run("is found when the answer was lost", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f, b := newFakeAPI("0"), newFakeBroker()
			b.lost = func(_ string, try int) error { return errors.New("connection reset") }
			run(t, f, b, nil)
			wait(time.Minute)
			wantInstance(t, f, "0", "i-1")
			wantDid(t, b, "start 0 i-1")
		})
	})
	t.Run("is stopped beside the recorded one", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f, b := newFakeAPI("0"), newFakeBroker()
			provisioned("a")(f.machines["0"])
			b.have("a", owner("0"), status.Running)
			b.have("b", owner("0"), status.Running)
			w := run(t, f, b, nil)
			wait(time.Second)
			w.change(w.settings) // has a look taken again, now that the machine is known
			wait(time.Second)
			if left := b.left(); !slices.Equal(left, []instance.ID{"a"}) {
				t.Errorf("instances %v left, want a", left)
			}
		})
	})
}

func TestAnInstanceThatCannotBeRecordedIsNotLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, b := newFakeAPI("0"), newFakeBroker()
		tries := 0
		f.recordErr = func(string) error {
			if tries++; tries <= 2 {
				return errors.New("no space left on device")
			}
			return nil
		}
		run(t, f, b, nil)
		wait(10 * time.Minute)
		m, _ := f.get("0")
		if left := b.left(); len(left) != 1 || left[0] != m.instance {
			t.Errorf("instances %v, machine has %q, want the one", left, m.instance)
		}
	})
}

func TestNothingIsStoppedOrStartedOnDoubt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, b := newFakeAPI("0", "1"), newFakeBroker()
		f.machines["1"].life = life.Dead
		provisioned("a")(f.machines["1"])
		b.have("a", owner("1"), status.Running)
		b.listErr = func(try int) error {
			if try <= 5 {
				return errors.New("provider is not answering")
			}
			return nil
		}
		run(t, f, b, map[string]any{"provisioner-harvest-mode": "all"})
		wait(15 * time.Second)
		wantDid(t, b)
		m, _ := f.get("0")
		if !strings.Contains(m.instStat.Message, "provider is not answering") {
			t.Errorf("instance status %q, want why it waits", m.instStat.Message)
		}
		wait(time.Hour)
		wantGone(t, f, "1")
		wantInstance(t, f, "0", "i-1")
	})
}

func TestHarvestModes(t *testing.T) {
	other := environs.Owner{ControllerUUID: controllerUUID, ModelUUID: controllerUUID, MachineID: "7"}
	tests := []struct {
		mode string
		left []instance.ID // of dead (machine 0's), unknown (machine 7's), foreign and nobody's
	}{
		{"none", []instance.ID{"alive", "dead", "foreign", "nobody", "unknown"}},
		// The dead machine's instance is unknown as soon as its record is gone: it may
		// be stopped by the first survey, or by a later one.
		{"unknown", []instance.ID{"alive", "foreign", "nobody"}},
		{"destroyed", []instance.ID{"alive", "foreign", "nobody", "unknown"}},
		{"all", []instance.ID{"alive", "foreign", "nobody"}},
	}
	for _, test := range tests {
		t.Run(test.mode, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, b := newFakeAPI("0", "1"), newFakeBroker()
				provisioned("dead")(f.machines["0"])
				f.machines["0"].life = life.Dead
				provisioned("alive")(f.machines["1"])
				b.have("dead", owner("0"), status.Running)
				b.have("alive", owner("1"), status.Running)
				b.have("unknown", owner("7"), status.Running)
				b.have("foreign", other, status.Running)
				b.have("nobody", environs.Owner{}, status.Running)
				run(t, f, b, map[string]any{"provisioner-harvest-mode": test.mode})
				wait(time.Minute)
				wantGone(t, f, "0")
				left := b.left()
				if test.mode == "unknown" {
					left = slices.DeleteFunc(left, func(id instance.ID) bool { return id == "dead" })
				}
				if !slices.Equal(left, test.left) {
					t.Errorf("instances %v left, want %v", left, test.left)
				}
			})
		})
	}
}

// TestWhatAModeHasLeftIsNotUnknown: the record of its machine is gone by then, but
// it was not forgotten.
func TestWhatAModeHasLeftIsNotUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, b := newFakeAPI("0"), newFakeBroker()
		provisioned("dead")(f.machines["0"])
		f.machines["0"].life = life.Dead
		b.have("dead", owner("0"), status.Running)
		b.have("unknown", owner("7"), status.Running)
		w := run(t, f, b, map[string]any{"provisioner-harvest-mode": "none"})
		wait(time.Minute)
		wantGone(t, f, "0")
		for _, step := range []struct {
			mode string
			left []instance.ID
		}{
			{"unknown", []instance.ID{"dead"}},
			{"all", nil},
		} {
			w.change(settingsOf(modelConfig(t, map[string]any{"provisioner-harvest-mode": step.mode})))
			wait(time.Minute)
			if left := b.left(); !slices.Equal(left, step.left) {
				t.Errorf("mode %s left instances %v, want %v", step.mode, left, step.left)
			}
		}
	})
}

func TestErrorsOfTheControllerRetainInstances(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, b := newFakeAPI("0"), newFakeBroker()
		provisioned("a")(f.machines["0"])
		b.have("a", owner("0"), status.Running)
		f.lifeErr = func(string) error { return errors.New("database is away") }
		run(t, f, b, map[string]any{"provisioner-harvest-mode": "all"})
		wait(time.Hour)
		wantDid(t, b)
	})
}

func TestStartsInParallelUpToTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ids []string
		for i := range 40 {
			ids = append(ids, fmt.Sprint(i))
		}
		f, b := newFakeAPI(ids...), newFakeBroker()
		b.startErr = func(context.Context, string, int) error {
			time.Sleep(10 * time.Second) // of fake time
			return nil
		}
		w := run(t, f, b, map[string]any{"num-provision-workers": 4})
		wait(5 * time.Second)
		if b.most != 4 {
			t.Errorf("%d starts at once, want 4", b.most)
		}
		shown := 0
		for _, id := range ids {
			if m, _ := f.get(id); strings.HasPrefix(m.instStat.Message, "waiting to be started: number ") {
				shown++
			}
		}
		if shown != 36 {
			t.Errorf("%d machines show their place in the queue, want 36", shown)
		}
		w.change(settingsOf(modelConfig(t, map[string]any{"num-provision-workers": 20})))
		wait(10 * time.Second)
		if b.most != 20 {
			t.Errorf("%d starts at once after the limit was raised, want 20", b.most)
		}
		wait(time.Minute)
		if n := len(b.left()); n != 40 {
			t.Errorf("%d instances, want 40", n)
		}
		if m, _ := f.get("39"); len(m.history) > 10 {
			t.Errorf("the last machine in the queue got %d statuses, want few", len(m.history))
		}
	})
}

func TestTaskStopsPromptlyWhileItWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, b := newFakeAPI("0", "1"), newFakeBroker()
		b.startErr = func(ctx context.Context, id string, _ int) error {
			if id == "0" {
				return errors.New("busy")
			}
			<-ctx.Done()
			return ctx.Err()
		}
		w := run(t, f, b, nil)
		wait(time.Second)
		began := time.Now()
		w.Kill()
		if err := w.Wait(); err != nil {
			t.Errorf("Wait() = %v, want nil", err)
		}
		if d := time.Since(began); d > time.Second {
			t.Errorf("stopping took %v", d)
		}
		if m, _ := f.get("0"); m.status.Status != status.Pending {
			t.Errorf("status %q after the stop, want pending", m.status.Status)
		}
	})
}
