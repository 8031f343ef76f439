package lxd

import (
	"context"
	"maps"
	"slices"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/core/network"
	"github.com/slipway-project/slipway/environs"
	"github.com/slipway-project/slipway/environs/lxd/rest"
	"github.com/slipway-project/slipway/environs/userdata"
)

// networkConfigKey is where LXD has cloud-init find its network configuration.
const networkConfigKey = "cloud-init.network-config"

// nic is a network device of the profiles.
type nic struct {
	name   string // of the device
	config map[string]string
}

// nics returns the network devices that the profiles give a container, in the order
// of their names. They are asked for anew each time: whoever lacks one adds it.
func (h *host) nics(ctx context.Context, profiles []string) ([]nic, error) {
	devices := rest.Devices{}
	for _, name := range profiles {
		profile, err := h.client.Profile(ctx, name)
		if err != nil {
			return nil, h.explain(err)
		}
		maps.Copy(devices, profile.Devices) // a later profile's device replaces an earlier one's
	}
	var out []nic
	for _, name := range slices.Sorted(maps.Keys(devices)) {
		if devices[name]["type"] == "nic" {
			out = append(out, nic{name, devices[name]})
		}
	}
	return out, nil
}

// describeFor is describe, with what the start of p needs besides.
func (h *host) describeFor(ctx context.Context, profiles []string, p environs.StartInstanceParams) (hostInfo, error) {
	info, err := h.describe(ctx, profiles)
	if err == nil && len(p.Network) > 0 {
		info.nics, err = h.nics(ctx, profiles)
	}
	return info, err
}

// connect has a container's network devices lead to where those of the profiles do,
// with the MAC addresses that it was given, and its disk or cloud-init say which
// addresses it has. VLANs and the like are the affair of the bridge that the
// profile names.
func (pl *plan) connect(given []network.Interface, nics []nic, cloudInit bool) error {
	if len(given) == 0 {
		return nil
	}
	if len(nics) < len(given) {
		return errors.NewNotValid(nil, "the container was given an address, and the LXD profiles have no network device for it: add one that is on a bridge of the host's network, or set "+ProfilesKey)
	}
	given = slices.Clone(given)
	for i := range given {
		device := maps.Clone(nics[i].config)
		device["hwaddr"] = given[i].MAC
		pl.container.Devices[nics[i].name] = device
		given[i].Name = device["name"]
		if given[i].Name == "" {
			given[i].Name = nics[i].name // as LXD calls it, too
		}
	}
	if cloudInit {
		text, err := userdata.NetworkConfig(given)
		pl.container.Config[networkConfigKey] = string(text)
		return err
	}
	files, err := userdata.NetworkFiles(given)
	if err != nil {
		return err
	}
	pl.files = append(pl.files, files...)
	pl.late = false // the boot reads them
	return nil
}

// addressesGiven returns the addresses of interfaces.
func addressesGiven(interfaces []network.Interface) []network.Address {
	var out []network.Address
	for _, i := range interfaces {
		out = append(out, network.NewAddress(i.Address))
	}
	return out
}
