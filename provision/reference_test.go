package provision_test

import (
	"context"

	"github.com/slipway-project/slipway/provision"
	"github.com/slipway-project/slipway/provision/config"
	"github.com/slipway-project/slipway/provision/disk"
	"github.com/slipway-project/slipway/provision/health"
)

// These lines compile only while the documented names have the documented signatures.
var (
	_ func(string)                                                                         = provision.DumpDebugState
	_ func(func(string) (bool, error)) func()                                              = provision.SetPCIVendorCheckFunc
	_ func(*disk.Manager) *provision.Configurator                                          = provision.NewConfigurator
	_ func(*provision.Configurator, *config.MachineConfig) error                           = (*provision.Configurator).ConfigureDNS
	_ func(*provision.Configurator, context.Context, *config.MachineConfig) error          = (*provision.Configurator).ConfigureGRUB
	_ func(*provision.Configurator, *config.MachineConfig) error                           = (*provision.Configurator).ConfigureKubelet
	_ func(*provision.Configurator) error                                                  = (*provision.Configurator).CopyMachineFiles
	_ func(*provision.Configurator) error                                                  = (*provision.Configurator).CopyProvisionerFiles
	_ func(c *provision.Configurator, ctx context.Context, diskDev, bootPart string) error = (*provision.Configurator).CreateEFIBootEntry
	_ func(*provision.Configurator, context.Context) error                                 = (*provision.Configurator).RemoveEFIBootEntries
	_ func(*provision.Configurator, context.Context) error                                 = (*provision.Configurator).RunMachineCommands
	_ func(*provision.Configurator, context.Context, []string) error                       = (*provision.Configurator).RunPostProvisionCmds
	_ func(*provision.Configurator, *config.MachineConfig) error                           = (*provision.Configurator).SetHostname
	_ func(*provision.Configurator, string)                                                = (*provision.Configurator).SetRootDir
	_ func(*provision.Configurator, context.Context, int) (bool, error)                    = (*provision.Configurator).SetupMellanox

	_ func(*config.MachineConfig, config.Provider, *disk.Manager) *provision.Orchestrator = provision.NewOrchestrator
	_ func(*provision.Orchestrator, context.Context) error                                = (*provision.Orchestrator).Deprovision
	_ func(*provision.Orchestrator) bool                                                  = (*provision.Orchestrator).FirmwareChanged
	_ func(*provision.Orchestrator, context.Context) error                                = (*provision.Orchestrator).Provision

	_ = provision.Step{Name: "", Fn: func(context.Context) error { return nil }}
)

// reporter has just the documented method.
type reporter struct{}

func (reporter) ReportHealthChecks(context.Context, []health.CheckResult) error { return nil }

var (
	_ provision.HealthReporter = reporter{}
	_ provision.HealthReporter = (*config.Client)(nil)
)
