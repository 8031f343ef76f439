package tag

import (
	"strings"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/core/network"
)

// The prefixes of the tags of networks, which name no entities of their own.
const (
	spacePrefix  = "space-"
	subnetPrefix = "subnet-"
)

// SpaceTag returns the tag of the space with that name; empty for none.
func SpaceTag(name string) string {
	if name == "" {
		return ""
	}
	return spacePrefix + name
}

// SubnetTag returns the tag of the subnet with that range.
func SubnetTag(cidr string) string { return subnetPrefix + cidr }

// ParseSpaceTag returns the name in the tag of a space, or an error satisfying
// errors.NotValid.
func ParseSpaceTag(text string) (string, error) {
	name, ok := strings.CutPrefix(text, spacePrefix)
	if !ok || network.CheckSpaceName(name) != nil {
		return "", errors.WithType(errors.Errorf("%q is not a valid space tag", text), errors.NotValid)
	}
	return name, nil
}

// ParseSubnetTag returns the range in the tag of a subnet, or an error satisfying
// errors.NotValid.
func ParseSubnetTag(text string) (string, error) {
	cidr, ok := strings.CutPrefix(text, subnetPrefix)
	if ok {
		if p, err := network.ParseCIDR(cidr); err == nil {
			return p.String(), nil
		}
	}
	return "", errors.WithType(errors.Errorf("%q is not a valid subnet tag", text), errors.NotValid)
}
