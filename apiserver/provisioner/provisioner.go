package provisioner

import (
	"context"
	"time"

	"github.com/slipway-project/slipway/apiserver/common"
	"github.com/slipway-project/slipway/core/tag"
	"github.com/slipway-project/slipway/params"
)

// MACAddressTemplate makes the MAC address of a container from three random
// bytes.
const MACAddressTemplate = "00:16:3e:%02x:%02x:%02x"

// ErrorRetryWaitDelay is the time between two events of a retry watcher. It is
// read when the watcher is made.
var ErrorRetryWaitDelay = 1 * time.Minute

// ProvisionerAPI provides access to the Provisioner API facade.
type ProvisionerAPI struct {
	*common.Remover
	*common.StatusSetter
	*common.StatusGetter
	*common.DeadEnsurer
	*common.PasswordChanger
	*common.LifeGetter
	*common.StateAddresser
	*common.APIAddresser
	*common.ModelWatcher
	*common.ModelMachinesWatcher
	*common.InstanceIdGetter
	*common.ToolsFinder
	*common.ToolsGetter

	backend    Backend
	finder     common.EntityFinder
	resources  *common.Resources
	authorizer common.Authorizer
	can        common.GetAuthFunc
}

// newAPI returns the facade over what is below it. It returns ErrPerm for
// callers that are not agents.
func newAPI(below Below, resources *common.Resources, authorizer common.Authorizer) (*ProvisionerAPI, error) {
	if !authorizer.AuthMachineAgent() && !authorizer.AuthModelManager() {
		return nil, common.ErrPerm
	}
	f, can := below.Finder, common.AuthMachines(authorizer)
	tools := common.NewToolsFinder(below.Binaries)
	return &ProvisionerAPI{
		Remover:              common.NewRemover(common.Entities[common.Removable](f, "removal"), false, can),
		StatusSetter:         common.NewStatusSetter(common.Entities[common.StatusHolder](f, "setting status"), can),
		StatusGetter:         common.NewStatusGetter(common.Entities[common.Statuser](f, "getting status"), can),
		DeadEnsurer:          common.NewDeadEnsurer(common.Entities[common.Deadener](f, "ensuring death"), can),
		PasswordChanger:      common.NewPasswordChanger(common.Entities[common.PasswordSetter](f, "passwords"), can),
		LifeGetter:           common.NewLifeGetter(common.Entities[common.Lifer](f, "life cycles"), can),
		StateAddresser:       common.NewStateAddresser(below.StateAddresses),
		APIAddresser:         common.NewAPIAddresser(below.Addresses, resources),
		ModelWatcher:         common.NewModelWatcher(below.Config, resources),
		ModelMachinesWatcher: common.NewModelMachinesWatcher(below.WatchMachines, resources, authorizer),
		InstanceIdGetter:     common.NewInstanceIdGetter(common.Entities[common.InstanceIder](f, "instances"), can),
		ToolsFinder:          tools,
		ToolsGetter: common.NewToolsGetter(common.Entities[common.AgentVersioner](f, "agent versions"),
			below.AgentVersion, tools, common.AuthSelf(authorizer)),
		backend:    below.Backend,
		finder:     f,
		resources:  resources,
		authorizer: authorizer,
		can:        can,
	}, nil
}

// bulk returns a call about machines, for those that the caller may touch.
func bulk[E any](p *ProvisionerAPI, what string) common.Bulk[E] {
	return common.Bulk[E]{Get: common.Entities[E](p.finder, what), Can: p.can}
}

// machinesOnly is bulk for the methods that say what is wrong with a tag, and
// take machines' tags alone.
func machinesOnly[E any](p *ProvisionerAPI, what string) common.Bulk[E] {
	b := bulk[E](p, what)
	b.Parse = common.ParseMachine
	return b
}

// ctx ends with the connection.
func (p *ProvisionerAPI) ctx() context.Context { return p.resources.Context() }

// texts returns the function that Bulk.Do reads the tags of args with.
func texts(args params.Entities) func(i int) string {
	return func(i int) string { return args.Entities[i].Tag }
}

// machineTag returns the tag of the machine with that id.
func machineTag(id string) tag.Tag { return tag.NewMachineTag(id) }
