package state_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/core/status"
	"github.com/slipway-project/slipway/state"
	"github.com/slipway-project/slipway/state/statetest"
)

func TestMachineStatusRules(t *testing.T) {
	st := openModel(t)
	for _, c := range []struct {
		name        string
		provisioned bool
		info        status.Info
		want        string
	}{
		{name: "started", info: status.Info{Status: status.Started, Message: "m"}},
		{name: "stopped", info: status.Info{Status: status.Stopped}},
		{name: "error", info: status.Info{Status: status.Error, Message: "broken"}},
		{name: "error without info", info: status.Info{Status: status.Error}, want: `cannot set status "error" without info`},
		{name: "pending", info: status.Info{Status: status.Pending}},
		{name: "pending when provisioned", provisioned: true, info: status.Info{Status: status.Pending}, want: `cannot set status "pending"`},
		{name: "down", info: status.Info{Status: status.Down, Message: "x"}, want: `cannot set status "down"`},
		{name: "allocating", info: status.Info{Status: status.Allocating}, want: `cannot set invalid status "allocating"`},
		{name: "empty", want: `cannot set invalid status ""`},
		{name: "rubbish", info: status.Info{Status: "vliegkat"}, want: `cannot set invalid status "vliegkat"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := statetest.AddMachine(t, st, state.MachineSpec{})
			if c.provisioned {
				must(t, m.SetInstanceInfo(ctx, state.InstanceInfo{ID: "i", Nonce: "n"}))
			}
			err := m.SetStatus(ctx, c.info)
			must(t, m.Refresh(ctx))
			if c.want != "" {
				wantError(t, err, c.want, errors.NotValid)
				if got := m.Status().Status; got != status.Pending {
					t.Errorf("status %s after a refusal, want pending", got)
				}
				return
			}
			must(t, err)
			if got := m.Status(); got.Status != c.info.Status || got.Message != c.info.Message {
				t.Errorf("status %+v, want %+v", got, c.info)
			}
			if got := m.InstanceStatus().Status; got != status.Pending {
				t.Errorf("instance status %s, want pending", got)
			}
		})
	}
}

func TestStatusDataIsReplacedAndSurvives(t *testing.T) {
	st := openModel(t)
	m := statetest.AddMachine(t, st, state.MachineSpec{})
	data := map[string]any{"a.b": "x", "$c": 1.5, "nested": map[string]any{"list": []any{true, nil}}}
	since := time.Date(2024, 2, 3, 4, 5, 6, 789, time.UTC)
	must(t, m.SetStatus(ctx, status.Info{Status: status.Started, Data: data, Since: since}))
	must(t, m.Refresh(ctx))
	if got := m.Status(); !reflect.DeepEqual(got.Data, data) || !got.Since.Equal(since) {
		t.Errorf("status %+v", got)
	}
	must(t, m.SetStatus(ctx, status.Info{Status: status.Stopped}))
	must(t, m.Refresh(ctx))
	if got := m.Status(); len(got.Data) != 0 || time.Since(got.Since) > time.Minute {
		t.Errorf("status %+v, want no data and since now", got)
	}
}

func TestInstanceStatusTakesAnything(t *testing.T) {
	st := openModel(t)
	m := statetest.AddMachine(t, st, state.MachineSpec{})
	must(t, m.SetInstanceStatus(ctx, status.Info{Status: "any words", Message: "m"}))
	must(t, m.EnsureDead(ctx))
	must(t, m.SetInstanceStatus(ctx, status.Info{}))
	must(t, m.SetStatus(ctx, status.Info{Status: status.Stopped}))
	must(t, m.Remove(ctx))
	wantError(t, m.SetInstanceStatus(ctx, status.Info{Status: "x"}), "cannot set status: instance not found", errors.NotFound)
	wantError(t, m.SetStatus(ctx, status.Info{Status: status.Started}), "cannot set status: machine not found", errors.NotFound)
}

func TestMergeStatusData(t *testing.T) {
	st := openModel(t)
	m := statetest.AddMachine(t, st, state.MachineSpec{})
	retry := map[string]any{"transient": true}
	wantError(t, m.MergeStatusData(ctx, retry), "machine 0 is not in an error state", errors.NotValid)
	must(t, m.MergeStatusData(ctx, nil)) // pending, unprovisioned: may be set again
	must(t, m.SetStatus(ctx, status.Info{Status: status.Error, Message: "no", Data: map[string]any{"a": "b"}}))
	must(t, m.MergeStatusData(ctx, retry))
	must(t, m.Refresh(ctx))
	got := m.Status()
	if got.Status != status.Error || got.Message != "no" || !reflect.DeepEqual(got.Data, map[string]any{"a": "b", "transient": true}) {
		t.Errorf("status %+v", got)
	}
	provisioned := statetest.AddMachine(t, st, state.MachineSpec{InstanceID: "i", Nonce: "n"})
	wantError(t, provisioned.MergeStatusData(ctx, nil), `cannot set status "pending"`, errors.NotValid)
}

func TestWithTransientErrors(t *testing.T) {
	st := openModel(t)
	broken := func(spec state.MachineSpec, data map[string]any) *state.Machine {
		m := statetest.AddMachine(t, st, spec)
		must(t, m.SetStatus(ctx, status.Info{Status: status.Error, Message: "no", Data: data}))
		return m
	}
	retry := map[string]any{"transient": true}
	for range 3 {
		broken(state.MachineSpec{}, retry) // 0, 1, 2
	}
	broken(state.MachineSpec{}, nil)
	broken(state.MachineSpec{}, map[string]any{"transient": "true"})
	broken(state.MachineSpec{InstanceID: "i", Nonce: "n"}, retry)
	must(t, get(t, st, "1").SetStatus(ctx, status.Info{Status: status.Pending}))
	found, err := st.Machines().WithTransientErrors(ctx)
	must(t, err)
	if len(found) != 2 || found[0].Id() != "0" || found[1].Id() != "2" {
		t.Errorf("found %v, want 0 and 2", found)
	}
}

func TestStatusHistoryIsBounded(t *testing.T) {
	st := openModel(t)
	m := statetest.AddMachine(t, st, state.MachineSpec{})
	h, err := m.StatusHistory(ctx, 0)
	must(t, err)
	if len(h) != 1 || h[0].Status != status.Pending {
		t.Errorf("history of a new machine: %+v", h)
	}
	start := time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)
	for i := range 120 {
		must(t, m.SetStatus(ctx, status.Info{Status: status.Started, Since: start.Add(time.Duration(i) * time.Second)}))
	}
	must(t, m.SetInstanceStatus(ctx, status.Info{Status: status.Running}))
	must(t, m.Refresh(ctx))
	h, err = m.StatusHistory(ctx, 0)
	must(t, err)
	if len(h) != 50 || !h[0].Since.Equal(start.Add(119*time.Second)) || !h[49].Since.Equal(start.Add(70*time.Second)) {
		t.Errorf("history has %d entries, from %v to %v", len(h), h[0].Since, h[len(h)-1].Since)
	}
	if h, err = m.StatusHistory(ctx, 3); err != nil || len(h) != 3 {
		t.Errorf("limited history: %d entries, %v", len(h), err)
	}
	h, err = m.InstanceStatusHistory(ctx, 0)
	must(t, err)
	if len(h) != 2 || h[0].Status != status.Running || h[1].Status != status.Pending {
		t.Errorf("instance history: %+v", h)
	}
}
