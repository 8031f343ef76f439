package provisioner

import (
	"context"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/apiserver/common"
	"github.com/slipway-project/slipway/core/container"
	"github.com/slipway-project/slipway/params"
)

// SetSupportedContainers updates the list of containers supported by the machines
// passed in args.
func (p *ProvisionerAPI) SetSupportedContainers(args params.MachineContainersParams) (params.ErrorResults, error) {
	b := bulk[hostMachine](p, "containers")
	b.Fresh = true
	results := make([]params.ErrorResult, len(args.Params))
	err := b.Do(p.ctx(), len(results), func(i int) string { return args.Params[i].MachineTag }, func(i int, m hostMachine) error {
		types := make([]container.Type, len(args.Params[i].ContainerTypes))
		for n, t := range args.Params[i].ContainerTypes {
			types[n] = container.Type(t)
		}
		if len(types) == 0 {
			return m.SetNoSupportedContainers(p.ctx())
		}
		return m.SetSupportedContainers(p.ctx(), types)
	}, func(i int, err *params.Error) { results[i].Error = err })
	return params.ErrorResults{Results: results}, err
}

// WatchContainers starts a StringsWatcher to watch containers deployed to any
// machine passed in args. An empty type means containers of all types; types are
// not checked.
func (p *ProvisionerAPI) WatchContainers(args params.WatchContainers) (params.StringsWatchResults, error) {
	results := make([]params.StringsWatchResult, len(args.Params))
	err := bulk[hostMachine](p, "containers").Do(p.ctx(), len(results), func(i int) string { return args.Params[i].MachineTag }, func(i int, m hostMachine) error {
		r, err := p.watchContainers(p.ctx(), m, container.Type(args.Params[i].ContainerType))
		results[i] = r
		return err
	}, func(i int, err *params.Error) { results[i].Error = err })
	return params.StringsWatchResults{Results: results}, err
}

func (p *ProvisionerAPI) watchContainers(ctx context.Context, m hostMachine, t container.Type) (params.StringsWatchResult, error) {
	w, err := m.WatchContainers(ctx, t)
	if err != nil {
		return params.StringsWatchResult{}, errors.Trace(err)
	}
	return common.RegisterStrings(ctx, p.resources, w)
}

// WatchAllContainers starts a StringsWatcher to watch all containers deployed to
// any machine passed in args.
func (p *ProvisionerAPI) WatchAllContainers(args params.WatchContainers) (params.StringsWatchResults, error) {
	return p.WatchContainers(args)
}
