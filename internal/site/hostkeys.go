package site

import (
	"context"
	"fmt"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/internal/hostkey"
	"github.com/slipway-project/slipway/state"
	"github.com/slipway-project/slipway/state/host"
)

// hostKeys returns the keys that seal the credentials of hosts. A directory of an
// older version gets one; whether it may is found out by checkHostKeys.
func (d Dir) hostKeys() (*hostkey.Ring, error) {
	keys, err := hostkey.Read(d.HostKeys())
	if errors.Is(err, errors.NotFound) {
		return hostkey.New(), nil
	}
	return keys, errors.Trace(err)
}

// checkHostKeys refuses a controller that cannot read the credentials of every
// host. Keys that were made for a directory without any are kept if they may be
// the site's.
func checkHostKeys(ctx context.Context, d Dir, c *state.Controller) error {
	err := host.New(c.SiteDocs()).CheckKeys(ctx, c.SiteDocs().Keys())
	if errors.Is(err, hostkey.ErrWrongKey) {
		return errors.WithType(fmt.Errorf("%v: put the site's hosts.key into %s, from another controller or a backup with secrets", err, d), hostkey.ErrWrongKey)
	}
	if err != nil {
		return errors.Annotate(err, "cannot check the keys of hosts")
	}
	if _, err := hostkey.Read(d.HostKeys()); errors.Is(err, errors.NotFound) {
		return errors.Trace(c.SiteDocs().Keys().Write(d.HostKeys()))
	}
	return nil
}
