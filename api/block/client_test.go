package block_test

import (
	"testing"

	"github.com/slipway-project/slipway/api/apitest"
	"github.com/slipway-project/slipway/api/block"
	"github.com/slipway-project/slipway/internal/golden"
)

func TestWhatGoesOverTheWire(t *testing.T) {
	tr := &apitest.Transcript{Replies: map[string]string{
		"Block.List":           `{"results":[{"result":{"id":"0","tag":"model-x","type":"BlockChange","message":"not today"}}]}`,
		"Block.SwitchBlockOn":  `{}`,
		"Block.SwitchBlockOff": `{"error":{"message":"block BlockChange is already OFF","code":""}}`,
	}}
	c, ctx := block.New(tr), t.Context()
	on, err := c.List(ctx)
	tr.Note("%v, %v", on, err)
	tr.Note("%v", c.SwitchOn(ctx, "BlockChange", "not today"))
	tr.Note("%v", c.SwitchOff(ctx, "BlockChange"))
	golden.Check(t, "transcript.golden", tr.String())
}

func TestNoBlocks(t *testing.T) {
	for reply, bad := range map[string]bool{`{}`: false, `{"results":[{"error":{"message":"no","code":""}}]}`: true, `!not found: no model`: true} {
		c := block.New(&apitest.Transcript{Replies: map[string]string{"Block.List": reply}})
		if on, err := c.List(t.Context()); len(on) != 0 || bad != (err != nil) {
			t.Errorf("List answered with %s = %v, %v", reply, on, err)
		}
	}
}
