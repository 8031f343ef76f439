package apiserver

import (
	"github.com/slipway-project/slipway/apiserver/agent"
	"github.com/slipway-project/slipway/apiserver/annotations"
	"github.com/slipway-project/slipway/apiserver/block"
	"github.com/slipway-project/slipway/apiserver/client"
	"github.com/slipway-project/slipway/apiserver/containers"
	"github.com/slipway-project/slipway/apiserver/controller"
	"github.com/slipway-project/slipway/apiserver/deployer"
	"github.com/slipway-project/slipway/apiserver/hosts"
	"github.com/slipway-project/slipway/apiserver/imagemetadata"
	"github.com/slipway-project/slipway/apiserver/installs"
	"github.com/slipway-project/slipway/apiserver/instancepoller"
	"github.com/slipway-project/slipway/apiserver/keymanager"
	"github.com/slipway-project/slipway/apiserver/machiner"
	"github.com/slipway-project/slipway/apiserver/modelconfig"
	"github.com/slipway-project/slipway/apiserver/modelmanager"
	"github.com/slipway-project/slipway/apiserver/modelworkers"
	"github.com/slipway-project/slipway/apiserver/networks"
	"github.com/slipway-project/slipway/apiserver/pinger"
	"github.com/slipway-project/slipway/apiserver/provisioner"
	"github.com/slipway-project/slipway/apiserver/singular"
	"github.com/slipway-project/slipway/apiserver/statushistory"
	"github.com/slipway-project/slipway/apiserver/storage"
	"github.com/slipway-project/slipway/apiserver/upgrader"
	"github.com/slipway-project/slipway/apiserver/usermanager"
	"github.com/slipway-project/slipway/apiserver/watch"
)

// row is a facade as the table declares it.
type row struct {
	name    string
	version int
	scope   scope // where it can be called
	who     who   // may call it
	objects bool  // whether requests name an object
	make    maker
}

// facades is the table of all facades, by name. Only what is there is listed in the
// answer to a login. Admin, which serves logins, is none of them.
func facades() []row {
	site := controller.Maker{Follow: client.Follow}
	return []row{
		{name: "Agent", version: 2, scope: onModel, who: agents, make: of(agent.New)},
		{name: "AllModelWatcher", version: 2, scope: onController, who: superusers, objects: true, make: stateless(watch.NewAllWatcher)},
		{name: "AllWatcher", version: 1, scope: onModel, who: readers, objects: true, make: stateless(watch.NewAllWatcher)},
		{name: "Annotations", version: 2, scope: onModel, who: readers, make: of(annotations.New)},
		{name: "Block", version: 2, scope: onModel, who: readers, make: of(block.New)},
		{name: "Client", version: 1, scope: onModel, who: readers, make: of(client.New)},
		{name: "Containers", version: 1, scope: onModel, who: agents, make: of(containers.New)},
		{name: "Controller", version: 3, scope: onController, who: people, make: of(site.V3)},
		{name: "Controller", version: 5, scope: onController, who: people, make: of(site.V5)},
		{name: "Deployer", version: 1, scope: onModel, who: agents, make: of(deployer.New)},
		{name: "Hosts", version: 1, scope: onBoth, who: managersAndSuperusers, make: of(hosts.New)},
		{name: "ImageMetadata", version: 2, scope: onModel, who: readers, make: of(imagemetadata.New)},
		{name: "Installs", version: 1, scope: onBoth, who: managersAndSuperusers, make: of(installs.New)},
		{name: "InstancePoller", version: 3, scope: onModel, who: managers, make: of(instancepoller.New)},
		{name: "KeyManager", version: 1, scope: onModel, who: writers, make: of(keymanager.New)},
		{name: "MachineManager", version: 2, scope: onModel, who: writers, make: of(client.NewMachineManager)},
		{name: "Machiner", version: 1, scope: onModel, who: agents, make: of(machiner.New)},
		{name: "ModelConfig", version: 1, scope: onModel, who: writers, make: of(modelconfig.New)},
		{name: "ModelManager", version: 2, scope: onController, who: people, make: of(modelmanager.New)},
		{name: "ModelWorkers", version: 1, scope: onBoth, who: managersAndSuperusers, make: of(modelworkers.New)},
		{name: "NotifyWatcher", version: 1, scope: onModel, who: agents, objects: true, make: stateless(watch.NewNotifyWatcher)},
		{name: "Pinger", version: 1, scope: onBoth, who: anyone, make: stateless(pinger.New)},
		{name: "Provisioner", version: 3, scope: onModel, who: agents, make: of(provisioner.New)},
		{name: "Singular", version: 2, scope: onModel, who: managers, make: of(singular.New)},
		{name: "Spaces", version: 2, scope: onModel, who: readers, make: of(networks.NewSpaces)},
		{name: "StatusHistory", version: 2, scope: onModel, who: readers, make: of(statushistory.New)},
		{name: "Storage", version: 3, scope: onModel, who: readers, make: of(storage.New)},
		{name: "StringsWatcher", version: 1, scope: onModel, who: agents, objects: true, make: stateless(watch.NewStringsWatcher)},
		{name: "Subnets", version: 2, scope: onModel, who: readers, make: of(networks.NewSubnets)},
		{name: "Upgrader", version: 1, scope: onModel, who: agents, make: of(upgrader.New)},
		{name: "UserManager", version: 1, scope: onController, who: people, make: of(usermanager.New)},
	}
}
