// Package containers is the facade Containers, version 1, an addition of this project
// to the protocol: what the agent of a machine that holds containers hears of them
// beyond what ProvisionerAPI tells it. Each agent may ask about its own machine alone;
// nobody else may ask at all.
package containers

import (
	"context"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/apiserver/common"
	"github.com/slipway-project/slipway/params"
	"github.com/slipway-project/slipway/watcher"
)

// host is what the facade needs of a machine.
type host interface {
	// WatchContainerRetries tells when another try of one of the machine's direct
	// containers is asked for.
	WatchContainerRetries() watcher.NotifyWatcher
}

// Containers is the facade of one connection.
type Containers struct {
	finder    common.EntityFinder
	own       common.GetAuthFunc
	resources *common.Resources
}

// newContainers returns the facade, or ErrPerm if the caller is no machine's
// agent.
func newContainers(f common.EntityFinder, c common.Connection) (*Containers, error) {
	if !c.Auth.AuthMachineAgent() {
		return nil, common.ErrPerm
	}
	return &Containers{finder: f, own: common.AuthSelf(c.Auth), resources: c.Resources}, nil
}

// WatchRetries tells when another try of a direct container of a machine in error is
// asked for. It is for the machine's own agent: managers are
// refused like others.
func (c *Containers) WatchRetries(ctx context.Context, args params.Entities) (params.NotifyWatchResults, error) {
	results := make([]params.NotifyWatchResult, len(args.Entities))
	b := common.Bulk[host]{Get: common.Entities[host](c.finder, "containers"), Can: c.own, Parse: common.ParseMachine}
	err := b.Do(ctx, len(results), func(i int) string { return args.Entities[i].Tag }, func(i int, h host) error {
		var err error
		results[i], err = common.RegisterNotify(ctx, c.resources, h.WatchContainerRetries())
		return errors.Trace(err)
	}, func(i int, err *params.Error) { results[i].Error = err })
	return params.NotifyWatchResults{Results: results}, errors.Trace(err)
}
