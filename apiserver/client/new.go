package client

import (
	"context"
	"sync"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/apiserver/below"
	"github.com/slipway-project/slipway/apiserver/common"
	"github.com/slipway-project/slipway/core/constraints"
	"github.com/slipway-project/slipway/state"
)

// New returns the facade Client of a connection.
func New(st *state.State, c common.Connection) (*Client, error) {
	return newClient(newBackend(st), st, c)
}

func newBackend(st *state.State) backend {
	return backend{below.Site{State: st}, below.Config{State: st}, st}
}

// NewMachineManager returns the facade MachineManager of a connection.
func NewMachineManager(st *state.State, c common.Connection) (*MachineManager, error) {
	return newMachineManager(New(st, c))
}

// backend adapts state to what the facades need.
type backend struct {
	below.Site
	below.Config
	st *state.State
}

var _ Backend = backend{}

func (b backend) ControllerUUID() string { return b.st.Controller().ControllerUUID() }

func (b backend) All(ctx context.Context) ([]Machine, error) {
	machines, err := b.st.Machines().All(ctx)
	return widen(machines), errors.Trace(err)
}

func (b backend) Get(ctx context.Context, ids []string) ([]Machine, error) {
	machines, err := b.st.Machines().GetAll(ctx, ids)
	return widen(machines), errors.Trace(err)
}

// widen returns machines as the facades see them; nil stays nil.
func widen(machines []*state.Machine) []Machine {
	out := make([]Machine, len(machines))
	for i, m := range machines {
		if m != nil {
			out[i] = m
		}
	}
	return out
}

func (b backend) Add(ctx context.Context, specs []Spec) ([]Added, error) {
	wanted := make([]state.MachineSpec, len(specs))
	for i, s := range specs {
		wanted[i] = state.MachineSpec{
			Series: s.Series, Base: s.Base, Jobs: s.Jobs, Constraints: s.Constraints, Placement: s.Placement, Group: s.Group,
			ContainerType: s.ContainerType, Parent: s.Parent,
			InstanceID: s.InstanceID, Nonce: s.Nonce, Hardware: s.Hardware, Addresses: s.Addresses,
		}
		for _, d := range s.Disks {
			wanted[i].Disks = append(wanted[i].Disks, state.Disks(d))
		}
	}
	results, err := b.st.Machines().Add(ctx, wanted)
	if err != nil {
		return nil, errors.Trace(err)
	}
	out := make([]Added, len(results))
	for i, r := range results {
		if r.Err != nil {
			out[i].Err = r.Err
			continue
		}
		out[i].ID = r.Machine.Id()
	}
	return out, nil
}

func (b backend) Info(ctx context.Context) (ModelInfo, error) {
	m, err := b.st.Model(ctx)
	if err != nil {
		return ModelInfo{}, errors.Trace(err)
	}
	return ModelInfo{
		Name: m.Name(), Owner: m.Owner(), Life: m.Life(), IsController: b.st.IsControllerModel(),
		Constraints: m.Constraints(), Users: m.Users(),
	}, nil
}

func (b backend) CheckBlocks(ctx context.Context, kinds ...string) error {
	return b.st.Blocks().Check(ctx, kinds...)
}

func (b backend) SetConstraints(ctx context.Context, c constraints.Value) error {
	m, err := b.st.Model(ctx)
	if err != nil {
		return errors.Trace(err)
	}
	return m.SetConstraints(ctx, c)
}

func (b backend) Watch() ChangesWatcher {
	w := &changesWatcher{below: b.st.WatchChanges(), out: make(chan Changes), dying: make(chan struct{})}
	w.done.Add(1)
	go w.loop()
	return w
}

// changesWatcher turns state's events into the facade's.
type changesWatcher struct {
	below *state.ChangesWatcher
	out   chan Changes
	once  sync.Once
	dying chan struct{}
	done  sync.WaitGroup
}

func (w *changesWatcher) loop() {
	defer w.done.Done()
	defer close(w.out)
	for event := range w.below.Changes() {
		c := Changes{All: event.All}
		for _, e := range event.Entities {
			if e.Kind == state.MachineKind {
				c.Machines = append(c.Machines, e.ID)
				continue
			}
			c.Model = true
		}
		select {
		case w.out <- c:
		case <-w.dying:
			return
		}
	}
}

// Changes implements ChangesWatcher.
func (w *changesWatcher) Changes() <-chan Changes { return w.out }

// Kill implements watcher.Watcher.
func (w *changesWatcher) Kill() {
	w.once.Do(func() { close(w.dying) })
	w.below.Kill()
}

// Wait implements watcher.Watcher.
func (w *changesWatcher) Wait() error {
	w.done.Wait()
	return w.below.Wait()
}

func (b backend) Binaries(ctx context.Context) ([]common.Binary, error) {
	return below.Binaries{Site: b.Site}.Binaries(ctx)
}

func (b backend) SetAgentVersion(ctx context.Context, version string, downgrade bool) error {
	set := b.st.ModelConfig().SetAgentVersion
	if downgrade {
		set = b.st.ModelConfig().ForceAgentVersion
	}
	return set(ctx, version)
}
