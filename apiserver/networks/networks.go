// Package networks holds the facades Spaces and Subnets, both version 2: the
// networks that a model knows. People who may read the model can list them, and
// those who may write add to them.
package networks

import (
	"context"
	"slices"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/apiserver/common"
	"github.com/slipway-project/slipway/core/access"
	"github.com/slipway-project/slipway/core/life"
	"github.com/slipway-project/slipway/core/network"
	"github.com/slipway-project/slipway/core/tag"
	"github.com/slipway-project/slipway/params"
)

// Backend is what the facades need from below.
type Backend interface {
	// All returns every space and subnet.
	All(ctx context.Context) ([]network.Space, []network.Subnet, error)
	// AddSpace adds a space with subnets, given by their ranges.
	AddSpace(ctx context.Context, s network.Space, subnets []string) error
	AddSubnet(ctx context.Context, s network.Subnet) error
}

// facade is what both have in common.
type facade struct {
	backend Backend
	auth    common.Authorizer
}

func newFacade(b Backend, c common.Connection) (facade, error) {
	if !common.AuthClient(c.Auth) || !c.Auth.ModelAccess().Includes(access.Read) {
		return facade{}, common.ErrPerm
	}
	return facade{b, c.Auth}, nil
}

func (f facade) canWrite() error {
	if !f.auth.ModelAccess().Includes(access.Write) {
		return common.ErrPerm
	}
	return nil
}

// Subnets is the facade of one connection.
type Subnets struct{ f facade }

// AddSubnets adds subnets to spaces.
func (s *Subnets) AddSubnets(ctx context.Context, args params.AddSubnets) (params.ErrorResults, error) {
	if err := s.f.canWrite(); err != nil {
		return params.ErrorResults{}, err
	}
	results := make([]params.ErrorResult, len(args.Subnets))
	for i, a := range args.Subnets {
		results[i].Error = common.ServerError(s.add(ctx, a))
	}
	return params.ErrorResults{Results: results}, nil
}

func (s *Subnets) add(ctx context.Context, a params.AddSubnet) error {
	if a.SubnetTag == "" {
		return errors.NotValidf("subnet without a tag (a provider id alone names none)")
	}
	cidr, err := tag.ParseSubnetTag(a.SubnetTag)
	if err != nil {
		return err
	}
	space, err := tag.ParseSpaceTag(a.SpaceTag)
	if err != nil {
		return err
	}
	return s.f.backend.AddSubnet(ctx, network.Subnet{
		CIDR: cidr, ProviderID: a.SubnetProviderID, Space: space, VLANTag: a.VLANTag, Zones: a.Zones, Low: a.Low, High: a.High,
	})
}

// ListSubnets returns the subnets of a space and a zone, or all.
func (s *Subnets) ListSubnets(ctx context.Context, args params.SubnetsFilters) (params.ListSubnetsResults, error) {
	space := ""
	if args.SpaceTag != "" {
		var err error
		if space, err = tag.ParseSpaceTag(args.SpaceTag); err != nil {
			return params.ListSubnetsResults{}, err
		}
	}
	_, subnets, err := s.f.backend.All(ctx)
	if err != nil {
		return params.ListSubnetsResults{}, errors.Trace(err)
	}
	out := []params.Subnet{}
	for _, n := range subnets {
		if (space == "" || n.Space == space) && (args.Zone == "" || slices.Contains(n.Zones, args.Zone)) {
			out = append(out, wire(n))
		}
	}
	return params.ListSubnetsResults{Results: out}, nil
}

// wire returns a subnet as it is sent.
func wire(n network.Subnet) params.Subnet {
	zones := n.Zones
	if zones == nil {
		zones = []string{}
	}
	return params.Subnet{
		CIDR: n.CIDR, ProviderID: n.ProviderID, VLANTag: n.VLANTag, Life: string(life.Alive),
		SpaceTag: tag.SpaceTag(n.Space), Zones: zones, Low: n.Low, High: n.High,
	}
}

// Spaces is the facade of one connection.
type Spaces struct{ f facade }

// CreateSpaces adds spaces, with subnets that are there already.
func (s *Spaces) CreateSpaces(ctx context.Context, args params.CreateSpaces) (params.ErrorResults, error) {
	if err := s.f.canWrite(); err != nil {
		return params.ErrorResults{}, err
	}
	results := make([]params.ErrorResult, len(args.Spaces))
	for i, a := range args.Spaces {
		results[i].Error = common.ServerError(s.create(ctx, a))
	}
	return params.ErrorResults{Results: results}, nil
}

func (s *Spaces) create(ctx context.Context, a params.CreateSpace) error {
	name, err := tag.ParseSpaceTag(a.SpaceTag)
	if err != nil {
		return err
	}
	subnets := make([]string, len(a.SubnetTags))
	for i, t := range a.SubnetTags {
		if subnets[i], err = tag.ParseSubnetTag(t); err != nil {
			return err
		}
	}
	return s.f.backend.AddSpace(ctx, network.Space{Name: name, ProviderID: a.ProviderID, Public: a.Public}, subnets)
}

// ListSpaces returns every space with its subnets.
func (s *Spaces) ListSpaces(ctx context.Context) (params.ListSpacesResults, error) {
	spaces, subnets, err := s.f.backend.All(ctx)
	if err != nil {
		return params.ListSpacesResults{}, errors.Trace(err)
	}
	results := make([]params.Space, len(spaces))
	for i, space := range spaces {
		results[i] = params.Space{Name: space.Name, Subnets: []params.Subnet{}}
		for _, n := range subnets {
			if n.Space == space.Name {
				results[i].Subnets = append(results[i].Subnets, wire(n))
			}
		}
	}
	return params.ListSpacesResults{Results: results}, nil
}
