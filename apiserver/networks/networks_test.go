package networks_test

import (
	"context"
	"testing"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/apiserver/facadetest"
	"github.com/slipway-project/slipway/apiserver/networks"
	"github.com/slipway-project/slipway/params"
	"github.com/slipway-project/slipway/state/statetest"
)

var ctx = context.Background()

func open(t *testing.T, who facadetest.Caller, site *statetest.Site) (*networks.Spaces, *networks.Subnets) {
	t.Helper()
	spaces, err := networks.NewSpaces(site.Default, facadetest.Connect(t, who))
	if err != nil {
		t.Fatal(err)
	}
	subnets, err := networks.NewSubnets(site.Default, facadetest.Connect(t, who))
	if err != nil {
		t.Fatal(err)
	}
	return spaces, subnets
}

func TestWhoMayDoWhat(t *testing.T) {
	site, _ := statetest.OpenMemory(t)
	for _, who := range []facadetest.Caller{{}, facadetest.Manager, facadetest.Agent("machine-1"), {Tag: "user-x"}} {
		if _, err := networks.NewSpaces(site.Default, facadetest.Connect(t, who)); !errors.Is(err, errors.Unauthorized) {
			t.Errorf("NewSpaces for %+v = %v, want it denied", who, err)
		}
		if _, err := networks.NewSubnets(site.Default, facadetest.Connect(t, who)); !errors.Is(err, errors.Unauthorized) {
			t.Errorf("NewSubnets for %+v = %v, want it denied", who, err)
		}
	}
	spaces, subnets := open(t, facadetest.Reader, site)
	if _, err := spaces.CreateSpaces(ctx, params.CreateSpaces{Spaces: []params.CreateSpace{{SpaceTag: "space-a"}}}); !errors.Is(err, errors.Unauthorized) {
		t.Errorf("CreateSpaces of a reader = %v, want it denied", err)
	}
	if _, err := subnets.AddSubnets(ctx, params.AddSubnets{}); !errors.Is(err, errors.Unauthorized) {
		t.Errorf("AddSubnets of a reader = %v, want it denied", err)
	}
	if got, err := spaces.ListSpaces(ctx); err != nil || got.Results == nil || len(got.Results) != 0 {
		t.Errorf("ListSpaces = %+v, %v, want an empty list", got, err)
	}
}

func TestSpacesAndSubnets(t *testing.T) {
	site, _ := statetest.OpenMemory(t)
	spaces, subnets := open(t, facadetest.Writer, site)
	created, err := spaces.CreateSpaces(ctx, params.CreateSpaces{Spaces: []params.CreateSpace{
		{SpaceTag: "space-db"}, {SpaceTag: "space-db"}, {SpaceTag: "db"}, {SpaceTag: "space-web", SubnetTags: []string{"subnet-10.9.0.0/24"}},
		{SpaceTag: "space-web", SubnetTags: []string{"10.9.0.0/24"}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	facadetest.Equal(t, "CreateSpaces", facadetest.Texts(created.Results), "",
		`cannot add space "db": space "db" already exists [already exists]`, `"db" is not a valid space tag`,
		`cannot add space "web": subnet "10.9.0.0/24" not found [not found]`, `"10.9.0.0/24" is not a valid subnet tag`)
	added, err := subnets.AddSubnets(ctx, params.AddSubnets{Subnets: []params.AddSubnet{
		{SubnetTag: "subnet-10.0.0.0/24", SpaceTag: "space-db", SubnetProviderID: "s-1", VLANTag: 7, Zones: []string{"z1", "z2"}, Low: "10.0.0.10", High: "10.0.0.20"},
		{SubnetTag: "subnet-10.0.0.128/25", SpaceTag: "space-db"},
		{SubnetTag: "subnet-10.0.1.0/24", SpaceTag: "space-db", SubnetProviderID: "s-1"},
		{SubnetTag: "subnet-10.0.1.0/24", SpaceTag: "space-nope"},
		{SubnetTag: "subnet-10.0.1.0/24", SpaceTag: "space-db", Low: "10.0.0.10"},
		{SubnetProviderID: "s-2", SpaceTag: "space-db"},
		{SubnetTag: "subnet-nope", SpaceTag: "space-db"},
		{SubnetTag: "subnet-10.0.1.0/24"},
		{SubnetTag: "subnet-9.0.0.0/8", SpaceTag: "space-db", Zones: []string{"z2"}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	facadetest.Equal(t, "AddSubnets", facadetest.Texts(added.Results), "",
		`cannot add subnet "10.0.0.128/25": subnet 10.0.0.0/24 already exists [already exists]`,
		`cannot add subnet "10.0.1.0/24": subnet with provider id "s-1" already exists [already exists]`,
		`cannot add subnet "10.0.1.0/24": space "nope" not found [not found]`,
		`cannot add subnet "10.0.1.0/24": last address "" of subnet 10.0.1.0/24 not valid`,
		"subnet without a tag (a provider id alone names none) not valid",
		`"subnet-nope" is not a valid subnet tag`, `"" is not a valid space tag`, "")
	moved, err := spaces.CreateSpaces(ctx, params.CreateSpaces{Spaces: []params.CreateSpace{{SpaceTag: "space-web", SubnetTags: []string{"subnet-9.0.0.0/8"}, Public: true}}})
	if err != nil || moved.Results[0].Error != nil {
		t.Fatalf("CreateSpaces = %+v, %v", moved, err)
	}
	listed, err := spaces.ListSpaces(ctx)
	if err != nil || len(listed.Results) != 2 || listed.Results[0].Name != "db" || len(listed.Results[0].Subnets) != 1 ||
		listed.Results[1].Name != "web" || listed.Results[1].Subnets[0].CIDR != "9.0.0.0/8" {
		t.Errorf("ListSpaces = %+v, %v", listed, err)
	}
	for _, test := range []struct {
		filter params.SubnetsFilters
		want   []string
	}{
		{params.SubnetsFilters{}, []string{"9.0.0.0/8", "10.0.0.0/24"}},
		{params.SubnetsFilters{SpaceTag: "space-db"}, []string{"10.0.0.0/24"}},
		{params.SubnetsFilters{Zone: "z2"}, []string{"9.0.0.0/8", "10.0.0.0/24"}},
		{params.SubnetsFilters{Zone: "z1", SpaceTag: "space-web"}, nil},
	} {
		got, err := subnets.ListSubnets(ctx, test.filter)
		if err != nil {
			t.Fatal(err)
		}
		var cidrs []string
		for _, s := range got.Results {
			cidrs = append(cidrs, s.CIDR)
		}
		facadetest.Equal(t, "ListSubnets", cidrs, test.want...)
	}
	if _, err := subnets.ListSubnets(ctx, params.SubnetsFilters{SpaceTag: "x"}); err == nil {
		t.Error("ListSubnets of what is no space succeeds")
	}
}
