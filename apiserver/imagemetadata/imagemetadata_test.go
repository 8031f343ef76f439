package imagemetadata_test

import (
	"context"
	"testing"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/apiserver/facadetest"
	"github.com/slipway-project/slipway/apiserver/imagemetadata"
	"github.com/slipway-project/slipway/params"
	"github.com/slipway-project/slipway/state/statetest"
)

var ctx = context.Background()

func ids(list []params.CloudImageMetadata) []string {
	var out []string
	for _, m := range list {
		out = append(out, m.ImageID)
	}
	return out
}

func TestImages(t *testing.T) {
	site, _ := statetest.OpenMemory(t)
	m, err := imagemetadata.New(site.Default, facadetest.Connect(t, facadetest.Writer))
	if err != nil {
		t.Fatal(err)
	}
	save := func(list ...params.CloudImageMetadata) string {
		got, err := m.Save(ctx, params.MetadataSaveParams{Metadata: []params.CloudImageMetadataList{{Metadata: list}}})
		if err != nil {
			t.Fatal(err)
		}
		return facadetest.Text(got.Results[0].Error)
	}
	jammy := params.CloudImageMetadata{ImageID: "i-1", Series: "jammy", Arch: "amd64"}
	facadetest.Equal(t, "Save", []string{
		save(jammy),
		save(params.CloudImageMetadata{ImageID: "i-2", Series: "jammy", Arch: "arm64", Stream: "daily", Source: "public", Priority: 10}),
		save(params.CloudImageMetadata{ImageID: "i-3", Arch: "amd64"}),
		save(params.CloudImageMetadata{ImageID: "i-4", Series: "nosuch", Arch: "amd64"}),
	}, "", "", "cannot save images: image metadata: empty series not valid", `series "nosuch" not valid`)
	got, err := m.List(ctx, params.ImageMetadataFilter{})
	if err != nil {
		t.Fatal(err)
	}
	facadetest.Equal(t, "List", ids(got.Result), "i-2", "i-1")
	if i := got.Result[1]; i.Version != "22.04" || i.Stream != "released" || i.Source != "custom" || i.Priority != 50 {
		t.Errorf("image = %+v, want what was left out filled in", i)
	}
	jammy.ImageID = "i-5" // in place of the one like it
	if got := save(jammy); got != "" {
		t.Error(got)
	}
	for _, test := range []struct {
		filter params.ImageMetadataFilter
		want   []string
	}{
		{params.ImageMetadataFilter{Series: []string{"jammy"}}, []string{"i-2", "i-5"}},
		{params.ImageMetadataFilter{Stream: "daily"}, []string{"i-2"}},
		{params.ImageMetadataFilter{Arches: []string{"amd64"}}, []string{"i-5"}},
		{params.ImageMetadataFilter{RootStorageType: "ebs"}, nil},
	} {
		got, err := m.List(ctx, test.filter)
		if err != nil {
			t.Fatal(err)
		}
		facadetest.Equal(t, "List", ids(got.Result), test.want...)
	}
	deleted, err := m.Delete(ctx, params.MetadataImageIDs{IDs: []string{"i-2", "i-2"}})
	if err != nil {
		t.Fatal(err)
	}
	facadetest.Equal(t, "Delete", facadetest.Texts(deleted.Results), "", `cannot delete image metadata: image metadata for "i-2" not found [not found]`)
}

func TestWhoMayDoWhat(t *testing.T) {
	site, _ := statetest.OpenMemory(t)
	for _, who := range []facadetest.Caller{{}, facadetest.Manager, facadetest.Agent("machine-1")} {
		if _, err := imagemetadata.New(site.Default, facadetest.Connect(t, who)); !errors.Is(err, errors.Unauthorized) {
			t.Errorf("New for %+v = %v, want it denied", who, err)
		}
	}
	m, err := imagemetadata.New(site.Default, facadetest.Connect(t, facadetest.Reader))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Save(ctx, params.MetadataSaveParams{}); !errors.Is(err, errors.Unauthorized) {
		t.Errorf("Save of a reader = %v, want it denied", err)
	}
	if _, err := m.Delete(ctx, params.MetadataImageIDs{}); !errors.Is(err, errors.Unauthorized) {
		t.Errorf("Delete of a reader = %v, want it denied", err)
	}
	if got, err := m.List(ctx, params.ImageMetadataFilter{}); err != nil || got.Result == nil {
		t.Errorf("List of a reader = %+v, %v, want an empty list", got, err)
	}
}
