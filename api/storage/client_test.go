package storage_test

import (
	"testing"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/api/apitest"
	"github.com/slipway-project/slipway/api/storage"
	"github.com/slipway-project/slipway/internal/golden"
	"github.com/slipway-project/slipway/params"
)

func TestWhatGoesOverTheWire(t *testing.T) {
	tr := &apitest.Transcript{Replies: map[string]string{
		"Storage.CreatePool": `{}`,
		"Storage.ListPools":  `{"results":[{"storage-pools":[{"name":"fast","provider":"static","attrs":{"foo":"bar"}}]}]}`,
		"Storage.RemovePool": `{"results":[{"error":{"message":"storage pool \"fast\" not found","code":"not found"}}]}`,
	}}
	c, ctx := storage.New(tr), t.Context()
	tr.Note("%v", c.CreatePool(ctx, params.StoragePool{Name: "fast", Provider: "static", Attrs: map[string]any{"foo": "bar"}}))
	pools, err := c.Pools(ctx, params.StoragePoolFilter{Names: []string{"fast"}})
	tr.Note("%v, %v", pools, err)
	err = c.RemovePool(ctx, "fast")
	if !errors.Is(err, errors.NotFound) {
		t.Errorf("RemovePool = %v, want NotFound", err)
	}
	tr.Note("%v", err)
	golden.Check(t, "transcript.golden", tr.String())
}

func TestAnAnswerThatIsNoneIsAnError(t *testing.T) {
	for _, reply := range []string{`{}`, `{"results":[{"error":{"message":"no","code":""}}]}`, `!unauthorized access: permission denied`} {
		c := storage.New(&apitest.Transcript{Replies: map[string]string{"Storage.ListPools": reply}})
		if pools, err := c.Pools(t.Context(), params.StoragePoolFilter{}); err == nil {
			t.Errorf("Pools answered with %s = %v, want an error", reply, pools)
		}
	}
}
