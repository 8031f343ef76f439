package upgrader_test

import (
	"testing"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/api/apitest"
	"github.com/slipway-project/slipway/api/upgrader"
	"github.com/slipway-project/slipway/internal/golden"
)

func TestWhatGoesOverTheWire(t *testing.T) {
	tr := &apitest.Transcript{Replies: map[string]string{
		"Upgrader.WatchAPIVersion": `{"results":[{"NotifyWatcherId":"3"}]}`,
		"Upgrader.DesiredVersion":  `{"results":[{"version":"2.0.0"}]}`,
		"Upgrader.Tools":           `{"results":[{"tools":[{"version":"2.0.0-jammy-amd64","url":"https://a/tools","size":7}],"disable-ssl-hostname-verification":true}]}`,
		"Upgrader.SetTools":        `{"results":[{}]}`,
	}}
	c, ctx := upgrader.New(tr), t.Context()
	w, err := c.WatchAPIVersion(ctx, "1")
	if err != nil {
		t.Fatal(err)
	}
	<-w.Changes()
	w.Kill()
	if err := w.Wait(); err != nil {
		t.Errorf("Wait = %v, want nil", err)
	}
	version, err := c.DesiredVersion(ctx, "1")
	tr.Note("%v, %v", version, err)
	tools, err := c.Tools(ctx, "1")
	tr.Note("%v, %v", tools, err)
	tr.Note("%v", c.SetTools(ctx, "1", "2.0.0-jammy-amd64"))
	golden.Check(t, "transcript.golden", tr.String())
}

func TestAnotherMachineIsDenied(t *testing.T) {
	const denied = `{"results":[{"error":{"message":"permission denied","code":"unauthorized access"}}]}`
	c := upgrader.New(&apitest.Transcript{Replies: map[string]string{
		"Upgrader.WatchAPIVersion": denied, "Upgrader.DesiredVersion": denied, "Upgrader.Tools": denied, "Upgrader.SetTools": denied,
	}})
	_, watch := c.WatchAPIVersion(t.Context(), "2")
	_, version := c.DesiredVersion(t.Context(), "2")
	_, tools := c.Tools(t.Context(), "2")
	for name, err := range map[string]error{"WatchAPIVersion": watch, "DesiredVersion": version, "Tools": tools, "SetTools": c.SetTools(t.Context(), "2", "2.0.0-jammy-amd64")} {
		if !errors.Is(err, errors.Unauthorized) {
			t.Errorf("%s = %v, want it denied", name, err)
		}
	}
}
