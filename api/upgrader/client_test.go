package upgrader_test

import (
	"testing"

	"github.com/slipway-project/slipway/api/apitest"
	"github.com/slipway-project/slipway/api/upgrader"
	"github.com/slipway-project/slipway/internal/golden"
)

func TestWhatGoesOverTheWire(t *testing.T) {
	tr := &apitest.Transcript{Replies: map[string]string{
		"Upgrader.DesiredVersion":  `{"results":[{"version":"2.0.1","downgrade":true}]}`,
		"Upgrader.Tools":           `{"results":[{"tools":[{"version":"2.0.1-jammy-amd64","url":"https://h/t","sha256":"ab","size":3}],"disable-ssl-hostname-verification":true}]}`,
		"Upgrader.SetTools":        `{"results":[{"error":{"message":"permission denied","code":"unauthorized access"}}]}`,
		"Upgrader.WatchAPIVersion": `{"results":[{"NotifyWatcherId":"","error":{"message":"permission denied","code":"unauthorized access"}}]}`,
	}}
	c, ctx := upgrader.New(tr, "0/lxd/1"), t.Context()
	desired, err := c.Desired(ctx)
	tr.Note("%+v, %v", desired, err)
	tools, err := c.Tools(ctx)
	tr.Note("%+v, %v", tools, err)
	tr.Note("%v", c.SetTools(ctx, "2.0.0-jammy-amd64"))
	_, err = c.Watch(ctx)
	tr.Note("%v", err)
	golden.Check(t, "transcript.golden", tr.String())
}
