package provisioner

import (
	"context"
	"slices"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/core/instance"
	"github.com/slipway-project/slipway/environs/config"
	"github.com/slipway-project/slipway/params"
)

// The keys of tags that every instance carries.
const (
	modelUUIDTag      = "juju-model-uuid"
	controllerUUIDTag = "juju-controller-uuid"
	isControllerTag   = "juju-is-controller"
)

// Series returns the deployed series for each given machine entity.
func (p *ProvisionerAPI) Series(args params.Entities) (params.StringResults, error) {
	results := make([]params.StringResult, len(args.Entities))
	err := bulk[seriesMachine](p, "series").Do(p.ctx(), len(results), texts(args), func(i int, m seriesMachine) error {
		results[i].Result = m.Series()
		return nil
	}, func(i int, err *params.Error) { results[i].Error = err })
	return params.StringResults{Results: results}, err
}

// Constraints returns the constraints for each given machine entity.
func (p *ProvisionerAPI) Constraints(args params.Entities) (params.ConstraintsResults, error) {
	results := make([]params.ConstraintsResult, len(args.Entities))
	err := bulk[constrainedMachine](p, "constraints").Do(p.ctx(), len(results), texts(args), func(i int, m constrainedMachine) error {
		results[i].Constraints = m.Constraints()
		return nil
	}, func(i int, err *params.Error) { results[i].Error = err })
	return params.ConstraintsResults{Results: results}, err
}

// DistributionGroup returns, for each given machine entity, a slice of
// instance.Ids that belong to the same distribution group as that machine. This
// information may be used to distribute instances for high availability.
func (p *ProvisionerAPI) DistributionGroup(args params.Entities) (params.DistributionGroupResults, error) {
	groups := make(map[string][]string) // by name; the managers' is empty
	group := func(m groupedMachine) ([]string, error) {
		name := m.Group()
		switch {
		case m.IsManager():
			name = ""
		case name == "":
			return []string{}, nil
		}
		if ids, ok := groups[name]; ok {
			return ids, nil
		}
		ids, err := p.instances(p.ctx(), name)
		groups[name] = ids
		return ids, err
	}
	results := make([]params.DistributionGroupResult, len(args.Entities))
	err := bulk[groupedMachine](p, "distribution groups").Do(p.ctx(), len(results), texts(args), func(i int, m groupedMachine) (err error) {
		results[i].Result, err = group(m)
		return err
	}, func(i int, err *params.Error) { results[i].Error = err })
	return params.DistributionGroupResults{Results: results}, err
}

// instances returns the instances of a group; an empty name stands for the
// machines that run the site, which keep their order.
func (p *ProvisionerAPI) instances(ctx context.Context, group string) ([]string, error) {
	var ids []instance.ID
	var err error
	if group == "" {
		ids, err = p.backend.Managers(ctx)
	} else if ids, err = p.backend.Group(ctx, group); err == nil {
		ids = slices.Clone(ids)
		slices.Sort(ids)
		ids = slices.Compact(ids)
	}
	if err != nil {
		return nil, errors.Trace(err)
	}
	texts := make([]string, len(ids))
	for i, id := range ids {
		texts[i] = string(id)
	}
	return texts, nil
}

// ProvisioningInfo returns the provisioning information for each given machine
// entity.
func (p *ProvisionerAPI) ProvisioningInfo(args params.Entities) (params.ProvisioningInfoResults, error) {
	var model *modelInfo // read once, when the first machine needs it
	results := make([]params.ProvisioningInfoResult, len(args.Entities))
	err := bulk[wantedMachine](p, "provisioning").Do(p.ctx(), len(results), texts(args), func(i int, m wantedMachine) error {
		if model == nil {
			var err error
			if model, err = p.modelInfo(p.ctx()); err != nil {
				return errors.Trace(err)
			}
		}
		var err error
		results[i].Result, err = model.of(p.ctx(), m)
		return err
	}, func(i int, err *params.Error) { results[i].Error = err })
	return params.ProvisioningInfoResults{Results: results}, err
}

// ControllerConfig returns the settings of the site.
func (p *ProvisionerAPI) ControllerConfig() (params.ModelConfigResult, error) {
	attrs, err := p.backend.ControllerConfig(p.ctx())
	if err != nil {
		return params.ModelConfigResult{}, errors.Trace(err)
	}
	return params.ModelConfigResult{Config: attrs}, nil
}

// ContainerManagerConfig returns information from the environment config that is
// needed for configuring the container manager.
func (p *ProvisionerAPI) ContainerManagerConfig(params.ContainerManagerConfigParams) (params.ContainerManagerConfig, error) {
	return params.ContainerManagerConfig{ManagerConfig: map[string]string{"model-uuid": p.backend.ModelUUID()}}, nil
}

// ContainerConfig returns information from the environment config that is needed
// for container cloud-init.
func (p *ProvisionerAPI) ContainerConfig() (params.ContainerConfig, error) {
	c, err := p.backend.Settings(p.ctx())
	if err != nil {
		return params.ContainerConfig{}, errors.Trace(err)
	}
	apt := proxies(c.AptProxies())
	apt.NoProxy = "" // exceptions are not for packages
	return params.ContainerConfig{
		ProviderType:            c.Type(),
		AuthorizedKeys:          c.AuthorizedKeys(),
		SSLHostnameVerification: c.SSLHostnameVerification(),
		Proxy:                   proxies(c.Proxies()),
		AptProxy:                apt,
		AptMirror:               c.AptMirror(),
		UpdateBehavior: params.UpdateBehavior{
			EnableOSRefreshUpdate: c.EnableOSRefreshUpdate(),
			EnableOSUpgrade:       c.EnableOSUpgrade(),
		},
	}, nil
}

func proxies(p config.Proxies) params.ProxySettings {
	return params.ProxySettings{HTTP: p.HTTP, HTTPS: p.HTTPS, FTP: p.FTP, NoProxy: p.NoProxy}
}
