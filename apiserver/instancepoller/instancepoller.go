// Package instancepoller is the facade InstancePoller, version 3: what whoever
// watches a provider's instances asks of their machines, and tells of them. It is
// for managers alone, about any machine of the model.
package instancepoller

import (
	"context"
	"strings"
	"time"

	"github.com/slipway-project/slipway/apiserver/common"
	"github.com/slipway-project/slipway/core/network"
	"github.com/slipway-project/slipway/core/status"
	"github.com/slipway-project/slipway/core/tag"
	"github.com/slipway-project/slipway/params"
	"github.com/slipway-project/slipway/watcher"
)

// manual is how the nonce begins of a machine that somebody set up by hand.
const manual = "manual:"

// Below is everything that the facade is built on.
type Below struct {
	Finder        common.EntityFinder
	Config        common.ModelConfigs
	WatchMachines func(ctx context.Context) (watcher.StringsWatcher, error)
}

// Each of these is what one kind of method needs of a machine.
type (
	addressed interface {
		ProviderAddresses() []network.Address
		SetProviderAddresses(ctx context.Context, addresses []network.Address) error
	}

	instanced interface {
		InstanceStatus() status.Info
		SetInstanceStatus(ctx context.Context, s status.Info) error
	}

	started interface {
		Nonce() string
	}
)

// InstancePoller is the facade of one connection.
type InstancePoller struct {
	*common.LifeGetter
	*common.ModelWatcher
	*common.ModelMachinesWatcher
	*common.InstanceIdGetter
	*common.StatusGetter

	finder common.EntityFinder
}

// newPoller returns the facade, or ErrPerm if the caller is no manager.
func newPoller(below Below, c common.Connection) (*InstancePoller, error) {
	if !c.Auth.AuthModelManager() {
		return nil, common.ErrPerm
	}
	f := below.Finder
	return &InstancePoller{
		LifeGetter:           common.NewLifeGetter(common.Entities[common.Lifer](f, "life cycles"), anyMachine),
		ModelWatcher:         common.NewModelWatcher(below.Config, c.Resources),
		ModelMachinesWatcher: common.NewModelMachinesWatcher(below.WatchMachines, c.Resources, c.Auth),
		InstanceIdGetter:     common.NewInstanceIdGetter(common.Entities[common.InstanceIder](f, "instances"), anyMachine),
		StatusGetter:         common.NewStatusGetter(common.Entities[common.Statuser](f, "getting status"), anyMachine),
		finder:               f,
	}, nil
}

// anyMachine lets managers touch every machine and container of the model.
func anyMachine() (common.AuthFunc, error) {
	return func(t tag.Tag) bool { return t.Kind() == tag.MachineKind }, nil
}

// bulk returns a call about machines.
func bulk[E any](p *InstancePoller, what string) common.Bulk[E] {
	return common.Bulk[E]{Get: common.Entities[E](p.finder, what), Can: anyMachine}
}

// ProviderAddresses returns the addresses that the provider knows of machines.
func (p *InstancePoller) ProviderAddresses(ctx context.Context, args params.Entities) (params.MachineAddressesResults, error) {
	results := make([]params.MachineAddressesResult, len(args.Entities))
	err := bulk[addressed](p, "addresses").Do(ctx, len(results), func(i int) string { return args.Entities[i].Tag }, func(i int, m addressed) error {
		if results[i].Addresses = m.ProviderAddresses(); results[i].Addresses == nil {
			results[i].Addresses = []network.Address{}
		}
		return nil
	}, func(i int, err *params.Error) { results[i].Error = err })
	return params.MachineAddressesResults{Results: results}, err
}

// SetProviderAddresses records the addresses that the provider knows of machines.
func (p *InstancePoller) SetProviderAddresses(ctx context.Context, args params.SetMachinesAddresses) (params.ErrorResults, error) {
	results := make([]params.ErrorResult, len(args.MachineAddresses))
	b := bulk[addressed](p, "addresses")
	b.Fresh = true
	err := b.Do(ctx, len(results), func(i int) string { return args.MachineAddresses[i].Tag }, func(i int, m addressed) error {
		return m.SetProviderAddresses(ctx, common.CompleteAddresses(args.MachineAddresses[i].Addresses))
	}, func(i int, err *params.Error) { results[i].Error = err })
	return params.ErrorResults{Results: results}, err
}

// InstanceStatus returns the statuses of machines' instances.
func (p *InstancePoller) InstanceStatus(ctx context.Context, args params.Entities) (params.StatusResults, error) {
	results := make([]params.StatusResult, len(args.Entities))
	err := bulk[instanced](p, "instances").Do(ctx, len(results), func(i int) string { return args.Entities[i].Tag }, func(i int, m instanced) error {
		results[i] = common.StatusResult(m.InstanceStatus())
		return nil
	}, func(i int, err *params.Error) { results[i].Error = err })
	return params.StatusResults{Results: results}, err
}

// SetInstanceStatus records the statuses of machines' instances; any text will
// do.
func (p *InstancePoller) SetInstanceStatus(ctx context.Context, args params.SetStatus) (params.ErrorResults, error) {
	now := time.Now()
	results := make([]params.ErrorResult, len(args.Entities))
	b := bulk[instanced](p, "instances")
	b.Fresh = true
	err := b.Do(ctx, len(results), func(i int) string { return args.Entities[i].Tag }, func(i int, m instanced) error {
		a := args.Entities[i]
		return m.SetInstanceStatus(ctx, status.Info{Status: status.Status(a.Status), Message: a.Info, Data: a.Data, Since: now})
	}, func(i int, err *params.Error) { results[i].Error = err })
	return params.ErrorResults{Results: results}, err
}

// AreManuallyProvisioned reports which machines somebody set up by hand.
func (p *InstancePoller) AreManuallyProvisioned(ctx context.Context, args params.Entities) (params.BoolResults, error) {
	results := make([]params.BoolResult, len(args.Entities))
	err := bulk[started](p, "provisioning").Do(ctx, len(results), func(i int) string { return args.Entities[i].Tag }, func(i int, m started) error {
		results[i].Result = strings.HasPrefix(m.Nonce(), manual)
		return nil
	}, func(i int, err *params.Error) { results[i].Error = err })
	return params.BoolResults{Results: results}, err
}
