package provisioner

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/juju/errors"
	"gopkg.in/tomb.v2"

	"github.com/slipway-project/slipway/api"
	apiprovisioner "github.com/slipway-project/slipway/api/provisioner"
	"github.com/slipway-project/slipway/core/instance"
	"github.com/slipway-project/slipway/core/life"
	"github.com/slipway-project/slipway/core/status"
	"github.com/slipway-project/slipway/core/tag"
	"github.com/slipway-project/slipway/environs"
	"github.com/slipway-project/slipway/environs/config"
	"github.com/slipway-project/slipway/params"
	"github.com/slipway-project/slipway/watcher"
)

const (
	modelUUID      = "9e4bb3f1-5b4c-4c0a-8a5f-3a2d7f5c0001"
	controllerUUID = "9e4bb3f1-5b4c-4c0a-8a5f-3a2d7f5c0002"
)

// feed is a watcher that a test drives.
type feed[T any] struct {
	tomb tomb.Tomb
	ch   chan T
}

func newFeed[T any]() *feed[T] {
	f := &feed[T]{ch: make(chan T, 100)}
	f.tomb.Go(func() error { <-f.tomb.Dying(); return nil })
	return f
}

func (f *feed[T]) Kill()             { f.tomb.Kill(nil) }
func (f *feed[T]) Wait() error       { return f.tomb.Wait() }
func (f *feed[T]) Changes() <-chan T { return f.ch }

// fakeMachine is a machine as the fake controller keeps it.
type fakeMachine struct {
	life     life.Value
	instance instance.ID
	nonce    string
	password string
	status   status.Info
	instStat status.Info
	history  []status.Info // of the instance
	volumes  []apiprovisioner.Volume
	network  []params.NetworkConfig
}

// fakeAPI is a controller that holds machines in memory. Its hooks, where set,
// make calls fail.
type fakeAPI struct {
	volumes  []params.VolumeParams // that every machine is to have
	mu       sync.Mutex
	machines map[string]*fakeMachine
	config   map[string]any

	machineFeed *feed[[]string]
	retryFeed   *feed[struct{}]
	configFeed  *feed[struct{}]

	infoErr       func(id string) error
	passwordErr   func(id string) error
	ensureDeadErr func(id string) error
	removeErr     func(id string) error
	recordErr     func(id string) error
	lifeErr       func(id string) error
	transientErr  error
	tools         []params.Tools
	calls         map[string]int
}

func newFakeAPI(ids ...string) *fakeAPI {
	f := &fakeAPI{
		machines:    map[string]*fakeMachine{},
		machineFeed: newFeed[[]string](), retryFeed: newFeed[struct{}](), configFeed: newFeed[struct{}](),
		calls:  map[string]int{},
		config: map[string]any{"name": "m", "type": "fake", "uuid": modelUUID},
	}
	for _, id := range ids {
		f.machines[id] = pendingMachine()
	}
	f.machineFeed.ch <- ids
	f.configFeed.ch <- struct{}{}
	return f
}

func pendingMachine() *fakeMachine {
	return &fakeMachine{life: life.Alive, status: status.Info{Status: status.Pending}}
}

// change changes a machine and, unless quiet, says so.
func (f *fakeAPI) change(id string, how func(m *fakeMachine)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	m, ok := f.machines[id]
	if !ok {
		m = pendingMachine()
		f.machines[id] = m
	}
	how(m)
	f.machineFeed.ch <- []string{id}
}

// get returns a copy of a machine, and whether it is there.
func (f *fakeAPI) get(id string) (fakeMachine, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	m, ok := f.machines[id]
	if !ok {
		return fakeMachine{}, false
	}
	return *m, true
}

// each does something about each machine, one error for each.
func (f *fakeAPI) each(call string, ids []string, do func(id string, m *fakeMachine) error) []error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls[call]++
	errs := make([]error, len(ids))
	for i, id := range ids {
		m, ok := f.machines[id]
		if !ok {
			errs[i] = errors.NotFoundf("machine %s", id)
			continue
		}
		errs[i] = do(id, m)
	}
	return errs
}

// hook calls a hook, if there is one.
func hook(h func(string) error, id string) error {
	if h == nil {
		return nil
	}
	return h(id)
}

// results turns values and errors into results.
func results[T any](errs []error, value func(i int) T) []api.Result[T] {
	out := make([]api.Result[T], len(errs))
	for i, err := range errs {
		if out[i].Err = err; err == nil {
			out[i].Value = value(i)
		}
	}
	return out
}

func (f *fakeAPI) WatchModelMachines(context.Context) (watcher.StringsWatcher, error) {
	return f.machineFeed, nil
}

func (f *fakeAPI) WatchContainers(_ context.Context, id, containerType string) (watcher.StringsWatcher, error) {
	if id != "0" || containerType != "lxd" {
		return nil, errors.Unauthorizedf("containers of %s, type %q,", id, containerType)
	}
	return f.machineFeed, nil
}

func (f *fakeAPI) WatchMachineErrorRetry(context.Context) (watcher.NotifyWatcher, error) {
	return f.retryFeed, nil
}

func (f *fakeAPI) WatchModelConfig(context.Context) (watcher.NotifyWatcher, error) {
	return f.configFeed, nil
}

func (f *fakeAPI) Life(_ context.Context, ids ...string) ([]api.Result[life.Value], error) {
	lives := make([]life.Value, len(ids))
	errs := f.each("Life", ids, func(id string, m *fakeMachine) error {
		lives[slices.Index(ids, id)] = m.life
		return hook(f.lifeErr, id)
	})
	return results(errs, func(i int) life.Value { return lives[i] }), nil
}

func (f *fakeAPI) InstanceID(_ context.Context, ids ...string) ([]api.Result[instance.ID], error) {
	found := make([]instance.ID, len(ids))
	errs := f.each("InstanceID", ids, func(id string, m *fakeMachine) error {
		if m.instance == "" {
			return errors.NotProvisionedf("machine %s", id)
		}
		found[slices.Index(ids, id)] = m.instance
		return nil
	})
	return results(errs, func(i int) instance.ID { return found[i] }), nil
}

func (f *fakeAPI) Status(_ context.Context, ids ...string) ([]api.Result[status.Info], error) {
	found := make([]status.Info, len(ids))
	errs := f.each("Status", ids, func(id string, m *fakeMachine) error {
		found[slices.Index(ids, id)] = m.status
		return nil
	})
	return results(errs, func(i int) status.Info { return found[i] }), nil
}

func (f *fakeAPI) ProvisioningInfo(_ context.Context, ids ...string) ([]api.Result[params.ProvisioningInfo], error) {
	errs := f.each("ProvisioningInfo", ids, func(id string, m *fakeMachine) error { return hook(f.infoErr, id) })
	return results(errs, func(i int) params.ProvisioningInfo {
		return params.ProvisioningInfo{Series: "jammy", Jobs: []string{"JobHostUnits"}, Tags: map[string]string{"color": "red"}, Volumes: f.volumes}
	}), nil
}

func (f *fakeAPI) MachinesWithTransientErrors(context.Context) ([]apiprovisioner.Transient, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls["MachinesWithTransientErrors"]++
	if err := f.transientErr; err != nil {
		f.transientErr = nil
		return nil, err
	}
	var out []apiprovisioner.Transient
	for _, id := range slices.SortedFunc(maps.Keys(f.machines), tag.CompareMachines) {
		m := f.machines[id]
		if m.instance == "" && m.status.Status == status.Error && m.status.Data["transient"] == true {
			out = append(out, apiprovisioner.Transient{ID: id, Life: m.life, Status: m.status})
		}
	}
	return out, nil
}

func (f *fakeAPI) SetPasswords(_ context.Context, set ...apiprovisioner.Password) ([]error, error) {
	errs := make([]error, len(set))
	for i, p := range set {
		errs[i] = f.each("SetPasswords", []string{p.ID}, func(id string, m *fakeMachine) error {
			if err := hook(f.passwordErr, id); err != nil {
				return err
			}
			m.password = string(p.Password)
			return nil
		})[0]
	}
	return errs, nil
}

func (f *fakeAPI) SetInstanceInfo(_ context.Context, set ...apiprovisioner.Instance) ([]error, error) {
	errs := make([]error, len(set))
	for i, s := range set {
		errs[i] = f.each("SetInstanceInfo", []string{s.MachineID}, func(id string, m *fakeMachine) error {
			if err := hook(f.recordErr, id); err != nil {
				return err
			}
			if m.life != life.Alive {
				return errors.New("not found or not alive")
			}
			if m.instance != "" {
				return errors.New("already set")
			}
			m.instance, m.nonce, m.volumes, m.network = s.ID, s.Nonce, s.Volumes, s.Network
			return nil
		})[0]
	}
	return errs, nil
}

func (f *fakeAPI) SetInstanceStatus(_ context.Context, set ...apiprovisioner.NewStatus) ([]error, error) {
	errs := make([]error, len(set))
	for i, s := range set {
		errs[i] = f.each("SetInstanceStatus", []string{s.ID}, func(_ string, m *fakeMachine) error {
			m.instStat = status.Info{Status: s.Status, Message: s.Message, Data: s.Data}
			m.history = append(m.history, m.instStat)
			if s.Status == status.ProvisioningError {
				m.status = status.Info{Status: status.Error, Message: s.Message, Data: s.Data}
			}
			return nil
		})[0]
	}
	return errs, nil
}

func (f *fakeAPI) SetStatus(_ context.Context, set ...apiprovisioner.NewStatus) ([]error, error) {
	errs := make([]error, len(set))
	for i, s := range set {
		errs[i] = f.each("SetStatus", []string{s.ID}, func(_ string, m *fakeMachine) error {
			m.status = status.Info{Status: s.Status, Message: s.Message, Data: s.Data}
			return nil
		})[0]
	}
	return errs, nil
}

func (f *fakeAPI) EnsureDead(_ context.Context, ids ...string) ([]error, error) {
	return f.each("EnsureDead", ids, func(id string, m *fakeMachine) error {
		if err := hook(f.ensureDeadErr, id); err != nil {
			return err
		}
		m.life = life.Dead
		return nil
	}), nil
}

func (f *fakeAPI) Remove(_ context.Context, ids ...string) ([]error, error) {
	return f.each("Remove", ids, func(id string, m *fakeMachine) error {
		if err := hook(f.removeErr, id); err != nil {
			return err
		}
		if m.life != life.Dead {
			return errors.New("machine is not dead")
		}
		delete(f.machines, id)
		return nil
	}), nil
}

func (f *fakeAPI) APIAddresses(context.Context) ([]string, error) {
	return []string{"127.0.0.1:17070"}, nil
}
func (f *fakeAPI) FindTools(context.Context, params.FindToolsParams) ([]params.Tools, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls["FindTools"]++
	if len(f.tools) == 0 {
		return nil, errors.NotFoundf("tools")
	}
	return f.tools, nil
}
func (f *fakeAPI) CACert(context.Context) (string, error) { return "PEM", nil }
func (f *fakeAPI) ModelConfig(context.Context) (map[string]any, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.config == nil {
		return nil, errors.NotFoundf("model")
	}
	return maps.Clone(f.config), nil
}
func (f *fakeAPI) DistributionGroup(_ context.Context, ids ...string) ([]api.Result[[]instance.ID], error) {
	return make([]api.Result[[]instance.ID], len(ids)), nil
}

// fakeBroker runs instances in memory, and writes down what it did.
type fakeBroker struct {
	mu        sync.Mutex
	instances map[instance.ID]environs.Instance
	last      int
	log       []string // "start 3 i-1", "stop i-1"
	atOnce    int
	most      int                    // starts at once, at the most
	packages  []environs.AgentBinary // that the last machine was told of

	startErr func(ctx context.Context, machineID string, try int) error // nil means success
	stopErr  func(id instance.ID, try int) error
	listErr  func(try int) error
	lost     func(machineID string, try int) error // an error after success
	tries    map[string]int
}

func newFakeBroker() *fakeBroker {
	return &fakeBroker{instances: map[instance.ID]environs.Instance{}, tries: map[string]int{}}
}

// have puts an instance there that nobody started.
func (b *fakeBroker) have(id instance.ID, owner environs.Owner, s status.Status) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.instances[id] = environs.Instance{ID: id, Owner: owner, Nonce: "nonce-of-" + string(id), Status: s}
}

func owner(machineID string) environs.Owner {
	return environs.Owner{ControllerUUID: controllerUUID, ModelUUID: modelUUID, MachineID: machineID}
}

func (b *fakeBroker) try(what string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tries[what]++
	return b.tries[what]
}

func (b *fakeBroker) StartInstance(ctx context.Context, p environs.StartInstanceParams) (environs.StartInstanceResult, error) {
	if err := p.Validate(); err != nil {
		return environs.StartInstanceResult{}, err
	}
	id := p.Owner.MachineID
	try := b.try("start " + id)
	b.mu.Lock()
	b.atOnce++
	b.most = max(b.most, b.atOnce)
	b.mu.Unlock()
	defer func() {
		b.mu.Lock()
		b.atOnce--
		b.mu.Unlock()
	}()
	if b.startErr != nil {
		if err := b.startErr(ctx, id, try); err != nil {
			return environs.StartInstanceResult{}, err
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, i := range b.instances {
		if i.Owner == p.Owner {
			return environs.StartInstanceResult{}, errors.AlreadyExistsf("instance of machine %s", id)
		}
	}
	b.last++
	i := environs.Instance{ID: instance.ID(fmt.Sprintf("i-%d", b.last)), Owner: p.Owner, Nonce: p.InstanceConfig.Nonce, Status: status.Running}
	for _, v := range p.Volumes {
		i.Volumes = append(i.Volumes, environs.Volume{ID: v.ID, VolumeID: fmt.Sprintf("%s in %s%v", i.ID, v.Provider, v.Attributes), Size: v.Size, DeviceName: "sdb"})
	}
	b.instances[i.ID] = i
	b.packages = p.InstanceConfig.AgentBinaries
	b.log = append(b.log, fmt.Sprintf("start %s %s", id, i.ID))
	if b.lost != nil {
		if err := b.lost(id, try); err != nil {
			return environs.StartInstanceResult{}, err
		}
	}
	return environs.StartInstanceResult{Instance: i}, nil
}

func (b *fakeBroker) StopInstances(_ context.Context, ids []instance.ID) ([]error, error) {
	errs := make([]error, len(ids))
	for n, id := range ids {
		try := b.try("stop " + string(id))
		if b.stopErr != nil {
			if errs[n] = b.stopErr(id, try); errs[n] != nil {
				continue
			}
		}
		b.mu.Lock()
		delete(b.instances, id)
		b.log = append(b.log, "stop "+string(id))
		b.mu.Unlock()
	}
	return errs, nil
}

func (b *fakeBroker) AllInstances(context.Context) ([]environs.Instance, error) {
	try := b.try("list")
	if b.listErr != nil {
		if err := b.listErr(try); err != nil {
			return nil, err
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Collect(maps.Values(b.instances)), nil
}

// did returns what the broker did, a line each.
func (b *fakeBroker) did() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Join(b.log, "\n")
}

// left returns the ids of the instances there are, sorted.
func (b *fakeBroker) left() []instance.ID {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Sorted(maps.Keys(b.instances))
}

// modelConfig returns a configuration with some settings beside the usual.
func modelConfig(t *testing.T, attrs map[string]any) *config.Config {
	t.Helper()
	all := map[string]any{"name": "m", "type": "fake", "uuid": modelUUID}
	maps.Copy(all, attrs)
	c, err := config.New(all)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// run starts a task, and stops it when the test ends.
func run(t *testing.T, f *fakeAPI, b *fakeBroker, attrs map[string]any) *task {
	t.Helper()
	return runWith(t, f, b, modelConfig(t, attrs))
}

// runWith is run with any broker.
func runWith(t *testing.T, f *fakeAPI, b Broker, c *config.Config) *task {
	t.Helper()
	w := newTask(taskConfig{
		api: f, broker: b, settings: settingsOf(c),
		owner: environs.Owner{ControllerUUID: controllerUUID, ModelUUID: modelUUID},
		model: func() *config.Config { return c },
		watch: f.WatchModelMachines, retries: f.WatchMachineErrorRetry,
		ours: func(string) bool { return true },
	})
	t.Cleanup(func() {
		w.Kill()
		if err := w.Wait(); err != nil {
			t.Errorf("the task ended with %v, want nil", err)
		}
		f.configFeed.Kill()
		_ = f.configFeed.Wait()
	})
	return w
}
