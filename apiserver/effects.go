package apiserver

import "strings"

// effect is what a method does to the state.
type effect int

// The effects of methods. A method that nothing is known of counts as one that
// writes.
const (
	unknown effect = iota
	reads          // and what it makes is gone with the connection, such as a watcher
	waits          // reads, once there is something new
	writes
)

// effectsRow is what some methods of a facade do, in any of its versions.
type effectsRow struct {
	facade  string
	effect  effect
	methods string // separated by blanks
}

// effects is the table of what methods do to the state, by facade as in the
// table of facades. Those that write are recorded in the audit log.
func effects() []effectsRow {
	return []effectsRow{
		{"Agent", reads, "GetEntities"},
		{"Agent", writes, "ClearReboot SetPasswords"},
		{"AllModelWatcher", reads, "Stop"},
		{"AllModelWatcher", waits, "Next"},
		{"AllWatcher", reads, "Stop"},
		{"AllWatcher", waits, "Next"},
		{"Annotations", reads, "Get"},
		{"Annotations", writes, "Set"},
		{"Block", reads, "List"},
		{"Block", writes, "SwitchBlockOff SwitchBlockOn"},
		{"Client", reads, "APIHostPorts AgentVersion FullStatus GetModelConstraints ModelInfo WatchAll"},
		{"Client", writes, "AddMachines AddMachinesV2 DestroyMachines InjectMachines RetryProvisioning SetModelAgentVersion SetModelConstraints"},
		{"Containers", reads, "WatchRetries"},
		{"Controller", reads, "AllModels ControllerConfig GetControllerAccess ListBlockedModels ModelConfig ModelStatus WatchAllModels"},
		{"Controller", writes, "ConfigSet ModifyControllerAccess RemoveBlocks"},
		{"Deployer", reads, "APIAddresses APIHostPorts CACert ConnectionInfo Life ModelUUID StateAddresses WatchAPIHostPorts WatchUnits"},
		{"Deployer", writes, "Remove SetPasswords SetStatus UpdateStatus"},
		{"Hosts", reads, "Consumed Data List Managed Watch WatchConsumed Zones"},
		{"Hosts", writes, "Add Allocate Do Forget Intend Release Save SetCredentials"},
		{"ImageMetadata", reads, "List"},
		{"ImageMetadata", writes, "Delete Save"},
		{"Installs", reads, "Show Status Watch"},
		{"Installs", waits, "Log"},
		{"Installs", writes, "Cancel Mark Renew Start"},
		{"InstancePoller", reads, `AreManuallyProvisioned InstanceId InstanceStatus Life ModelConfig ProviderAddresses Status
			WatchForModelConfigChanges WatchModelMachines`},
		{"InstancePoller", writes, "SetInstanceStatus SetProviderAddresses"},
		{"KeyManager", reads, "ListKeys"},
		{"KeyManager", writes, "AddKeys DeleteKeys"},
		{"MachineManager", writes, "AddMachines"},
		{"Machiner", reads, "APIAddresses APIHostPorts CACert Jobs Life ModelUUID Watch WatchAPIHostPorts"},
		{"Machiner", writes, "EnsureDead SetMachineAddresses SetObservedNetworkConfig SetProviderNetworkConfig SetStatus UpdateStatus"},
		{"ModelConfig", reads, "ModelGet"},
		{"ModelConfig", writes, "ModelSet ModelUnset"},
		{"ModelManager", reads, "ListModels ModelInfo"},
		{"ModelManager", writes, "CreateModel DestroyModels ModifyModelAccess"},
		{"ModelWorkers", reads, "WatchModels"},
		{"ModelWorkers", writes, "AddWorkers RemoveWorkers"},
		{"NotifyWatcher", reads, "Stop"},
		{"NotifyWatcher", waits, "Next"},
		{"Pinger", reads, "Ping Stop"},
		{"Provisioner", reads, `APIAddresses APIHostPorts CACert Constraints ContainerConfig ContainerManagerConfig
			ControllerConfig DistributionGroup FindTools GetContainerInterfaceInfo InstanceId InstanceStatus Life
			MachinesWithTransientErrors ModelConfig ModelUUID ProvisioningInfo Series StateAddresses Status Tools
			WatchAPIHostPorts WatchAllContainers WatchContainers WatchForModelConfigChanges WatchMachineErrorRetry
			WatchModelMachines`},
		{"Provisioner", writes, `EnsureDead MarkMachinesForRemoval PrepareContainerInterfaceInfo ReleaseContainerAddresses
			Remove SetInstanceInfo SetInstanceStatus SetPasswords SetStatus SetSupportedContainers UpdateStatus`},
		{"Singular", reads, "Claim Release"}, // leases run out by themselves, and are renewed all the time
		{"Singular", waits, "Wait"},
		{"Spaces", reads, "ListSpaces"},
		{"Spaces", writes, "CreateSpaces"},
		{"StatusHistory", reads, "StatusHistory"},
		{"Storage", reads, "ListPools"},
		{"Storage", writes, "CreatePool RemovePool"},
		{"StringsWatcher", reads, "Stop"},
		{"StringsWatcher", waits, "Next"},
		{"Subnets", reads, "ListSubnets"},
		{"Subnets", writes, "AddSubnets"},
		{"Upgrader", reads, "DesiredVersion Tools WatchAPIVersion"},
		{"Upgrader", writes, "SetTools"},
		{"UserManager", reads, "UserInfo"},
		{"UserManager", writes, "AddUser DisableUser EnableUser SetPassword"},
	}
}

// despite is the table of the methods that are carried out though changes are
// switched off in the model, each with the reason. Every other method of people
// that writes, on a connection to a model, is refused then: see root.heedBlocks.
func despite() map[string]string {
	const ofTheSite = "hosts are the site's, not the model's"
	return map[string]string{
		"Block.SwitchBlockOff":   "changes are switched on again with it",
		"Block.SwitchBlockOn":    "further kinds of operations are switched off with it",
		"Client.DestroyMachines": "it looks for itself: there is a block of removals alone, and force heeds none",
		"Hosts.Add":              ofTheSite,
		"Hosts.Do":               ofTheSite,
		"Hosts.SetCredentials":   ofTheSite,
	}
}

// effectsOf returns what the methods of a facade do, by name.
func effectsOf(table []effectsRow, facade string) map[string]effect {
	out := make(map[string]effect)
	for _, row := range table {
		if row.facade != facade {
			continue
		}
		for _, m := range strings.Fields(row.methods) {
			out[m] = row.effect
		}
	}
	return out
}
