package client_test

import (
	"context"
	"testing"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/api"
	"github.com/slipway-project/slipway/api/apitest"
	"github.com/slipway-project/slipway/api/client"
	"github.com/slipway-project/slipway/core/constraints"
	"github.com/slipway-project/slipway/core/kind"
	"github.com/slipway-project/slipway/internal/golden"
	"github.com/slipway-project/slipway/params"
)

func TestWhatGoesOverTheWire(t *testing.T) {
	tr := &apitest.Transcript{Replies: map[string]string{
		"Client.FullStatus":          `{"model":{"name":"m","cloud-tag":"cloud-x","version":"2.0.0","available-version":""},"machines":{"0":{"id":"0"}},"applications":{},"relations":null}`,
		"Client.AddMachinesV2":       `{"machines":[{"machine":"3"},{"machine":"","error":{"message":"cannot add a new machine: no","code":""}}]}`,
		"Client.DestroyMachines":     `!: no machines were destroyed: machine 42 does not exist`,
		"Client.RetryProvisioning":   `{"results":[{},{"error":{"message":"machine 1 is not in an error state","code":""}}]}`,
		"Client.GetModelConstraints": `{"constraints":{"mem":1024}}`,
		"Client.ModelInfo":           `{"name":"m","uuid":"u"}`,
	}}
	c, ctx := client.New(tr), t.Context()
	status, err := c.FullStatus(ctx, "0", "1")
	tr.Note("%v %v, %v", status.Model.Name, status.Machines["0"].ID, err)
	added, err := c.AddMachines(ctx, params.AddMachineParams{Jobs: []string{"JobHostUnits"}}, params.AddMachineParams{ParentID: "0", ContainerType: "lxd"})
	tr.Note("%v, %v", added, err)
	tr.Note("%v", c.DestroyMachines(ctx, true, "42"))
	errs, err := c.RetryProvisioning(ctx, "0", "1")
	tr.Note("%v, %v", errs, err)
	cons, err := c.ModelConstraints(ctx)
	tr.Note("%v, %v", *cons.Mem, err)
	arch := "arm64"
	tr.Note("%v", c.SetModelConstraints(ctx, constraints.Value{Arch: &arch}))
	tr.Note("%v, %v", c.SetModelAgentVersion(ctx, "2.0.1", false), c.SetModelAgentVersion(ctx, "2.0.0", true))
	info, err := c.ModelInfo(ctx)
	tr.Note("%v %v, %v", info.Name, info.UUID, err)
	golden.Check(t, "transcript.golden", tr.String())
}

func TestWatchAllFollowsEveryChange(t *testing.T) {
	s := apitest.NewServer(t, apitest.Options{})
	s.Reply("Client.WatchAll", params.AllWatcherID{WatcherID: "9"})
	stopped := make(chan struct{})
	first := true
	s.Handle("AllWatcher.Next", func(ctx context.Context, r apitest.Request) (any, error) {
		if r.ID != "9" {
			return nil, errors.NotFoundf("watcher %q", r.ID)
		}
		if first {
			first = false
			return params.AllWatcherNextResults{Deltas: []params.Delta{{Entity: &params.MachineUpdate{ID: "0", Life: "alive"}}}}, nil
		}
		<-stopped
		return nil, kind.Stopped
	})
	s.Handle("AllWatcher.Stop", func(context.Context, apitest.Request) (any, error) {
		close(stopped)
		return nil, nil
	})
	conn, err := api.Open(t.Context(), api.Info{Addrs: []string{s.Addr}, CACert: s.CACert, ModelUUID: apitest.ModelUUID,
		Tag: apitest.UserTag, Password: apitest.Password}, api.DialOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	w, err := client.New(conn).WatchAll(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	deltas := <-w.Changes()
	if len(deltas) != 1 || deltas[0].Removed || deltas[0].Entity.(*params.MachineUpdate).ID != "0" {
		t.Errorf("deltas = %+v, want machine 0", deltas)
	}
	w.Kill()
	if err := w.Wait(); err != nil {
		t.Errorf("Wait = %v, want nil", err)
	}
}
