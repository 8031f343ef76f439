package machiner_test

import (
	"testing"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/api/apitest"
	"github.com/slipway-project/slipway/api/machiner"
	"github.com/slipway-project/slipway/core/network"
	"github.com/slipway-project/slipway/core/status"
	"github.com/slipway-project/slipway/internal/golden"
	"github.com/slipway-project/slipway/params"
)

func TestWhatGoesOverTheWire(t *testing.T) {
	tr := &apitest.Transcript{Replies: map[string]string{
		"Machiner.Life":                `{"results":[{"life":"alive"}]}`,
		"Machiner.Jobs":                `{"results":[{"jobs":["JobHostUnits"]}]}`,
		"Machiner.Watch":               `{"results":[{"NotifyWatcherId":"3"}]}`,
		"Machiner.SetStatus":           `{"results":[{}]}`,
		"Machiner.SetMachineAddresses": `{"results":[{}]}`,
		"Machiner.EnsureDead":          `{"results":[{"error":{"message":"machine 1 is hosting containers \"1/lxd/0\"","code":""}}]}`,
	}}
	c, ctx := machiner.New(tr, "1"), t.Context()
	life, err := c.Life(ctx)
	tr.Note("%v, %v", life, err)
	jobs, err := c.Jobs(ctx)
	tr.Note("%v, %v", jobs, err)
	w, err := c.Watch(ctx)
	if err != nil {
		t.Fatal(err)
	}
	<-w.Changes()
	w.Kill()
	if err := w.Wait(); err != nil {
		t.Errorf("Wait = %v, want nil", err)
	}
	tr.Note("%v", c.SetStatus(ctx, status.Started, "", nil))
	tr.Note("%v", c.SetAddresses(ctx, []network.Address{{Value: "10.0.0.1", Type: network.IPv4, Scope: network.ScopeCloudLocal}}))
	tr.Note("%v", c.SetObservedNetworkConfig(ctx, []params.NetworkConfig{{InterfaceName: "eth0"}}))
	tr.Note("%v", c.EnsureDead(ctx))
	golden.Check(t, "transcript.golden", tr.String())
}

func TestAWatchThatWasRefused(t *testing.T) {
	tr := &apitest.Transcript{Replies: map[string]string{
		"Machiner.Watch": `{"results":[{"NotifyWatcherId":"","error":{"message":"permission denied","code":"unauthorized access"}}]}`,
	}}
	if _, err := machiner.New(tr, "1").Watch(t.Context()); !errors.Is(err, errors.Unauthorized) {
		t.Errorf("Watch = %v, want Unauthorized", err)
	}
}
