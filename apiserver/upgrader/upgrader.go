// Package upgrader is the facade Upgrader, version 1: which version the agent of a
// machine should run. Each agent may ask about its own machine alone.
package upgrader

import (
	"context"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/apiserver/below"
	"github.com/slipway-project/slipway/apiserver/common"
	"github.com/slipway-project/slipway/core/binaries"
	"github.com/slipway-project/slipway/params"
	"github.com/slipway-project/slipway/state"
)

// agent is what the facade needs of a machine.
type agent interface {
	SetAgentVersion(ctx context.Context, version string) error
}

// Upgrader is the facade of one connection.
type Upgrader struct {
	*common.ToolsGetter

	bulk      common.Bulk[agent]
	config    below.Config
	resources *common.Resources
}

// New returns the facade of a connection.
func New(st *state.State, c common.Connection) (*Upgrader, error) {
	if !c.Auth.AuthMachineAgent() {
		return nil, common.ErrPerm
	}
	own, config := common.AuthSelf(c.Auth), below.Config{State: st}
	tools := common.NewToolsFinder(below.Binaries{Site: below.Site{State: st}})
	return &Upgrader{
		ToolsGetter: common.NewToolsGetter(common.Entities[common.AgentVersioner](st, "agent versions"), config.AgentVersion, tools, own),
		bulk:        common.Bulk[agent]{Get: common.Entities[agent](st, "agent versions"), Can: own, Fresh: true},
		config:      config,
		resources:   c.Resources,
	}, nil
}

// WatchAPIVersion tells when the version that agents should run may have
// changed.
func (u *Upgrader) WatchAPIVersion(ctx context.Context, args params.Entities) (params.NotifyWatchResults, error) {
	results := make([]params.NotifyWatchResult, len(args.Entities))
	err := u.bulk.Do(ctx, len(results), func(i int) string { return args.Entities[i].Tag }, func(i int, _ agent) error {
		w, err := u.config.WatchModelConfig(ctx)
		if err != nil {
			return errors.Trace(err)
		}
		results[i], err = common.RegisterNotify(ctx, u.resources, w)
		return err
	}, func(i int, err *params.Error) { results[i].Error = err })
	return params.NotifyWatchResults{Results: results}, err
}

// DesiredVersion returns the version that agents should run.
func (u *Upgrader) DesiredVersion(ctx context.Context, args params.Entities) (params.VersionResults, error) {
	if len(args.Entities) == 0 {
		return params.VersionResults{}, nil
	}
	settings, err := u.config.Settings(ctx)
	if err != nil {
		return params.VersionResults{}, errors.Trace(err)
	}
	var version string
	if n, ok := settings.AgentVersion(); ok {
		version = n.String()
	}
	results := make([]params.VersionResult, len(args.Entities))
	err = u.bulk.Do(ctx, len(results), func(i int) string { return args.Entities[i].Tag }, func(i int, _ agent) error {
		results[i].Version, results[i].Downgrade = version, settings.AgentDowngrade()
		return nil
	}, func(i int, err *params.Error) { results[i].Error = err })
	return params.VersionResults{Results: results}, err
}

// SetTools records what agents run.
func (u *Upgrader) SetTools(ctx context.Context, args params.SetAgentTools) (params.ErrorResults, error) {
	results := make([]params.ErrorResult, len(args.AgentTools))
	err := u.bulk.Do(ctx, len(results), func(i int) string { return args.AgentTools[i].Tag }, func(i int, a agent) error {
		v, err := binaries.Parse(args.AgentTools[i].Tools.Version)
		if err != nil {
			return err
		}
		return a.SetAgentVersion(ctx, v.String())
	}, func(i int, err *params.Error) { results[i].Error = err })
	return params.ErrorResults{Results: results}, err
}
