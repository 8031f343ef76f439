package below

import (
	"context"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/apiserver/common"
)

// Binaries are the agent binaries of the site, and where they can be had.
type Binaries struct{ Site }

var _ common.Binaries = Binaries{}

// Binaries returns every agent binary that the site keeps.
func (b Binaries) Binaries(ctx context.Context) ([]common.Binary, error) {
	all, err := b.State.Controller().Binaries().All(ctx)
	out := make([]common.Binary, len(all))
	for i, x := range all {
		out[i] = common.Binary{Version: x.Version, SHA256: x.SHA256, Size: x.Size}
	}
	return out, errors.Trace(err)
}
