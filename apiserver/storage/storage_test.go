package storage_test

import (
	"fmt"
	"testing"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/apiserver/facadetest"
	"github.com/slipway-project/slipway/apiserver/storage"
	"github.com/slipway-project/slipway/params"
	"github.com/slipway-project/slipway/state"
	"github.com/slipway-project/slipway/state/statetest"
)

func TestPools(t *testing.T) {
	site, _ := statetest.OpenMemory(t)
	s, err := storage.New(site.Default, facadetest.Connect(t, facadetest.Writer))
	if err != nil {
		t.Fatal(err)
	}
	create := func(p params.StoragePool) string {
		if err := s.CreatePool(t.Context(), p); err != nil {
			return err.Error()
		}
		return ""
	}
	facadetest.Equal(t, "CreatePool", []string{
		create(params.StoragePool{Name: "slow", Provider: "nfs"}),
		create(params.StoragePool{Name: "fast", Provider: "static", Attrs: map[string]any{"foo": "bar"}}),
		create(params.StoragePool{Name: "fast", Provider: "static"}),
		create(params.StoragePool{Name: "a b", Provider: "static"}),
	}, "", "", `cannot create storage pool "fast": storage pool "fast" already exists`,
		`cannot create storage pool "a b": pool name "a b" (letters, digits and hyphens, beginning with a letter) not valid`)
	got, err := s.ListPools(t.Context(), params.StoragePoolFilters{Filters: []params.StoragePoolFilter{
		{}, {Names: []string{"slow", "other"}}, {Providers: []string{"static"}}, {Names: []string{"slow"}, Providers: []string{"static"}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	var lists []string
	for _, r := range got.Results {
		lists = append(lists, fmt.Sprint(r.Result))
	}
	facadetest.Equal(t, "ListPools", lists, "[{fast static map[foo:bar]} {slow nfs map[]}]", "[{slow nfs map[]}]", "[{fast static map[foo:bar]}]", "[]")
	if none, err := s.ListPools(t.Context(), params.StoragePoolFilters{}); err != nil || none.Results != nil {
		t.Errorf("ListPools without filters = %+v, %v", none, err)
	}
	statetest.AddMachine(t, site.Default, state.MachineSpec{Disks: []state.Disks{{Pool: "fast", Size: 1, Count: 1}}})
	removed, err := s.RemovePool(t.Context(), params.StoragePoolDeleteArgs{Pools: []params.StoragePoolDeleteArg{{Name: "slow"}, {Name: "slow"}, {Name: "fast"}}})
	if err != nil {
		t.Fatal(err)
	}
	facadetest.Equal(t, "RemovePool", facadetest.Texts(removed.Results), "", `cannot remove storage pool "slow": storage pool "slow" not found [not found]`,
		`cannot remove storage pool "fast": storage pool "fast" is in use by machine 0`)
}

func TestWhoMayDoWhat(t *testing.T) {
	site, _ := statetest.OpenMemory(t)
	for _, who := range []facadetest.Caller{{}, facadetest.Manager, facadetest.Agent("machine-1")} {
		if _, err := storage.New(site.Default, facadetest.Connect(t, who)); !errors.Is(err, errors.Unauthorized) {
			t.Errorf("New for %+v = %v, want it denied", who, err)
		}
	}
	s, err := storage.New(site.Default, facadetest.Connect(t, facadetest.Reader))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.CreatePool(t.Context(), params.StoragePool{Name: "fast", Provider: "static"}); !errors.Is(err, errors.Unauthorized) {
		t.Errorf("CreatePool of a reader = %v, want it denied", err)
	}
	if _, err := s.RemovePool(t.Context(), params.StoragePoolDeleteArgs{}); !errors.Is(err, errors.Unauthorized) {
		t.Errorf("RemovePool of a reader = %v, want it denied", err)
	}
	if got, err := s.ListPools(t.Context(), params.StoragePoolFilters{Filters: []params.StoragePoolFilter{{}}}); err != nil || len(got.Results) != 1 {
		t.Errorf("ListPools of a reader = %+v, %v", got, err)
	}
}
