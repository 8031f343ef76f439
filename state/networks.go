package state

import (
	"context"
	"net/netip"
	"slices"
	"strings"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/core/life"
	"github.com/slipway-project/slipway/core/network"
	"github.com/slipway-project/slipway/store"
)

// networksDoc is what a model knows of networks: one document, because subnets
// must not overlap, and because whoever needs one of them needs most.
type networksDoc struct {
	Spaces  []network.Space  `json:"spaces,omitempty"`  // by name
	Subnets []network.Subnet `json:"subnets,omitempty"` // by range
}

// networksID is the local id of that document.
const networksID = "networks"

// The bounds of what a model knows of networks, which is read and written as a
// whole.
const (
	maxSpaces  = 500
	maxSubnets = 5000
	maxZones   = 100 // of one subnet
	maxName    = 256 // bytes of a zone's name, and of what a provider calls a space or subnet
)

// checkNames returns an error satisfying errors.NotValid for names that are too long.
func checkNames(names ...string) error {
	for _, n := range names {
		if len(n) > maxName {
			return errors.NotValidf("name %.20q... of %d bytes (at most %d)", n, len(n), maxName)
		}
	}
	return nil
}

func (d *networksDoc) space(name string) *network.Space {
	for i := range d.Spaces {
		if d.Spaces[i].Name == name {
			return &d.Spaces[i]
		}
	}
	return nil
}

func (d *networksDoc) subnet(cidr string) *network.Subnet {
	for i := range d.Subnets {
		if d.Subnets[i].CIDR == cidr {
			return &d.Subnets[i]
		}
	}
	return nil
}

// Networks is the handle on the spaces and subnets of a model.
type Networks struct{ st *State }

// Networks returns the handle on the spaces and subnets of the model.
func (st *State) Networks() *Networks { return &Networks{st} }

// All returns every space by name, and every subnet by range.
func (ns *Networks) All(ctx context.Context) ([]network.Space, []network.Subnet, error) {
	d, err := readSite[networksDoc](ctx, ns.st.c, ns.st.key(networksC, networksID))
	if err != nil {
		return nil, nil, errors.Annotate(err, "cannot list networks")
	}
	return d.Spaces, d.Subnets, nil
}

// AddSpace adds a space and puts subnets that are there already, given by their
// ranges, into it. It returns an error satisfying errors.AlreadyExists,
// errors.NotFound for a subnet, and errors.NotValid.
func (ns *Networks) AddSpace(ctx context.Context, s network.Space, subnets []string) error {
	err := network.CheckSpaceName(s.Name)
	if err == nil {
		err = checkNames(s.Name, s.ProviderID)
	}
	if err == nil {
		err = updateOwn(ctx, ns.st, ns.st.key(networksC, networksID), func(d *networksDoc) error {
			if d.space(s.Name) != nil {
				return errors.AlreadyExistsf("space %q", s.Name)
			}
			if len(d.Spaces) >= maxSpaces {
				return typedf(errors.NotValid, "more than %d spaces in one model", maxSpaces)
			}
			d.Spaces = append(d.Spaces, s)
			slices.SortFunc(d.Spaces, func(a, b network.Space) int { return strings.Compare(a.Name, b.Name) })
			for _, cidr := range subnets {
				subnet := d.subnet(cidr)
				if subnet == nil {
					return errors.NotFoundf("subnet %q", cidr)
				}
				subnet.Space = s.Name
			}
			return nil
		})
	}
	return errors.Annotatef(err, "cannot add space %q", s.Name)
}

// AddSubnet adds a subnet to a space. It returns an error satisfying
// errors.AlreadyExists if it overlaps with another, errors.NotFound if there is
// no such space, and errors.NotValid.
func (ns *Networks) AddSubnet(ctx context.Context, s network.Subnet) error {
	err := s.Check()
	if err == nil {
		err = checkNames(append(slices.Clone(s.Zones), s.ProviderID)...)
	}
	if err == nil && len(s.Zones) > maxZones {
		err = errors.NotValidf("%d zones for one subnet (at most %d)", len(s.Zones), maxZones)
	}
	if err == nil {
		err = updateOwn(ctx, ns.st, ns.st.key(networksC, networksID), func(d *networksDoc) error {
			return d.add(s)
		})
	}
	return errors.Annotatef(err, "cannot add subnet %q", s.CIDR)
}

// add adds a subnet that was checked.
func (d *networksDoc) add(s network.Subnet) error {
	if d.space(s.Space) == nil {
		return errors.NotFoundf("space %q", s.Space)
	}
	prefix, err := network.ParseCIDR(s.CIDR)
	if err != nil {
		return err
	}
	for _, other := range d.Subnets {
		if p, err := network.ParseCIDR(other.CIDR); err == nil && p.Overlaps(prefix) {
			return errors.AlreadyExistsf("subnet %s", other.CIDR)
		}
		if s.ProviderID != "" && s.ProviderID == other.ProviderID {
			return errors.AlreadyExistsf("subnet with provider id %q", s.ProviderID)
		}
	}
	if len(d.Subnets) >= maxSubnets {
		return typedf(errors.NotValid, "more than %d subnets in one model", maxSubnets)
	}
	d.Subnets = append(d.Subnets, s)
	slices.SortFunc(d.Subnets, func(a, b network.Subnet) int { return compareCIDR(a.CIDR, b.CIDR) })
	return nil
}

// compareCIDR orders ranges by their first address.
func compareCIDR(a, b string) int {
	x, errX := netip.ParsePrefix(a)
	y, errY := netip.ParsePrefix(b)
	if errX != nil || errY != nil {
		return strings.Compare(a, b)
	}
	return x.Addr().Compare(y.Addr())
}

// updateOwn changes one of the model's own documents, which is zero while it is
// missing, while the model is alive.
func updateOwn[T any](ctx context.Context, st *State, key store.Key, change func(*T) error) error {
	model := siteKey(modelsC, st.modelUUID)
	err := st.run(ctx, func(int) ([]store.Op, error) {
		docs, err := st.c.store.GetAll(ctx, []store.Key{key, model})
		if err != nil {
			return nil, err
		}
		if docs[1].Rev == 0 {
			return nil, noModel(st.modelUUID)
		}
		m, err := decode[modelDoc](docs[1])
		if err != nil {
			return nil, err
		}
		if m.Life != life.Alive {
			return nil, typedf(ErrModelNotAlive, "model %q is no longer alive", m.Name)
		}
		v := new(T)
		if docs[0].Rev != 0 {
			if v, err = decode[T](docs[0]); err != nil {
				return nil, err
			}
		}
		if err := change(v); err != nil {
			return nil, err
		}
		op, err := writeOp(key, docs[0].Rev, v, nil)
		return []store.Op{store.Assert(model, docs[1].Rev), op}, err
	})
	if errors.Is(err, errNoChange) {
		return nil
	}
	return err
}
