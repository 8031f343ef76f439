package modelconfig_test

import (
	"testing"

	"github.com/slipway-project/slipway/api/apitest"
	"github.com/slipway-project/slipway/api/modelconfig"
	"github.com/slipway-project/slipway/internal/golden"
)

func TestWhatGoesOverTheWire(t *testing.T) {
	tr := &apitest.Transcript{Replies: map[string]string{
		"ModelConfig.ModelGet": `{"config":{"name":{"value":"m","source":"model"}}}`,
		"ModelConfig.ModelSet": `!: cannot change uuid from "a" to "b"`,
	}}
	c, ctx := modelconfig.New(tr), t.Context()
	config, err := c.Get(ctx)
	tr.Note("%v, %v", config, err)
	tr.Note("%v", c.Set(ctx, map[string]any{"uuid": "b"}))
	tr.Note("%v", c.Unset(ctx, "apt-mirror"))
	golden.Check(t, "transcript.golden", tr.String())
}
