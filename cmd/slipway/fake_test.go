package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/api/apitest"
	"github.com/slipway-project/slipway/core/kind"
	"github.com/slipway-project/slipway/core/tag"
	"github.com/slipway-project/slipway/params"
)

// fakeSite is as much of a controller as the commands need. It does not follow
// the protocol's rules further than that.
type fakeSite struct {
	server *apitest.Server

	mu       sync.Mutex
	next     int
	machines map[string]*params.MachineStatus // containers too, by full id
	changed  chan struct{}                    // closed and made anew at each change
	gone     []string                         // removed since the start
	told     map[string]chan struct{}         // by watcher: closed if something changed since its last event
	config   map[string]params.ConfigValue
	models   map[string]string // uuid by name
	users    map[string]params.Secret
	workers  map[string]bool
}

var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func newFakeSite(s *apitest.Server) *fakeSite {
	f := &fakeSite{
		server: s, machines: make(map[string]*params.MachineStatus), changed: make(chan struct{}), told: make(map[string]chan struct{}),
		config: map[string]params.ConfigValue{
			"name": {Value: "default", Source: "model"}, "type": {Value: "simulated", Source: "model"},
			"http-proxy": {Value: "", Source: "default"}, "num-provision-workers": {Value: 16, Source: "default"},
		},
		models:  map[string]string{"default": apitest.ModelUUID, "controller": apitest.ControllerUUID},
		users:   map[string]params.Secret{"admin": apitest.Password},
		workers: make(map[string]bool),
	}
	s.Handle("Client.FullStatus", f.fullStatus)
	s.Handle("Client.AddMachinesV2", f.addMachines)
	s.Handle("Client.DestroyMachines", f.destroyMachines)
	s.Handle("Client.RetryProvisioning", f.retryProvisioning)
	s.Handle("Client.WatchAll", f.watchAll)
	s.Handle("AllWatcher.Next", f.nextDeltas)
	s.Reply("AllWatcher.Stop", nil)
	s.Handle("ModelConfig.ModelGet", func(context.Context, apitest.Request) (any, error) {
		f.mu.Lock()
		defer f.mu.Unlock()
		return params.ModelConfigResults{Config: maps.Clone(f.config)}, nil
	})
	s.Handle("ModelConfig.ModelSet", f.modelSet)
	s.Handle("ModelConfig.ModelUnset", f.modelUnset)
	s.Handle("ModelManager.ListModels", f.listModels)
	s.Handle("ModelManager.CreateModel", f.createModel)
	s.Handle("ModelManager.DestroyModels", f.destroyModels)
	s.Handle("UserManager.AddUser", f.addUser)
	s.Handle("UserManager.SetPassword", f.setPassword)
	s.Handle("ModelWorkers.AddWorkers", f.addWorkers)
	s.Handle("ModelWorkers.RemoveWorkers", f.removeWorkers)
	return f
}

// change lets f alter the machines, and wakes who watches them.
func (f *fakeSite) change(alter func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	alter()
	close(f.changed)
	f.changed = make(chan struct{})
}

// setStatus is what an agent or a worker would do.
func (f *fakeSite) setStatus(id, status, message string) error {
	var err error
	f.change(func() {
		m, ok := f.machines[id]
		if !ok {
			err = errors.NotFoundf("machine %s", id)
			return
		}
		m.AgentStatus.Status, m.AgentStatus.Info = status, message
		if status == "started" {
			m.InstanceID, m.InstanceStatus.Status, m.DNSName = "i-"+id, "running", "10.0.0."+id
			m.IPAddresses = []string{m.DNSName}
			m.Hardware = "arch=amd64 cores=2 mem=4096M availability-zone=z1"
		}
	})
	return err
}

// remove is what a worker would do at the end.
func (f *fakeSite) remove(id string) error {
	f.change(func() {
		delete(f.machines, id)
		f.gone = append(f.gone, id)
	})
	return nil
}

func (f *fakeSite) disconnect() { f.server.Disconnect() }

func (f *fakeSite) fullStatus(_ context.Context, r apitest.Request) (any, error) {
	var p params.StatusParams
	if err := r.Read(&p); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	out := params.FullStatus{
		Model:    params.ModelStatusInfo{Name: "default", CloudTag: "cloud-simulated", Version: "0.1.0"},
		Machines: make(map[string]params.MachineStatus), Applications: map[string]struct{}{},
	}
	for id, m := range f.machines {
		matches := func(pattern string) bool { return tag.TopParent(pattern) == id }
		if tag.IsContainer(id) || len(p.Patterns) > 0 && !slices.ContainsFunc(p.Patterns, matches) {
			continue
		}
		shown := *m
		shown.Containers = make(map[string]params.MachineStatus)
		for inner, c := range f.machines {
			if tag.Parent(inner) == id {
				shown.Containers[inner] = *c
			}
		}
		out.Machines[id] = shown
	}
	return out, nil
}

func (f *fakeSite) addMachines(_ context.Context, r apitest.Request) (any, error) {
	var p params.AddMachines
	if err := r.Read(&p); err != nil {
		return nil, err
	}
	var out params.AddMachinesResults
	for _, m := range p.Machines {
		id, err := f.addMachine(m)
		out.Machines = append(out.Machines, params.AddMachinesResult{Machine: id, Error: params.ErrorOf(err)})
	}
	return out, nil
}

func (f *fakeSite) addMachine(p params.AddMachineParams) (string, error) {
	var id string
	var err error
	f.change(func() {
		id = strconv.Itoa(f.next)
		if p.Placement != nil && p.Placement.Scope == "lxd" && p.Placement.Directive != "" {
			host := p.Placement.Directive
			if f.machines[host] == nil {
				id, err = "", errors.Annotate(errors.NotFoundf("machine %s", host), "cannot add a new machine")
				return
			}
			id = host + "/lxd/0"
		} else {
			f.next++
		}
		now := time.Now()
		f.machines[id] = &params.MachineStatus{ID: id, InstanceID: "pending", Jobs: p.Jobs, Series: "jammy",
			Base:        &params.Base{Name: "ubuntu", Channel: "22.04/stable"},
			Constraints: p.Constraints.String(), Containers: map[string]params.MachineStatus{},
			AgentStatus:    params.DetailedStatus{Status: "pending", Data: map[string]any{}, Since: &now},
			InstanceStatus: params.DetailedStatus{Status: "pending", Data: map[string]any{}, Since: &now}}
	})
	return id, err
}

func (f *fakeSite) destroyMachines(_ context.Context, r apitest.Request) (any, error) {
	var p params.DestroyMachines
	if err := r.Read(&p); err != nil {
		return nil, err
	}
	var failures string
	f.change(func() {
		for _, id := range p.MachineNames {
			if m := f.machines[id]; m != nil {
				m.AgentStatus.Life = "dying"
			} else {
				failures += fmt.Sprintf("; machine %s does not exist", id)
			}
		}
	})
	if failures != "" {
		return nil, errors.New("no machines were destroyed: " + failures[2:])
	}
	return nil, nil
}

func (f *fakeSite) retryProvisioning(_ context.Context, r apitest.Request) (any, error) {
	var p params.Entities
	if err := r.Read(&p); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	var out params.ErrorResults
	for _, e := range p.Entities {
		var err error
		id := e.Tag[len("machine-"):]
		if m := f.machines[id]; m == nil {
			err = errors.NotFoundf("machine %s", id)
		} else if m.AgentStatus.Status != "error" {
			err = errors.Errorf("machine %s is not in an error state", id)
		}
		out.Results = append(out.Results, params.ErrorResult{Error: params.ErrorOf(err)})
	}
	return out, nil
}

// watchAll makes a watcher. Each Next tells all there is, and what is gone.
func (f *fakeSite) watchAll(context.Context, apitest.Request) (any, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	id := strconv.Itoa(len(f.told))
	f.told[id] = nil
	return params.AllWatcherID{WatcherID: id}, nil
}

func (f *fakeSite) nextDeltas(ctx context.Context, r apitest.Request) (any, error) {
	f.mu.Lock()
	told := f.told[r.ID]
	f.mu.Unlock()
	if told != nil {
		select {
		case <-ctx.Done():
			return nil, kind.Stopped
		case <-told:
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.told[r.ID] = f.changed
	return params.AllWatcherNextResults{Deltas: f.deltas()}, nil
}

func (f *fakeSite) deltas() []params.Delta {
	out := []params.Delta{{Entity: &params.ModelUpdate{ModelUUID: apitest.ModelUUID, Name: "default", Life: "alive"}}}
	for id, m := range f.machines {
		update := &params.MachineUpdate{ModelUUID: apitest.ModelUUID, ID: id, Life: "alive",
			AgentStatus: params.StatusUpdate{Current: m.AgentStatus.Status, Message: m.AgentStatus.Info}}
		if m.AgentStatus.Life != "" {
			update.Life = m.AgentStatus.Life
		}
		if m.AgentStatus.Status == "error" {
			update.AgentStatus.Data = map[string]any{"tries": 3, "next-try": "2026-01-02T03:05:05Z"}
		}
		out = append(out, params.Delta{Entity: update})
	}
	for _, id := range f.gone {
		out = append(out, params.Delta{Removed: true, Entity: &params.MachineUpdate{ModelUUID: apitest.ModelUUID, ID: id}})
	}
	return out
}

func (f *fakeSite) modelSet(_ context.Context, r apitest.Request) (any, error) {
	var p params.ModelSet
	if err := r.Read(&p); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for key, value := range p.Config {
		if _, ok := f.config[key]; !ok {
			return nil, errors.Errorf("unknown setting %q", key)
		}
		if key == "type" {
			return nil, errors.Errorf("cannot change type from %q to %q", f.config[key].Value, value)
		}
		f.config[key] = params.ConfigValue{Value: value, Source: "model"}
	}
	return nil, nil
}

func (f *fakeSite) modelUnset(_ context.Context, r apitest.Request) (any, error) {
	var p params.ModelUnset
	if err := r.Read(&p); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, key := range p.Keys {
		f.config[key] = params.ConfigValue{Value: "", Source: "default"}
	}
	return nil, nil
}

func (f *fakeSite) listModels(context.Context, apitest.Request) (any, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := params.UserModelList{UserModels: []params.UserModel{}}
	for name, uuid := range f.models {
		out.UserModels = append(out.UserModels, params.UserModel{Model: params.Model{Name: name, UUID: uuid, OwnerTag: "user-admin"}})
	}
	return out, nil
}

func (f *fakeSite) createModel(_ context.Context, r apitest.Request) (any, error) {
	var p params.ModelCreateArgs
	if err := r.Read(&p); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, ok := f.models[p.Name]; ok {
		return nil, errors.AlreadyExistsf("model %q", p.Name)
	}
	uuid := fmt.Sprintf("22222222-0bad-400d-8000-%012d", len(f.models))
	f.models[p.Name] = uuid
	return params.ModelInfo{Name: p.Name, UUID: uuid, OwnerTag: p.OwnerTag}, nil
}

func (f *fakeSite) destroyModels(_ context.Context, r apitest.Request) (any, error) {
	var p params.Entities
	if err := r.Read(&p); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	maps.DeleteFunc(f.models, func(_, uuid string) bool { return "model-"+uuid == p.Entities[0].Tag })
	return params.ErrorResults{Results: make([]params.ErrorResult, len(p.Entities))}, nil
}

func (f *fakeSite) addUser(_ context.Context, r apitest.Request) (any, error) {
	var p params.AddUsers
	if err := r.Read(&p); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	u := p.Users[0]
	if _, ok := f.users[u.UserName]; ok {
		return params.AddUserResults{Results: []params.AddUserResult{{Error: params.ErrorOf(errors.AlreadyExistsf("user %q", u.UserName))}}}, nil
	}
	f.users[u.UserName] = u.Password
	return params.AddUserResults{Results: []params.AddUserResult{{Tag: "user-" + u.UserName}}}, nil
}

func (f *fakeSite) setPassword(_ context.Context, r apitest.Request) (any, error) {
	var p params.EntityPasswords
	if err := r.Read(&p); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	name := p.Changes[0].Tag[len("user-"):]
	if _, ok := f.users[name]; !ok {
		return params.ErrorResults{Results: []params.ErrorResult{{Error: params.ErrorOf(errors.UserNotFoundf("user %q", name))}}}, nil
	}
	f.users[name] = p.Changes[0].Password
	if name == "admin" {
		f.server.SetPassword(f.users[name])
	}
	return params.ErrorResults{Results: []params.ErrorResult{{}}}, nil
}

func (f *fakeSite) addWorkers(_ context.Context, r apitest.Request) (any, error) {
	var p params.AddWorkers
	if err := r.Read(&p); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.workers[p.Workers[0].Name] = true
	return params.AddWorkerResults{Results: []params.AddWorkerResult{{Result: &params.WorkerIdentity{
		Tag: "machine-1", Password: "password-of-the-new-worker", Nonce: "n", ModelUUID: apitest.ControllerUUID}}}}, nil
}

func (f *fakeSite) removeWorkers(_ context.Context, r apitest.Request) (any, error) {
	var p params.RemoveWorkers
	if err := r.Read(&p); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	var err error
	if !f.workers[p.Names[0]] {
		err = errors.NotFoundf("worker %q", p.Names[0])
	}
	delete(f.workers, p.Names[0])
	return params.ErrorResults{Results: []params.ErrorResult{{Error: params.ErrorOf(err)}}}, nil
}
