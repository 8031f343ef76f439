package provisioner

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/api"
	apiprovisioner "github.com/slipway-project/slipway/api/provisioner"
	"github.com/slipway-project/slipway/core/instance"
	"github.com/slipway-project/slipway/core/life"
	"github.com/slipway-project/slipway/core/status"
	"github.com/slipway-project/slipway/environs"
	"github.com/slipway-project/slipway/params"
	"github.com/slipway-project/slipway/watcher"
	"github.com/slipway-project/slipway/worker"
)

// dice decide what fails. They may be thrown by many goroutines.
type dice struct {
	mu   sync.Mutex
	rand *rand.Rand
}

// fault returns an error once in twenty times.
func (d *dice) fault(what string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.rand.IntN(20) == 0 {
		return errors.Errorf("simulated fault of %s", what)
	}
	return nil
}

// shuffle puts ids into another order.
func (d *dice) shuffle(ids []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.rand.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
}

// some replaces one error in twenty.
func (d *dice) some(what string, errs []error) []error {
	for i := range errs {
		if err := d.fault(what); err != nil {
			errs[i] = err
		}
	}
	return errs
}

// faulty makes one call in twenty fail before it is carried out, one in twenty
// after that, and one entry in twenty of what it answers.
type faulty struct {
	*fakeAPI
	dice *dice

	mu   sync.Mutex
	feed *feed[[]string] // of the watcher that was made last
}

func faultyErrors(f *faulty, what string, call func() ([]error, error)) ([]error, error) {
	if err := f.dice.fault(what); err != nil {
		return nil, err
	}
	errs, err := call()
	if err == nil {
		err = f.dice.fault(what)
	}
	return f.dice.some(what, errs), err
}

func faultyResults[T any](f *faulty, what string, call func() ([]api.Result[T], error)) ([]api.Result[T], error) {
	if err := f.dice.fault(what); err != nil {
		return nil, err
	}
	all, err := call()
	for i := range all {
		if err := f.dice.fault(what); err != nil {
			all[i] = api.Result[T]{Err: err}
		}
	}
	return all, err
}

// WatchModelMachines names all machines at first.
func (f *faulty) WatchModelMachines(context.Context) (watcher.StringsWatcher, error) {
	if err := f.dice.fault("watch"); err != nil {
		return nil, err
	}
	next := newFeed[[]string]()
	f.fakeAPI.mu.Lock()
	var ids []string
	for id := range f.machines {
		ids = append(ids, id)
	}
	f.fakeAPI.mu.Unlock()
	next.ch <- ids
	f.mu.Lock()
	defer f.mu.Unlock()
	f.feed = next
	return next, nil
}

// say tells whoever watches that machines changed.
func (f *faulty) say(ids ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.feed.ch <- ids
}

// kill has machines be dead. A retry may be under way.
func (f *faulty) kill(ids ...string) {
	f.fakeAPI.mu.Lock()
	defer f.fakeAPI.mu.Unlock()
	for _, id := range ids {
		f.machines[id].life = life.Dead
	}
}

func (f *faulty) WatchModelConfig(context.Context) (watcher.NotifyWatcher, error) {
	if err := f.dice.fault("watch"); err != nil {
		return nil, err
	}
	next := newFeed[struct{}]()
	next.ch <- struct{}{}
	return next, nil
}

func (f *faulty) WatchMachineErrorRetry(context.Context) (watcher.NotifyWatcher, error) {
	return newFeed[struct{}](), nil
}

func (f *faulty) Life(ctx context.Context, ids ...string) ([]api.Result[life.Value], error) {
	return faultyResults(f, "Life", func() ([]api.Result[life.Value], error) { return f.fakeAPI.Life(ctx, ids...) })
}

func (f *faulty) InstanceID(ctx context.Context, ids ...string) ([]api.Result[instance.ID], error) {
	return faultyResults(f, "InstanceID", func() ([]api.Result[instance.ID], error) { return f.fakeAPI.InstanceID(ctx, ids...) })
}

func (f *faulty) Status(ctx context.Context, ids ...string) ([]api.Result[status.Info], error) {
	return faultyResults(f, "Status", func() ([]api.Result[status.Info], error) { return f.fakeAPI.Status(ctx, ids...) })
}

func (f *faulty) ProvisioningInfo(ctx context.Context, ids ...string) ([]api.Result[params.ProvisioningInfo], error) {
	if err := f.dice.fault("ProvisioningInfo"); err != nil {
		return nil, err
	}
	return f.fakeAPI.ProvisioningInfo(ctx, ids...) // an error of one machine is a refusal for good
}

func (f *faulty) SetPasswords(ctx context.Context, set ...apiprovisioner.Password) ([]error, error) {
	return faultyErrors(f, "SetPasswords", func() ([]error, error) { return f.fakeAPI.SetPasswords(ctx, set...) })
}

func (f *faulty) SetInstanceInfo(ctx context.Context, set ...apiprovisioner.Instance) ([]error, error) {
	return faultyErrors(f, "SetInstanceInfo", func() ([]error, error) { return f.fakeAPI.SetInstanceInfo(ctx, set...) })
}

func (f *faulty) SetInstanceStatus(ctx context.Context, set ...apiprovisioner.NewStatus) ([]error, error) {
	return faultyErrors(f, "SetInstanceStatus", func() ([]error, error) { return f.fakeAPI.SetInstanceStatus(ctx, set...) })
}

func (f *faulty) EnsureDead(ctx context.Context, ids ...string) ([]error, error) {
	return faultyErrors(f, "EnsureDead", func() ([]error, error) { return f.fakeAPI.EnsureDead(ctx, ids...) })
}

func (f *faulty) Remove(ctx context.Context, ids ...string) ([]error, error) {
	return faultyErrors(f, "Remove", func() ([]error, error) { return f.fakeAPI.Remove(ctx, ids...) })
}

func (f *faulty) APIAddresses(ctx context.Context) ([]string, error) {
	if err := f.dice.fault("APIAddresses"); err != nil {
		return nil, err
	}
	return f.fakeAPI.APIAddresses(ctx)
}

func (f *faulty) ModelConfig(ctx context.Context) (map[string]any, error) {
	if err := f.dice.fault("ModelConfig"); err != nil {
		return nil, err
	}
	return f.fakeAPI.ModelConfig(ctx)
}

// seeds returns those that a test is to be run with: SEED alone, or some.
func seeds(t *testing.T, n int) []uint64 {
	t.Helper()
	if seed, err := strconv.ParseUint(os.Getenv("SEED"), 10, 64); err == nil {
		return []uint64{seed}
	}
	all := make([]uint64, n)
	for i := range all {
		all[i] = rand.Uint64()
	}
	return all
}

// TestAThousandMachinesWithFaultsInEveryCall fails one call in twenty, to the
// controller and to the provider. Whatever the seed, each living machine has its
// one instance in the end, and nothing else is there.
func TestAThousandMachinesWithFaultsInEveryCall(t *testing.T) {
	const n = 1000
	for _, seed := range seeds(t, 1) {
		t.Run(fmt.Sprintf("SEED=%d", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var ids []string
				for i := range n {
					ids = append(ids, strconv.Itoa(i))
				}
				d := &dice{rand: rand.New(rand.NewPCG(seed, 0))}
				f := &faulty{fakeAPI: newFakeAPI(ids...), dice: d}
				f.config["provisioner-retry-count"] = 100
				b := newFakeBroker()
				b.startErr = func(context.Context, string, int) error { return d.fault("start") }
				b.lost = func(string, int) error { return d.fault("start's answer") }
				b.stopErr = func(instance.ID, int) error { return d.fault("stop") }
				b.listErr = func(int) error { return d.fault("list") }
				stop := keepRunning(t, f, &fakeEnviron{fakeBroker: b})
				wait(time.Hour)
				f.checkInstances(t, b, ids)
				d.shuffle(ids)
				f.kill(ids[:n/2]...)
				f.say(ids[:n/2]...)
				wait(time.Hour)
				f.checkInstances(t, b, ids[n/2:])
				stop()
			})
		})
	}
}

// keepRunning has a provisioner run, and started again when it fails.
func keepRunning(t *testing.T, f *faulty, e *fakeEnviron) (stop func()) {
	t.Helper()
	f.fakeAPI.machineFeed.Kill()
	f.fakeAPI.retryFeed.Kill()
	f.fakeAPI.configFeed.Kill()
	r := worker.NewRunner(worker.Backoff{Max: time.Second})
	err := r.Start("provisioner", func() (worker.Worker, error) {
		return New(Config{
			API: f, ModelUUID: modelUUID, ControllerUUID: controllerUUID,
			Registry: environs.NewRegistry(map[string]environs.Provider{"fake": &fakeProvider{environ: e}}),
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	return func() {
		r.Kill()
		if err := r.Wait(); err != nil {
			t.Errorf("Wait() = %v, want nil", err)
		}
	}
}

// checkInstances checks that the living machines are there, each with its one
// instance, and that nothing else is.
func (f *faulty) checkInstances(t *testing.T, b *fakeBroker, living []string) {
	t.Helper()
	f.fakeAPI.mu.Lock()
	defer f.fakeAPI.mu.Unlock()
	if len(f.machines) != len(living) {
		t.Errorf("%d machines are there, want %d", len(f.machines), len(living))
	}
	var want []instance.ID
	for _, id := range living {
		m := f.machines[id]
		switch {
		case m == nil:
			t.Errorf("machine %s is gone", id)
		case m.instance == "":
			t.Errorf("machine %s has no instance: %s %q", id, m.instStat.Status, m.instStat.Message)
		default:
			want = append(want, m.instance)
		}
	}
	slices.Sort(want)
	if got := b.left(); !slices.Equal(got, want) {
		t.Errorf("%d instances are there, want the %d that are recorded", len(got), len(want))
	}
}
