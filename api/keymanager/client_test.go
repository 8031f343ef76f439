package keymanager_test

import (
	"testing"

	"github.com/slipway-project/slipway/api/apitest"
	"github.com/slipway-project/slipway/api/keymanager"
	"github.com/slipway-project/slipway/internal/golden"
)

func TestWhatGoesOverTheWire(t *testing.T) {
	tr := &apitest.Transcript{Replies: map[string]string{
		"KeyManager.ListKeys":   `{"results":[{"result":["aa:bb (one@example)"]}]}`,
		"KeyManager.AddKeys":    `{"results":[{},{"error":{"message":"SSH key \"x\" not valid","code":""}}]}`,
		"KeyManager.DeleteKeys": `{"results":[{}]}`,
	}}
	c, ctx := keymanager.New(tr), t.Context()
	keys, err := c.List(ctx, "admin", false)
	tr.Note("%v, %v", keys, err)
	errs, err := c.Add(ctx, "admin", "ssh-ed25519 AAAA one@example", "x")
	tr.Note("%v, %v", errs, err)
	errs, err = c.Delete(ctx, "admin", "one@example")
	tr.Note("%v, %v", errs, err)
	if _, err := c.Delete(ctx, "admin", "one", "two"); err == nil {
		t.Error("Delete with a result too few succeeds")
	}
	golden.Check(t, "transcript.golden", tr.String())
}
