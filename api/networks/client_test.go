package networks_test

import (
	"testing"

	"github.com/slipway-project/slipway/api/apitest"
	"github.com/slipway-project/slipway/api/networks"
	"github.com/slipway-project/slipway/internal/golden"
	"github.com/slipway-project/slipway/params"
)

func TestWhatGoesOverTheWire(t *testing.T) {
	tr := &apitest.Transcript{Replies: map[string]string{
		"Spaces.CreateSpaces": `{"results":[{}]}`,
		"Spaces.ListSpaces":   `{"results":[{"name":"db","subnets":[{"cidr":"10.0.0.0/24"}]}]}`,
		"Subnets.AddSubnets":  `{"results":[{"error":{"message":"space \"x\" not found","code":"not found"}}]}`,
		"Subnets.ListSubnets": `{"results":[{"cidr":"10.0.0.0/24","space-tag":"space-db","zones":["z1"]}]}`,
	}}
	c, ctx := networks.New(tr), t.Context()
	tr.Note("%v", c.AddSpace(ctx, params.CreateSpace{SpaceTag: "space-db", SubnetTags: []string{}}))
	spaces, err := c.Spaces(ctx)
	tr.Note("%v, %v", spaces, err)
	tr.Note("%v", c.AddSubnet(ctx, params.AddSubnet{SubnetTag: "subnet-10.0.0.0/24", SpaceTag: "space-x", Low: "10.0.0.5", High: "10.0.0.9"}))
	subnets, err := c.Subnets(ctx, params.SubnetsFilters{Zone: "z1"})
	tr.Note("%v, %v", subnets, err)
	golden.Check(t, "transcript.golden", tr.String())
}
