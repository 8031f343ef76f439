package controller_test

import (
	"testing"

	"github.com/slipway-project/slipway/api/apitest"
	"github.com/slipway-project/slipway/api/controller"
	"github.com/slipway-project/slipway/internal/golden"
)

func TestWhatGoesOverTheWire(t *testing.T) {
	tr := &apitest.Transcript{Replies: map[string]string{
		"Controller.ListBlockedModels":      `{"models":[{"name":"m","model-uuid":"u","owner-tag":"user-a","blocks":["BlockChange"]}]}`,
		"Controller.RemoveBlocks":           `{}`,
		"Controller.WatchAllModels":         `{"watcher-id":"4"}`,
		"Controller.ControllerConfig":       `{"config":{"features":["address-allocation"]}}`,
		"Controller.ConfigSet":              `!: unknown setting "x"`,
		"Controller.ModifyControllerAccess": `{"results":[{"error":{"message":"user \"bob\" not found","code":"user not found"}}]}`,
	}}
	c, ctx := controller.New(tr), t.Context()
	tr.Note("%v", c.ModifyAccess(ctx, "user-bob", "grant", "superuser"))
	settings, err := c.Config(ctx)
	tr.Note("%v, %v", settings, err)
	tr.Note("%v", c.SetConfig(ctx, map[string]any{"x": 1}))
	blocked, err := c.BlockedModels(ctx)
	tr.Note("%v, %v", blocked, err)
	tr.Note("%v", c.RemoveBlocks(ctx))
	w, err := c.WatchAllModels(ctx)
	if err != nil {
		t.Fatal(err)
	}
	w.Kill()
	if err := w.Wait(); err != nil {
		t.Errorf("Wait = %v, want nil", err)
	}
	golden.Check(t, "transcript.golden", tr.String())
}
