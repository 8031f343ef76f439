package imagemetadata_test

import (
	"testing"

	"github.com/slipway-project/slipway/api/apitest"
	"github.com/slipway-project/slipway/api/imagemetadata"
	"github.com/slipway-project/slipway/internal/golden"
	"github.com/slipway-project/slipway/params"
)

func TestWhatGoesOverTheWire(t *testing.T) {
	tr := &apitest.Transcript{Replies: map[string]string{
		"ImageMetadata.List":   `{"result":[{"image-id":"i-1","priority":50}]}`,
		"ImageMetadata.Save":   `{"results":[{}]}`,
		"ImageMetadata.Delete": `{"results":[{"error":{"message":"image metadata for \"x\" not found","code":"not found"}}]}`,
	}}
	c, ctx := imagemetadata.New(tr), t.Context()
	images, err := c.List(ctx, params.ImageMetadataFilter{Series: []string{"jammy"}})
	tr.Note("%v, %v", images, err)
	tr.Note("%v", c.Save(ctx, params.CloudImageMetadata{ImageID: "i-1", Series: "jammy", Arch: "amd64"}))
	tr.Note("%v", c.Delete(ctx, "x"))
	golden.Check(t, "transcript.golden", tr.String())
}
