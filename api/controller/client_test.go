package controller_test

import (
	"testing"

	"github.com/slipway-project/slipway/api/apitest"
	"github.com/slipway-project/slipway/api/controller"
	"github.com/slipway-project/slipway/internal/golden"
)

func TestWhatGoesOverTheWire(t *testing.T) {
	tr := &apitest.Transcript{Replies: map[string]string{
		"Controller.ControllerConfig":       `{"config":{"features":["address-allocation"]}}`,
		"Controller.ConfigSet":              `!: unknown setting "x"`,
		"Controller.ModifyControllerAccess": `{"results":[{"error":{"message":"user \"bob\" not found","code":"user not found"}}]}`,
	}}
	c, ctx := controller.New(tr), t.Context()
	tr.Note("%v", c.ModifyAccess(ctx, "user-bob", "grant", "superuser"))
	settings, err := c.Config(ctx)
	tr.Note("%v, %v", settings, err)
	tr.Note("%v", c.SetConfig(ctx, map[string]any{"x": 1}))
	golden.Check(t, "transcript.golden", tr.String())
}
