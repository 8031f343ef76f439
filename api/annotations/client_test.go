package annotations_test

import (
	"testing"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/api/annotations"
	"github.com/slipway-project/slipway/api/apitest"
	"github.com/slipway-project/slipway/internal/golden"
)

func TestWhatGoesOverTheWire(t *testing.T) {
	tr := &apitest.Transcript{Replies: map[string]string{
		"Annotations.Get": `{"results":[{"entity":"machine-0","annotations":{"rack":"7"}},{"entity":"machine-9","annotations":null,"error":{"error":{"message":"machine 9 not found","code":"not found"}}}]}`,
		"Annotations.Set": `{"results":[{}]}`,
	}}
	c, ctx := annotations.New(tr), t.Context()
	got, err := c.Get(ctx, "machine-0", "machine-9")
	if err != nil || !errors.Is(got[1].Err, errors.NotFound) {
		t.Errorf("Get = %v, %v, want the second not found", got, err)
	}
	tr.Note("%v, %v", got, err)
	tr.Note("%v", c.Set(ctx, "machine-0", map[string]string{"rack": "", "row": "2"}))
	if _, err := c.Get(ctx, "machine-0"); err == nil {
		t.Error("Get with a result too many succeeds")
	}
	golden.Check(t, "transcript.golden", tr.String())
}
