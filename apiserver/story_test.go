package apiserver_test

import (
	"context"
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/slipway-project/slipway/apiserver/provisioner"
	"github.com/slipway-project/slipway/core/status"
	"github.com/slipway-project/slipway/params"
	"github.com/slipway-project/slipway/rpc"
	"github.com/slipway-project/slipway/state"
)

// must makes a call that has to succeed.
func must(t *testing.T, c *rpc.Client, facade string, version int, method string, args, result any) {
	t.Helper()
	if err := call(c, facade, version, method, args, result); err != nil {
		t.Fatalf("%s.%s: %v", facade, method, failure(err))
	}
}

// next waits for a watcher's event.
func next(t *testing.T, c *rpc.Client, facade, id string, result any) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := c.Call(ctx, rpc.Request{Type: facade, Version: 1, ID: id, Method: "Next"}, nil, result); err != nil {
		t.Fatalf("%s.Next: %v", facade, failure(err))
	}
}

// gone waits for the end of a connection.
func gone(t *testing.T, what string, c *rpc.Client) {
	t.Helper()
	select {
	case <-c.Dead():
	case <-time.After(patience):
		t.Errorf("%s: the connection goes on", what)
	}
}

// TestMachineFromOrderToEnd walks one machine through its life as an operator, a
// provisioner and an agent see it, each on a connection of its own.
func TestMachineFromOrderToEnd(t *testing.T) {
	s := newEmbeddedSite(t)
	path := modelPath(s.Default.ModelUUID())
	operator, worker := s.as(path, admin), s.as(path, manager)
	if _, err := s.leaseOf(worker, manager, "").Claim(t.Context()); err != nil {
		t.Fatal(err)
	}

	var models, machines params.StringsWatchResult
	must(t, worker, "ModelWorkers", 1, "WatchModels", nil, &models)
	if len(models.Changes) != 2 {
		t.Errorf("models = %q, want both", models.Changes)
	}
	must(t, worker, "Provisioner", 3, "WatchModelMachines", nil, &machines)
	if len(machines.Changes) != 0 {
		t.Errorf("machines = %q, want none", machines.Changes)
	}
	var added params.AddMachinesResults
	must(t, operator, "Client", 1, "AddMachinesV2", params.AddMachines{Machines: []params.AddMachineParams{{Jobs: []string{"JobHostUnits"}}}}, &added)
	if added.Machines[0].Machine != "0" {
		t.Fatalf("AddMachinesV2 = %+v, want machine 0", added)
	}
	var event params.StringsWatchResult
	next(t, worker, "StringsWatcher", machines.StringsWatcherID, &event)
	if len(event.Changes) != 1 || event.Changes[0] != "0" {
		t.Errorf("event = %q, want machine 0", event.Changes)
	}

	// The start fails, and the operator asks for another try.
	var retry params.NotifyWatchResult
	must(t, worker, "Provisioner", 3, "WatchMachineErrorRetry", nil, &retry)
	must(t, worker, "Provisioner", 3, "SetStatus", params.SetStatus{Entities: []params.EntityStatusArgs{{Tag: "machine-0", Status: "error", Info: "no room"}}}, nil)
	must(t, operator, "Client", 1, "RetryProvisioning", entities("machine-0"), nil)
	asked := time.Now()
	next(t, worker, "NotifyWatcher", retry.NotifyWatcherID, nil)
	if d := time.Since(asked); d > provisioner.ErrorRetryWaitDelay/2 {
		t.Errorf("the provisioner heard of the retry after %v, which is not at once", d)
	}
	var failed params.StatusResults
	must(t, worker, "Provisioner", 3, "MachinesWithTransientErrors", nil, &failed)
	if len(failed.Results) != 1 || failed.Results[0].ID != "0" {
		t.Errorf("MachinesWithTransientErrors = %+v, want machine 0", failed)
	}
	must(t, worker, "Provisioner", 3, "SetPasswords", params.EntityPasswords{Changes: []params.EntityPassword{{Tag: "machine-0", Password: agentPassword}}}, nil)
	must(t, worker, "Provisioner", 3, "SetStatus", params.SetStatus{Entities: []params.EntityStatusArgs{{Tag: "machine-0", Status: "pending"}}}, nil)
	agent := credentials{"machine-0", agentPassword, agentNonce}
	if _, err := login(s.dial(path), agent); failure(err) != "machine 0 not provisioned [not provisioned]" {
		t.Errorf("login before the instance is recorded = %v", failure(err))
	}
	must(t, worker, "Provisioner", 3, "SetInstanceInfo", params.InstancesInfo{Machines: []params.InstanceInfo{{Tag: "machine-0", InstanceID: "i-0", Nonce: agentNonce}}}, nil)

	// The agent comes, reports, and goes.
	machine := s.as(path, agent)
	must(t, machine, "Machiner", 1, "SetStatus", params.SetStatus{Entities: []params.EntityStatusArgs{{Tag: "machine-0", Status: "started"}}}, nil)
	if got := s.statusOf(operator, "0"); got != "started" {
		t.Errorf("status = %s, want started", got)
	}

	// The end.
	must(t, operator, "Client", 1, "DestroyMachines", params.DestroyMachines{MachineNames: []string{"0"}}, nil)
	next(t, worker, "StringsWatcher", machines.StringsWatcherID, nil)
	must(t, machine, "Machiner", 1, "EnsureDead", entities("machine-0"), nil)
	next(t, worker, "StringsWatcher", machines.StringsWatcherID, nil)
	var removed params.ErrorResults
	must(t, worker, "Provisioner", 3, "Remove", entities("machine-0"), &removed)
	if removed.Results[0].Error != nil {
		t.Errorf("Remove = %+v", removed.Results[0].Error)
	}
	var life params.LifeResults
	must(t, worker, "Provisioner", 3, "Life", entities("machine-0"), &life)
	if e := life.Results[0].Error; e == nil || e.Code != params.CodeNotFound {
		t.Errorf("Life of a removed machine = %+v", life.Results[0])
	}
}

// statusOf returns the status of a machine's agent as people see it.
func (s *site) statusOf(c *rpc.Client, id string) string {
	s.t.Helper()
	var full params.FullStatus
	if err := call(c, "Client", 1, "FullStatus", params.StatusParams{}, &full); err != nil {
		s.t.Fatal(err)
	}
	return full.Machines[id].AgentStatus.Status
}

func TestRemovedWorkerIsThrownOut(t *testing.T) {
	s := newSite(t)
	operator := s.as("/api", admin)
	var added params.AddWorkerResults
	must(t, operator, "ModelWorkers", 1, "AddWorkers", params.AddWorkers{Workers: []params.AddWorker{{Name: "east"}}}, &added)
	w := added.Results[0].Result
	identity := credentials{w.Tag, string(w.Password), w.Nonce}
	home, elsewhere := s.as(modelPath(w.ModelUUID), identity), s.as(modelPath(s.Default.ModelUUID()), identity)
	other := s.as(modelPath(w.ModelUUID), manager)
	must(t, elsewhere, "Provisioner", 3, "WatchModelMachines", nil, nil)
	must(t, operator, "ModelWorkers", 1, "RemoveWorkers", params.RemoveWorkers{Names: []string{"east"}}, nil)
	gone(t, "a removed worker", home)
	gone(t, "a removed worker in another model", elsewhere)
	if _, err := login(s.dial(modelPath(w.ModelUUID)), identity); failure(err) != badCreds {
		t.Errorf("login of a removed worker = %v", failure(err))
	}
	must(t, other, "Pinger", 1, "Ping", nil, nil)
}

func TestDisabledUserIsThrownOut(t *testing.T) {
	s := newSite(t)
	bob := s.person("bob", "login", "read")
	operator, theirs := s.as("/api", admin), s.as(modelPath(s.Default.ModelUUID()), bob)
	must(t, operator, "UserManager", 1, "DisableUser", entities("user-bob"), nil)
	gone(t, "a disabled user", theirs)
	if _, err := login(s.dial("/api"), bob); failure(err) != badCreds {
		t.Errorf("login of a disabled user = %v", failure(err))
	}
	must(t, operator, "Pinger", 1, "Ping", nil, nil)
}

func TestOperatorFollowsTheModel(t *testing.T) {
	s := newSite(t)
	m, _ := s.agent(s.Default, state.MachineSpec{})
	operator := s.as(modelPath(s.Default.ModelUUID()), admin)
	var id params.AllWatcherID
	must(t, operator, "Client", 1, "WatchAll", nil, &id)
	var first, second params.AllWatcherNextResults
	next(t, operator, "AllWatcher", id.WatcherID, &first)
	if len(first.Deltas) != 2 {
		t.Errorf("first event has %d deltas, want the model and the machine", len(first.Deltas))
	}
	if err := m.SetStatus(context.Background(), status.Info{Status: status.Started}); err != nil {
		t.Fatal(err)
	}
	next(t, operator, "AllWatcher", id.WatcherID, &second)
	if len(second.Deltas) != 1 {
		t.Fatalf("second event = %+v, want the machine", second.Deltas)
	}
	if u, ok := second.Deltas[0].Entity.(*params.MachineUpdate); !ok || u.ID != "0" || u.AgentStatus.Current != "started" {
		t.Errorf("second event = %+v", second.Deltas[0].Entity)
	}
}

// FuzzMethods sends any JSON as the parameters of any method, as the caller who
// may do most. Whatever comes, it must be answered, and the server go on.
func FuzzMethods(f *testing.F) {
	s := newSite(f)
	var all []method
	conns := map[string]*rpc.Client{
		"controller": s.as("/api", admin),
		"agents":     s.as(modelPath(s.ControllerModelUUID()), manager),
		"people":     s.as(modelPath(s.Default.ModelUUID()), admin),
	}
	for _, m := range methods(f) {
		if !slices.Contains([]string{"Next", "Wait", "Stop"}, m.Method) { // which wait, or stop what others wait for
			all = append(all, m)
		}
	}
	for i := range all {
		f.Add(uint16(i), []byte(`{"entities":[{"tag":"machine-0","status":"error","info":"x","data":{"a":[1]}}],"changes":[{"tag":"user-admin"}],"machines":[{"tag":"machine-0"}]}`))
	}
	f.Add(uint16(0), []byte(`{"entities":null}`))
	f.Add(uint16(3), []byte(`{"params":[{"constraints":{"mem":-1}}]}`))
	f.Add(uint16(5), []byte(`{"params":[{"placement":{},"series":"x","base":{}}],"machine-names":["",null]}`))
	f.Fuzz(func(t *testing.T, which uint16, raw []byte) {
		if !json.Valid(raw) {
			return
		}
		m := all[int(which)%len(all)]
		if m.Type == "UserManager" && (m.Method == "SetPassword" || m.Method == "DisableUser") {
			return // of the admin, whose connections these are
		}
		for name, c := range conns {
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			err := c.Call(ctx, m.Request, json.RawMessage(raw), nil)
			cancel()
			if text := failure(err); text == "internal error" || ctx.Err() == context.DeadlineExceeded || text == rpc.ErrShutdown.Error() {
				t.Fatalf("%s.%s(%s) on the connection of %s: %v", m.Type, m.Method, raw, name, text)
			}
		}
	})
}
