package instancepoller_test

import (
	"testing"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/api/apitest"
	"github.com/slipway-project/slipway/api/instancepoller"
	"github.com/slipway-project/slipway/core/network"
	"github.com/slipway-project/slipway/internal/golden"
)

func TestWhatGoesOverTheWire(t *testing.T) {
	tr := &apitest.Transcript{Replies: map[string]string{
		"InstancePoller.WatchModelMachines":     `{"watcher-id":"3","changes":["0"]}`,
		"InstancePoller.InstanceId":             `{"results":[{"result":"i-0"},{"result":"","error":{"message":"machine 1 not provisioned","code":"not provisioned"}}]}`,
		"InstancePoller.InstanceStatus":         `{"results":[{"id":"","life":"","status":"running","info":"in z1","data":{},"since":null}]}`,
		"InstancePoller.ProviderAddresses":      `{"results":[{"addresses":[{"value":"10.0.0.1","type":"ipv4","scope":"local-cloud"}]}]}`,
		"InstancePoller.AreManuallyProvisioned": `{"results":[{"result":true}]}`,
		"InstancePoller.SetInstanceStatus":      `{"results":[{}]}`,
		"InstancePoller.SetProviderAddresses":   `{"results":[{"error":{"message":"machine 0 not found","code":"not found"}}]}`,
	}}
	c, ctx := instancepoller.New(tr), t.Context()
	w, err := c.WatchModelMachines(ctx)
	if err != nil {
		t.Fatal(err)
	}
	tr.Note("%v", <-w.Changes())
	w.Kill()
	if err := w.Wait(); err != nil {
		t.Errorf("Wait = %v, want nil", err)
	}
	ids, err := c.InstanceIDs(ctx, "0", "1")
	if err != nil || !errors.Is(ids[1].Err, errors.NotProvisioned) {
		t.Errorf("InstanceIDs = %v, %v, want the second not provisioned", ids, err)
	}
	tr.Note("%v", ids)
	statuses, err := c.InstanceStatus(ctx, "0")
	tr.Note("%v %v, %v", statuses[0].Value.Status, statuses[0].Value.Message, err)
	addresses, err := c.ProviderAddresses(ctx, "0")
	tr.Note("%v, %v", addresses, err)
	manual, err := c.AreManuallyProvisioned(ctx, "0")
	tr.Note("%v, %v", manual, err)
	seen := instancepoller.Seen{ID: "0", Status: "stopped", Message: "by hand", Addresses: []network.Address{network.NewAddress("10.0.0.1")}}
	errs, err := c.SetInstanceStatus(ctx, seen)
	tr.Note("%v, %v", errs, err)
	errs, err = c.SetProviderAddresses(ctx, seen)
	tr.Note("%v, %v", errs, err)
	golden.Check(t, "transcript.golden", tr.String())
}
