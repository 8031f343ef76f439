package site

import (
	"context"

	"github.com/juju/errors"
	"github.com/juju/loggo"

	"github.com/slipway-project/slipway/state"
	"github.com/slipway-project/slipway/store"
	"github.com/slipway-project/slipway/store/sqlite"
)

var logger = loggo.GetLogger("slipway.site")

// openStore opens the store of a data directory.
func openStore(ctx context.Context, d Dir) (store.Store, error) {
	s, err := sqlite.Open(ctx, sqlite.Config{Dir: d.Store(), Collections: state.Collections()})
	if err != nil {
		return nil, errors.Trace(err)
	}
	return s, nil
}
