package lxd

import (
	"context"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/environs/lxd/rest"
)

// defaultName is what the pool and the profile are called that LXD uses unless
// it is told otherwise.
const defaultName = "default"

// SetUp makes an LXD server, given its address, ready for containers: it has a
// storage pool, and its default profile says that root disks are in there. What
// has been set up already, by whomever, stays as it is.
func SetUp(ctx context.Context, address string) error {
	client, err := rest.New(rest.Config{Address: address})
	if err != nil {
		return errors.Trace(err)
	}
	defer client.CloseIdle()
	if _, err := client.Server(ctx); err != nil {
		return errors.Annotate(err, "cannot set up LXD")
	}
	profile, err := client.Profile(ctx, defaultName)
	if err != nil {
		return errors.Annotate(err, "cannot set up LXD's default profile")
	}
	for _, device := range profile.Devices {
		if device["type"] == "disk" && device["path"] == "/" {
			return nil
		}
	}
	pools, err := client.Pools(ctx)
	if err != nil {
		return errors.Annotate(err, "cannot set up LXD's storage")
	}
	pool := defaultName
	if len(pools) > 0 {
		pool = pools[0]
	} else if err := client.CreatePool(ctx, pool, "dir"); err != nil && !errors.Is(err, errors.AlreadyExists) {
		return errors.Annotate(err, "cannot set up LXD's storage")
	}
	root := rest.Devices{"root": {"type": "disk", "path": "/", "pool": pool}}
	return errors.Annotate(client.AddDevices(ctx, defaultName, root), "cannot set up LXD's default profile")
}

// Usable reports, with nil, that an LXD server answers at an address and trusts
// whoever asks.
func Usable(ctx context.Context, address string) error {
	client, err := rest.New(rest.Config{Address: address})
	if err != nil {
		return errors.Trace(err)
	}
	defer client.CloseIdle()
	_, err = client.Server(ctx)
	return errors.Trace(err)
}
