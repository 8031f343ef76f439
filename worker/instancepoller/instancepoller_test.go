package instancepoller_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/juju/errors"
	"go.uber.org/goleak"

	"github.com/slipway-project/slipway/api"
	apipoller "github.com/slipway-project/slipway/api/instancepoller"
	"github.com/slipway-project/slipway/core/instance"
	"github.com/slipway-project/slipway/core/network"
	"github.com/slipway-project/slipway/core/status"
	"github.com/slipway-project/slipway/environs"
	"github.com/slipway-project/slipway/worker/instancepoller"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var owner = environs.Owner{ControllerUUID: "5175e000-0bad-400d-8000-000000000001", ModelUUID: "deadbeef-0bad-400d-8000-000000000001"}

// world is a controller and a provider.
type world struct {
	mu        sync.Mutex
	ids       map[string]instance.ID
	statuses  map[string]status.Status
	addresses map[string][]network.Address
	instances []environs.Instance
	listErr   error
	setErr    error
	calls     []string // of the controller
	lists     int
}

func newWorld(machines ...string) *world {
	w := &world{ids: map[string]instance.ID{}, statuses: map[string]status.Status{}, addresses: map[string][]network.Address{}}
	for _, id := range machines {
		w.ids[id], w.statuses[id] = instance.ID("i-"+id), status.Running
		w.addresses[id] = []network.Address{network.NewAddress("10.0.0." + id)}
		w.instances = append(w.instances, w.instance(id))
	}
	return w
}

// instance is what the provider says of a machine with which nothing has happened.
func (w *world) instance(id string) environs.Instance {
	o := owner
	o.MachineID = id
	return environs.Instance{ID: instance.ID("i-" + id), Owner: o, Status: status.Running, Message: "in z1",
		Addresses: []network.Address{network.NewAddress("10.0.0." + id)}}
}

// change changes what there is.
func (w *world) change(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
}

// told returns the calls since it was asked last.
func (w *world) told() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := strings.Join(w.calls, "; ")
	w.calls = nil
	return out
}

func (w *world) AllInstances(context.Context) ([]environs.Instance, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lists++
	return slices.Clone(w.instances), w.listErr
}

// each answers for machines.
func each[T any](w *world, ids []string, value func(id string) T) []api.Result[T] {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := make([]api.Result[T], len(ids))
	for i, id := range ids {
		if _, ok := w.ids[id]; !ok {
			out[i].Err = errors.NotFoundf("machine %s", id)
			continue
		}
		out[i].Value = value(id)
	}
	return out
}

func (w *world) InstanceIDs(_ context.Context, ids ...string) ([]api.Result[instance.ID], error) {
	return each(w, ids, func(id string) instance.ID { return w.ids[id] }), nil
}

func (w *world) InstanceStatus(_ context.Context, ids ...string) ([]api.Result[status.Info], error) {
	return each(w, ids, func(id string) status.Info { return status.Info{Status: w.statuses[id]} }), nil
}

func (w *world) ProviderAddresses(_ context.Context, ids ...string) ([]api.Result[[]network.Address], error) {
	return each(w, ids, func(id string) []network.Address { return w.addresses[id] }), nil
}

func (w *world) set(seen []apipoller.Seen, text func(apipoller.Seen) string) ([]error, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.setErr != nil {
		return nil, w.setErr
	}
	for _, s := range seen {
		w.calls = append(w.calls, text(s))
	}
	return make([]error, len(seen)), nil
}

func (w *world) SetInstanceStatus(_ context.Context, seen ...apipoller.Seen) ([]error, error) {
	return w.set(seen, func(s apipoller.Seen) string {
		w.statuses[s.ID] = s.Status
		return fmt.Sprintf("%s %s (%s)", s.ID, s.Status, s.Message)
	})
}

func (w *world) SetProviderAddresses(_ context.Context, seen ...apipoller.Seen) ([]error, error) {
	return w.set(seen, func(s apipoller.Seen) string {
		w.addresses[s.ID] = s.Addresses
		return fmt.Sprintf("%s at %s", s.ID, s.Addresses[0].Value)
	})
}

// story runs a worker in fake time. Expect lets the next look pass, and checks what
// was told.
func story(t *testing.T, w *world, play func(expect func(want string))) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		worker, err := instancepoller.New(instancepoller.Config{API: w, Lister: w, Owner: owner})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second) // of fake time, so that looks are not on the border
		play(func(want string) {
			t.Helper()
			time.Sleep(instancepoller.DefaultEvery)
			synctest.Wait()
			if got := w.told(); got != want {
				t.Errorf("told %q, want %q", got, want)
			}
		})
		worker.Kill()
		if err := worker.Wait(); err != nil {
			t.Errorf("Wait = %v, want nil", err)
		}
	})
}

func TestOnlyChangesAreTold(t *testing.T) {
	w := newWorld("1", "2")
	story(t, w, func(expect func(string)) {
		expect("")
		expect("")
		w.change(func() { w.instances[1].Status, w.instances[1].Message = status.Stopped, "switched off" })
		expect("2 stopped (switched off)")
		expect("")
		w.change(func() {
			w.instances[1].Status = status.Running
			w.instances[0].Addresses = []network.Address{network.NewAddress("10.0.9.9")}
		})
		expect("2 running (switched off); 1 at 10.0.9.9")
		w.change(func() { w.instances[0].Addresses = nil }) // not known for a moment
		expect("")
	})
	if w.lists != 6 {
		t.Errorf("%d listings, want one each time", w.lists)
	}
}

func TestAnInstanceThatIsGoneIsTold(t *testing.T) {
	w := newWorld("1")
	story(t, w, func(expect func(string)) {
		expect("")
		w.change(func() { w.instances = nil })
		expect("") // it may be missing for a moment
		expect("1 stopped (the provider no longer has the instance)")
		expect("")
		w.change(func() { w.instances = []environs.Instance{w.instance("1")} })
		expect("1 running (in z1)")
	})
}

func TestWhatIsNotRecordedIsLeftAlone(t *testing.T) {
	w := newWorld("1", "2", "3", "4")
	w.instances[0].Status = status.Allocating // is being started
	w.instances[1].ID = "i-another"           // is not the machine's
	w.instances[1].Status = status.Stopped
	delete(w.ids, "3") // has no machine any more
	w.instances[2].Status = status.Stopped
	w.instances[3].Owner.ModelUUID = "deadbeef-0bad-400d-8000-000000000002" // is another model's
	w.instances[3].Status = status.Stopped
	story(t, w, func(expect func(string)) {
		expect("")
		w.change(func() { w.ids["2"] = "i-another" })
		expect("2 stopped (in z1)")
	})
}

func TestFailuresAreTriedAgain(t *testing.T) {
	w := newWorld("1")
	story(t, w, func(expect func(string)) {
		expect("")
		w.change(func() { w.instances[0].Status, w.listErr = status.Stopped, errors.New("no answer") })
		expect("")
		w.change(func() { w.listErr, w.setErr = nil, errors.New("no connection") })
		expect("")
		w.change(func() { w.setErr = nil })
		expect("1 stopped (in z1)")
		expect("")
	})
}

func TestConfigValidate(t *testing.T) {
	w := newWorld()
	for name, cfg := range map[string]instancepoller.Config{
		"API": {Lister: w, Owner: owner}, "Lister": {API: w, Owner: owner}, "UUID": {API: w, Lister: w},
	} {
		if _, err := instancepoller.New(cfg); !errors.Is(err, errors.NotValid) || !strings.Contains(err.Error(), name) {
			t.Errorf("New without %s = %v, want NotValid", name, err)
		}
	}
}
