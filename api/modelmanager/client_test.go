package modelmanager_test

import (
	"testing"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/api/apitest"
	"github.com/slipway-project/slipway/api/modelmanager"
	"github.com/slipway-project/slipway/internal/golden"
)

func TestWhatGoesOverTheWire(t *testing.T) {
	tr := &apitest.Transcript{Replies: map[string]string{
		"ModelManager.ListModels":    `{"user-models":[{"model":{"name":"m","uuid":"u","owner-tag":"user-admin"},"last-connection":null}]}`,
		"ModelManager.CreateModel":   `{"name":"n","uuid":"v"}`,
		"ModelManager.DestroyModels": `{"results":[{},{"error":{"message":"model not found","code":"model not found"}}]}`,
		"ModelManager.ModelInfo":     `{"results":[{"result":{"name":"m","uuid":"u"}},{"error":{"message":"permission denied","code":"unauthorized access"}}]}`,
	}}
	c, ctx := modelmanager.New(tr), t.Context()
	models, err := c.List(ctx, "user-admin")
	tr.Note("%+v, %v", models, err)
	info, err := c.Create(ctx, "n", "user-admin", map[string]any{"k": "v"})
	tr.Note("%v %v, %v", info.Name, info.UUID, err)
	errs, err := c.Destroy(ctx, "u", "w")
	tr.Note("%v, %v", errs, err)
	infos, err := c.Info(ctx, "u", "w")
	tr.Note("%v %v, %v", infos[0].Value.Name, infos[1].Err, err)
	if !errors.Is(errs[1], errors.NotFound) || !errors.Is(infos[1].Err, errors.Unauthorized) {
		t.Errorf("errors = %v and %v, want NotFound and Unauthorized", errs[1], infos[1].Err)
	}
	golden.Check(t, "transcript.golden", tr.String())
}
