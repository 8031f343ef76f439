package statushistory_test

import (
	"testing"

	"github.com/slipway-project/slipway/api/apitest"
	"github.com/slipway-project/slipway/api/statushistory"
	"github.com/slipway-project/slipway/internal/golden"
)

func TestWhatGoesOverTheWire(t *testing.T) {
	tr := &apitest.Transcript{Replies: map[string]string{
		"StatusHistory.StatusHistory": `{"results":[{"history":{"statuses":[{"status":"started","info":"ready","kind":"juju-machine"}]}},{"history":{"statuses":[]}}]}`,
	}}
	c, ctx := statushistory.New(tr), t.Context()
	found, err := c.Of(ctx, "0/lxd/1", 5, "juju-machine", "machine")
	tr.Note("%v, %v", found, err)
	tr.Replies["StatusHistory.StatusHistory"] = `{"results":[{"error":{"message":"machine 9 not found","code":"not found"},"history":{"statuses":[]}}]}`
	found, err = c.Of(ctx, "9", 0, "machine")
	tr.Note("%v, %v", found, err)
	found, err = c.Of(ctx, "9", 0, "machine", "juju-machine")
	tr.Note("%v, %v", found, err)
	golden.Check(t, "transcript.golden", tr.String())
}
