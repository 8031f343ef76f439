package worker_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/juju/errors"
	"go.uber.org/goleak"
	"gopkg.in/tomb.v2"

	"github.com/slipway-project/slipway/worker"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeWorker lives until it is killed or told to fail.
type fakeWorker struct{ tomb tomb.Tomb }

func newFakeWorker() *fakeWorker {
	w := &fakeWorker{}
	w.tomb.Go(func() error {
		<-w.tomb.Dying()
		return nil
	})
	return w
}

func (w *fakeWorker) Kill()          { w.tomb.Kill(nil) }
func (w *fakeWorker) Wait() error    { return w.tomb.Wait() }
func (w *fakeWorker) fail(err error) { w.tomb.Kill(err) }

func stop(t *testing.T, r *worker.Runner) {
	t.Helper()
	r.Kill()
	if err := r.Wait(); err != nil {
		t.Errorf("Wait() = %v, want nil", err)
	}
}

func TestRunnerStartsAFailedWorkerAgainAfterAGrowingPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := worker.NewRunner(worker.Backoff{Min: time.Second, Max: 4 * time.Second})
		var starts []time.Time
		err := r.Start("flaky", func() (worker.Worker, error) {
			starts = append(starts, time.Now())
			return nil, errors.New("no luck")
		})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Second) // of fake time
		synctest.Wait()
		stop(t, r)
		want := []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 4 * time.Second}
		if len(starts) < len(want)+1 {
			t.Fatalf("started %d times in 20s, want at least %d", len(starts), len(want)+1)
		}
		for i, w := range want {
			got := starts[i+1].Sub(starts[i])
			if got < w*8/10 || got > w*12/10 {
				t.Errorf("pause %d = %v, want %v give or take a fifth", i, got, w)
			}
		}
	})
}

func TestRunnerKeepsOthersRunningWhenOneFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := worker.NewRunner(worker.Backoff{})
		steady, shaky := newFakeWorker(), newFakeWorker()
		started := map[string]int{}
		for name, w := range map[string]*fakeWorker{"steady": steady, "shaky": shaky} {
			err := r.Start(name, func() (worker.Worker, error) {
				started[name]++
				if started[name] > 1 {
					return newFakeWorker(), nil
				}
				return w, nil
			})
			if err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		shaky.fail(errors.New("boom"))
		time.Sleep(5 * time.Second) // of fake time
		synctest.Wait()
		if started["shaky"] != 2 || started["steady"] != 1 {
			t.Errorf("started %v, want shaky twice and steady once", started)
		}
		stop(t, r)
	})
}

func TestRunnerStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := worker.NewRunner(worker.Backoff{})
		w := newFakeWorker()
		if err := r.Start("one", func() (worker.Worker, error) { return w, nil }); err != nil {
			t.Fatal(err)
		}
		if err := r.Start("one", nil); !errors.Is(err, errors.AlreadyExists) {
			t.Errorf("second Start = %v, want AlreadyExists", err)
		}
		synctest.Wait()
		r.Stop("one")
		r.Stop("missing")
		if err := w.Wait(); err != nil {
			t.Errorf("stopped worker's Wait() = %v, want nil", err)
		}
		if names := r.Names(); len(names) != 0 {
			t.Errorf("Names() = %v, want none", names)
		}
		stop(t, r)
		if err := r.Start("late", nil); err == nil {
			t.Error("Start on a stopped runner succeeded")
		}
	})
}

func TestRunnerLetsADoneJobRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := worker.NewRunner(worker.Backoff{})
		starts := 0
		if err := r.Start("short", func() (worker.Worker, error) {
			starts++
			return nil, errors.Annotate(worker.ErrDone, "nothing more to do")
		}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Minute) // of fake time
		synctest.Wait()
		if starts != 1 || len(r.Names()) != 0 {
			t.Errorf("started %d times and %v left, want once and none", starts, r.Names())
		}
		stop(t, r)
	})
}

func TestBackoffDelayWithoutFailuresIsZero(t *testing.T) {
	if d := (worker.Backoff{}).Delay(0); d != 0 {
		t.Errorf("Delay(0) = %v, want 0", d)
	}
	if d := (worker.Backoff{}).Delay(100); d > 72*time.Second {
		t.Errorf("Delay(100) = %v, want at most 72s", d)
	}
}
