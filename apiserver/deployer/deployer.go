// Package deployer is the facade Deployer, version 1: what the agent of a machine
// asks for the units that it is to run. There are no units here, so each agent
// hears that its machine has none, and whatever it asks about a unit is denied,
// as it would be about a unit of another machine. It is there because
// agents of this generation will not live without it.
package deployer

import (
	"context"
	"sync"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/apiserver/common"
	"github.com/slipway-project/slipway/core/tag"
	"github.com/slipway-project/slipway/params"
	"github.com/slipway-project/slipway/watcher"
)

// Below is everything that the facade is built on.
type Below struct {
	Finder         common.EntityFinder
	Addresses      common.APIAddresses
	StateAddresses func(ctx context.Context) ([]string, error)
}

// Deployer is the facade of one connection.
type Deployer struct {
	*common.APIAddresser
	*common.LifeGetter
	*common.PasswordChanger
	*common.Remover
	*common.StateAddresser
	*common.StatusSetter

	units     common.Bulk[lives]
	resources *common.Resources
}

// lives is anything that has a life.
type lives = common.Lifer

// newDeployer returns the facade, or ErrPerm if the caller is no machine's agent.
func newDeployer(below Below, c common.Connection) (*Deployer, error) {
	if !c.Auth.AuthMachineAgent() {
		return nil, common.ErrPerm
	}
	f := below.Finder
	return &Deployer{
		APIAddresser:    common.NewAPIAddresser(below.Addresses, c.Resources),
		LifeGetter:      common.NewLifeGetter(common.Entities[common.Lifer](f, "life cycles"), ofMachine),
		PasswordChanger: common.NewPasswordChanger(common.Entities[common.PasswordSetter](f, "passwords"), ofMachine),
		Remover:         common.NewRemover(common.Entities[common.Removable](f, "removal"), true, ofMachine),
		StateAddresser:  common.NewStateAddresser(below.StateAddresses),
		StatusSetter:    common.NewStatusSetter(common.Entities[common.StatusHolder](f, "setting status"), ofMachine),
		units:           common.Bulk[lives]{Get: common.Entities[common.Lifer](f, "units"), Can: common.AuthSelf(c.Auth)},
		resources:       c.Resources,
	}, nil
}

// ofMachine reports which entities are units of the caller's machine: none.
func ofMachine() (common.AuthFunc, error) {
	return func(tag.Tag) bool { return false }, nil
}

// WatchUnits tells which units machines are to run. Each agent may ask about its own
// machine alone.
func (d *Deployer) WatchUnits(ctx context.Context, args params.Entities) (params.StringsWatchResults, error) {
	results := make([]params.StringsWatchResult, len(args.Entities))
	err := d.units.Do(ctx, len(results), func(i int) string { return args.Entities[i].Tag }, func(i int, _ lives) (err error) {
		results[i], err = common.RegisterStrings(ctx, d.resources, newNone())
		return err
	}, func(i int, err *params.Error) { results[i].Error = err })
	return params.StringsWatchResults{Results: results}, err
}

// ConnectionInfo returns where the site can be reached.
func (d *Deployer) ConnectionInfo(ctx context.Context) (params.DeployerConnectionValues, error) {
	api, err := d.APIAddresses(ctx)
	if err != nil {
		return params.DeployerConnectionValues{}, errors.Trace(err)
	}
	state, err := d.StateAddresses(ctx)
	if err != nil {
		return params.DeployerConnectionValues{}, errors.Trace(err)
	}
	return params.DeployerConnectionValues{StateAddresses: state.Result, APIAddresses: api.Result}, nil
}

// none is a watcher of nothing: after its first event, which is empty, nothing
// happens until it is killed.
type none struct {
	out  chan []string
	once sync.Once
	done chan struct{}
}

var _ watcher.StringsWatcher = (*none)(nil)

func newNone() *none {
	n := &none{out: make(chan []string, 1), done: make(chan struct{})}
	n.out <- []string{}
	return n
}

// Changes implements watcher.StringsWatcher.
func (n *none) Changes() <-chan []string { return n.out }

// Kill implements watcher.Watcher.
func (n *none) Kill() {
	n.once.Do(func() {
		close(n.done)
		close(n.out)
	})
}

// Wait implements watcher.Watcher.
func (n *none) Wait() error {
	<-n.done
	return nil
}
