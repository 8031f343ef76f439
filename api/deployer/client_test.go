package deployer_test

import (
	"testing"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/api/apitest"
	"github.com/slipway-project/slipway/api/deployer"
	"github.com/slipway-project/slipway/internal/golden"
)

func TestWhatGoesOverTheWire(t *testing.T) {
	tr := &apitest.Transcript{Replies: map[string]string{
		"Deployer.WatchUnits":     `{"results":[{"watcher-id":"3"}]}`,
		"Deployer.ConnectionInfo": `{"state-addresses":["10.0.0.1:37017"],"api-addresses":["10.0.0.1:17070"]}`,
	}}
	c, ctx := deployer.New(tr), t.Context()
	w, err := c.WatchUnits(ctx, "1")
	if err != nil {
		t.Fatal(err)
	}
	if units := <-w.Changes(); len(units) != 0 {
		t.Errorf("units = %v, want none", units)
	}
	w.Kill()
	if err := w.Wait(); err != nil {
		t.Errorf("Wait = %v, want nil", err)
	}
	info, err := c.ConnectionInfo(ctx)
	tr.Note("%v, %v", info, err)
	golden.Check(t, "transcript.golden", tr.String())
}

func TestAnotherMachineIsDenied(t *testing.T) {
	c := deployer.New(&apitest.Transcript{Replies: map[string]string{
		"Deployer.WatchUnits": `{"results":[{"watcher-id":"","error":{"message":"permission denied","code":"unauthorized access"}}]}`,
	}})
	if _, err := c.WatchUnits(t.Context(), "2"); !errors.Is(err, errors.Unauthorized) {
		t.Errorf("WatchUnits = %v, want it denied", err)
	}
}
