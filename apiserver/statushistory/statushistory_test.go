package statushistory_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/apiserver/facadetest"
	"github.com/slipway-project/slipway/apiserver/statushistory"
	"github.com/slipway-project/slipway/core/status"
	"github.com/slipway-project/slipway/params"
	"github.com/slipway-project/slipway/state"
	"github.com/slipway-project/slipway/state/statetest"
)

var ctx = context.Background()

func TestStatusHistory(t *testing.T) {
	site, _ := statetest.OpenMemory(t)
	m := statetest.AddMachine(t, site.Default, state.MachineSpec{})
	old := time.Now().Add(-time.Hour)
	for i, s := range []status.Info{
		{Status: status.Error, Message: "no room", Data: map[string]any{"secret": "planted-secret"}, Since: old},
		{Status: status.Started, Message: "ready", Since: time.Now()},
	} {
		if err := m.SetStatus(ctx, s); err != nil {
			t.Fatal(i, err)
		}
	}
	if err := m.SetInstanceStatus(ctx, status.Info{Status: status.Running, Message: "up"}); err != nil {
		t.Fatal(err)
	}
	h, err := statushistory.New(site.Default, facadetest.Connect(t, facadetest.Reader))
	if err != nil {
		t.Fatal(err)
	}
	minute, since := int64(time.Minute), old.Add(time.Minute)
	request := func(kind string, f params.StatusHistoryFilter) params.StatusHistoryRequest {
		return params.StatusHistoryRequest{Kind: kind, Tag: "machine-0", Filter: f}
	}
	tests := []struct {
		name string
		r    params.StatusHistoryRequest
		want string
	}{
		{"agent", request("juju-machine", params.StatusHistoryFilter{}), "started: ready, error: no room, pending: "},
		{"instance", request("machine", params.StatusHistoryFilter{}), "running: up, pending: "},
		{"of a container", request("juju-container", params.StatusHistoryFilter{Size: 1}), "started: ready"},
		{"older size", params.StatusHistoryRequest{Kind: "juju-machine", Tag: "machine-0", Size: 2}, "started: ready, error: no room"},
		{"excluded", request("juju-machine", params.StatusHistoryFilter{Exclude: []string{"ready"}, Size: 1}), "error: no room"},
		{"lately", request("juju-machine", params.StatusHistoryFilter{Delta: &minute, Size: 1}), "started: ready"},
		{"since", request("juju-machine", params.StatusHistoryFilter{Date: &since, Size: 1}), "started: ready"},
		{"unknown kind", request("workload", params.StatusHistoryFilter{}), `status history kind "workload" not valid`},
		{"negative", request("machine", params.StatusHistoryFilter{Size: -1}), "negative size not valid"},
		{"missing", params.StatusHistoryRequest{Kind: "machine", Tag: "machine-9"}, "machine 9 not found [not found]"},
		{"no tag", params.StatusHistoryRequest{Kind: "machine", Tag: "rubbish"}, `"rubbish" is not a valid tag`},
	}
	var args params.StatusHistoryRequests
	for _, test := range tests {
		args.Requests = append(args.Requests, test.r)
	}
	got, err := h.StatusHistory(ctx, args)
	if err != nil {
		t.Fatal(err)
	}
	for i, test := range tests {
		var out []string
		for _, s := range got.Results[i].History.Statuses {
			out = append(out, s.Status+": "+s.Info)
			if s.Kind != test.r.Kind || fmt.Sprint(s.Data) != "map[]" {
				t.Errorf("%s: status is %+v, want its kind and no data", test.name, s)
			}
		}
		if text := strings.Join(out, ", ") + facadetest.Text(got.Results[i].Error); text != test.want {
			t.Errorf("%s: %q, want %q", test.name, text, test.want)
		}
	}
}

func TestHistoryIsForReaders(t *testing.T) {
	site, _ := statetest.OpenMemory(t)
	for _, who := range []facadetest.Caller{facadetest.Agent("machine-0"), facadetest.Manager, {Tag: "user-other"}} {
		if _, err := statushistory.New(site.Default, facadetest.Connect(t, who)); !errors.Is(err, errors.Unauthorized) {
			t.Errorf("New for %s = %v, want it denied", who.Tag, err)
		}
	}
}
