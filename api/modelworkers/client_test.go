package modelworkers_test

import (
	"slices"
	"testing"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/api/apitest"
	"github.com/slipway-project/slipway/api/modelworkers"
	"github.com/slipway-project/slipway/internal/golden"
)

func TestWhatGoesOverTheWire(t *testing.T) {
	tr := &apitest.Transcript{Replies: map[string]string{
		"ModelWorkers.WatchModels":   `{"watcher-id":"1","changes":["u1","u2"]}`,
		"ModelWorkers.AddWorkers":    `{"results":[{"result":{"tag":"machine-1","password":"told once","nonce":"n","model-uuid":"u"}}]}`,
		"ModelWorkers.RemoveWorkers": `{"results":[{"error":{"message":"worker \"w\" not found","code":"not found"}}]}`,
	}}
	c, ctx := modelworkers.New(tr), t.Context()
	w, err := c.WatchModels(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if got := <-w.Changes(); !slices.Equal(got, []string{"u1", "u2"}) {
		t.Errorf("first event = %v, want both models", got)
	}
	w.Kill()
	if err := w.Wait(); err != nil {
		t.Errorf("Wait = %v, want nil", err)
	}
	identity, err := c.Add(ctx, "w")
	tr.Note("%v, %v", identity, err)
	err = c.Remove(ctx, "w")
	tr.Note("%v", err)
	if !errors.Is(err, errors.NotFound) {
		t.Errorf("Remove = %v, want NotFound", err)
	}
	golden.Check(t, "transcript.golden", tr.String())
}

func TestAnAnswerWithoutAnIdentityIsAnError(t *testing.T) {
	for _, reply := range []string{`{"results":[{}]}`, `{"results":[]}`, `!unauthorized access: permission denied`,
		`{"results":[{"error":{"message":"worker \"w\" already exists","code":"already exists"}}]}`} {
		tr := &apitest.Transcript{Replies: map[string]string{"ModelWorkers.AddWorkers": reply}}
		if _, err := modelworkers.New(tr).Add(t.Context(), "w"); err == nil {
			t.Errorf("no error for %s", reply)
		}
	}
}
