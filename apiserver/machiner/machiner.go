// Package machiner is the facade Machiner, version 1: what the agent of a machine
// says of its machine, and hears of it. Each agent may touch its own machine
// alone.
package machiner

import (
	"context"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/apiserver/common"
	"github.com/slipway-project/slipway/core/job"
	"github.com/slipway-project/slipway/core/network"
	"github.com/slipway-project/slipway/core/tag"
	"github.com/slipway-project/slipway/params"
	"github.com/slipway-project/slipway/watcher"
)

// Each of these is what one kind of method needs of a machine.
type (
	watched interface {
		Watch(ctx context.Context) (watcher.NotifyWatcher, error)
	}

	employed interface {
		Jobs() []job.Job
	}

	addressed interface {
		SetMachineAddresses(ctx context.Context, addresses []network.Address) error
		SetInterfaces(ctx context.Context, list []network.Interface) error
	}
)

// Machiner is the facade of one connection.
type Machiner struct {
	*common.LifeGetter
	*common.StatusSetter
	*common.DeadEnsurer
	*common.APIAddresser

	finder    common.EntityFinder
	own       common.GetAuthFunc
	resources *common.Resources
}

// newMachiner returns the facade, or ErrPerm if the caller is no machine's
// agent.
func newMachiner(f common.EntityFinder, site common.APIAddresses, c common.Connection) (*Machiner, error) {
	if !c.Auth.AuthMachineAgent() {
		return nil, common.ErrPerm
	}
	own := common.AuthSelf(c.Auth)
	return &Machiner{
		LifeGetter:   common.NewLifeGetter(common.Entities[common.Lifer](f, "life cycles"), own),
		StatusSetter: common.NewStatusSetter(common.Entities[common.StatusHolder](f, "setting status"), own),
		DeadEnsurer:  common.NewDeadEnsurer(common.Entities[common.Deadener](f, "ensuring death"), own),
		APIAddresser: common.NewAPIAddresser(site, c.Resources),
		finder:       f,
		own:          own,
		resources:    c.Resources,
	}, nil
}

// Watch tells when a machine changes: its life, configuration, addresses or
// containers.
func (m *Machiner) Watch(ctx context.Context, args params.Entities) (params.NotifyWatchResults, error) {
	results := make([]params.NotifyWatchResult, len(args.Entities))
	b := common.Bulk[watched]{Get: common.Entities[watched](m.finder, "watching"), Can: m.own}
	err := b.Do(ctx, len(results), func(i int) string { return args.Entities[i].Tag }, func(i int, e watched) error {
		w, err := e.Watch(ctx)
		if err != nil {
			return errors.Trace(err)
		}
		results[i], err = common.RegisterNotify(ctx, m.resources, w)
		return err
	}, func(i int, err *params.Error) { results[i].Error = err })
	return params.NotifyWatchResults{Results: results}, err
}

// Jobs returns what machines are for.
func (m *Machiner) Jobs(ctx context.Context, args params.Entities) (params.JobsResults, error) {
	results := make([]params.JobsResult, len(args.Entities))
	b := common.Bulk[employed]{Get: common.Entities[employed](m.finder, "jobs"), Can: m.own, Parse: common.ParseMachine}
	err := b.Do(ctx, len(results), func(i int) string { return args.Entities[i].Tag }, func(i int, e employed) error {
		for _, j := range e.Jobs() {
			results[i].Jobs = append(results[i].Jobs, string(j))
		}
		return nil
	}, func(i int, err *params.Error) { results[i].Error = err })
	return params.JobsResults{Results: results}, err
}

// SetMachineAddresses records which addresses machines see on themselves. A
// machine that is missing is not told from one that is not the caller's.
func (m *Machiner) SetMachineAddresses(ctx context.Context, args params.SetMachinesAddresses) (params.ErrorResults, error) {
	results := make([]params.ErrorResult, len(args.MachineAddresses))
	b := common.Bulk[addressed]{Get: common.Entities[addressed](m.finder, "addresses"), Can: m.own, Fresh: true}
	err := b.Do(ctx, len(results), func(i int) string { return args.MachineAddresses[i].Tag }, func(i int, e addressed) error {
		return e.SetMachineAddresses(ctx, common.CompleteAddresses(args.MachineAddresses[i].Addresses))
	}, func(i int, err *params.Error) {
		if err.Code == params.CodeNotFound {
			err = common.ServerError(common.ErrPerm)
		}
		results[i].Error = err
	})
	return params.ErrorResults{Results: results}, err
}

// SetProviderNetworkConfig is called by agents that want the provider's view of
// their network taken over. Here whoever watches the provider does that by itself,
// so there is nothing left to do.
func (m *Machiner) SetProviderNetworkConfig(ctx context.Context, args params.Entities) (params.ErrorResults, error) {
	results := make([]params.ErrorResult, len(args.Entities))
	b := common.Bulk[addressed]{Get: common.Entities[addressed](m.finder, "addresses"), Can: m.own}
	err := b.Do(ctx, len(results), func(i int) string { return args.Entities[i].Tag }, func(int, addressed) error { return nil },
		func(i int, err *params.Error) { results[i].Error = err })
	return params.ErrorResults{Results: results}, err
}

// SetObservedNetworkConfig records what a machine sees of its network: its
// interfaces, and their addresses.
func (m *Machiner) SetObservedNetworkConfig(ctx context.Context, args params.SetMachineNetworkConfig) error {
	if _, err := tag.ParseMachineTag(args.Tag); err != nil {
		return err
	}
	var failure *params.Error
	b := common.Bulk[addressed]{Get: common.Entities[addressed](m.finder, "addresses"), Can: m.own}
	err := b.Do(ctx, 1, func(int) string { return args.Tag }, func(_ int, e addressed) error {
		return e.SetInterfaces(ctx, common.Interfaces(args.Config))
	}, func(_ int, err *params.Error) { failure = err })
	switch {
	case err != nil:
		return errors.Trace(err)
	case failure != nil && failure.Code == params.CodeNotFound:
		return common.ErrPerm
	case failure != nil:
		return failure
	}
	return nil
}
