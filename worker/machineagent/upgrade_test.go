package machineagent

import (
	"context"
	"os"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/core/life"
	"github.com/slipway-project/slipway/core/status"
	"github.com/slipway-project/slipway/worker"
)

// upgrading runs a test with an agent that looks for other versions as upgrade
// does.
func upgrading(t *testing.T, upgrade func(ctx context.Context, tell func(string)) error, test func(*fixture)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := &fixture{T: t, controller: newController(), system: newSystem(), path: writeFile(t)}
		var err error
		f.agent, err = New(Config{
			AgentFile: f.path, System: f.system, dial: f.controller.dial,
			Upgrade: func(ctx context.Context, _ Connection, _ string, tell func(string)) error { return upgrade(ctx, tell) },
		})
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		test(f)
		f.agent.Kill()
		_ = f.agent.Wait() // tests that care have waited
	})
}

func TestWhatKeepsAnAgentFromUpgradingIsInItsStatus(t *testing.T) {
	upgrading(t, func(ctx context.Context, tell func(string)) error {
		tell("cannot upgrade to 2.0.1: no")
		time.Sleep(time.Minute)
		tell("")
		<-ctx.Done()
		return ctx.Err()
	}, func(f *fixture) {
		f.wantLast(status.Started, "cannot upgrade to 2.0.1: no")
		time.Sleep(2 * time.Minute)
		f.wantLast(status.Started, "")
	})
}

func (f *fixture) wantLast(s status.Status, message string) {
	f.Helper()
	synctest.Wait()
	f.controller.do(func() {
		n := len(f.controller.statuses) - 1
		if f.controller.statuses[n] != s || f.controller.messages[n] != message {
			f.Errorf("last status = %q, %q, want %q, %q", f.controller.statuses[n], f.controller.messages[n], s, message)
		}
	})
}

func TestADyingMachineSaysNothingOfUpgrades(t *testing.T) {
	upgrading(t, func(ctx context.Context, tell func(string)) error {
		time.Sleep(time.Minute)
		tell("cannot upgrade to 2.0.1: no")
		<-ctx.Done()
		return ctx.Err()
	}, func(f *fixture) {
		f.controller.do(func() { f.controller.ensureDeadErr = errors.New("it has containers") })
		f.controller.change(func() { f.controller.life = life.Dying })
		time.Sleep(2 * time.Minute)
		f.wantLast(status.Stopped, "")
	})
}

func TestAnAgentEndsToBeAnotherVersion(t *testing.T) {
	upgrading(t, func(context.Context, func(string)) error { return worker.ErrRestart }, func(f *fixture) {
		if err := f.agent.Wait(); !errors.Is(err, worker.ErrRestart) {
			t.Errorf("Wait() = %v, want ErrRestart", err)
		}
		f.controller.do(func() {
			if len(f.controller.links) != 0 {
				t.Errorf("%d connections are left", len(f.controller.links))
			}
		})
	})
}

func TestTryChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, path := newController(), writeFile(t)
		before, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		cfg := Config{AgentFile: path, System: newSystem(), dial: c.dial}
		if err := Try(t.Context(), cfg); err != nil {
			t.Errorf("Try = %v", err)
		}
		after, err := os.ReadFile(path)
		if err != nil || !slices.Equal(before, after) || len(c.statuses) > 0 || c.addresses != nil || c.password != firstPassword || len(c.links) > 0 {
			t.Errorf("Try changed something: %v, %+v", err, c)
		}

		// It goes on trying, until its time is over.
		c.dialErr = errors.New("no route to host")
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := Try(ctx, cfg); err == nil || err.Error() != "cannot log in: no route to host" || len(c.dials) < 3 {
			t.Errorf("Try = %v after %d attempts", err, len(c.dials))
		}
	})
}
