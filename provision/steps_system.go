package provision

import (
	"context"
	"strings"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/provision/config"
	"github.com/slipway-project/slipway/provision/health"
)

func (o *Orchestrator) reportInit(ctx context.Context) error {
	return o.report(ctx, config.Status{State: config.StateInit, Message: "started"})
}

func (o *Orchestrator) reportSuccess(ctx context.Context) error {
	return o.report(ctx, config.Status{State: config.StateSuccess, Message: "complete"})
}

// collectInventory reports what hardware there is. A machine is not refused because
// it cannot be described.
func (o *Orchestrator) collectInventory(ctx context.Context) error {
	b, err := Inventory(o.disk)
	if err == nil {
		err = o.provider.ReportInventory(ctx, b)
	}
	if errors.Is(err, config.ErrRefused) {
		return err
	}
	if err != nil {
		logger.Warningf("inventory is not reported: %v", err)
	}
	return nil
}

// collectFirmware reports versions, and refuses a machine below the least wanted.
func (o *Orchestrator) collectFirmware(ctx context.Context) error {
	f := readFirmware(o.disk.SysRoot())
	if o.cfg.Firmware.Report {
		if err := o.provider.ReportFirmware(ctx, f.json()); err != nil {
			if errors.Is(err, config.ErrRefused) {
				return err
			}
			logger.Warningf("firmware is not reported: %v", err)
		}
	}
	return f.check(o.cfg.Firmware)
}

// healthChecks runs the checks, reports them, and refuses a machine on which a
// critical one failed.
func (o *Orchestrator) healthChecks(ctx context.Context) error {
	h := o.cfg.Health
	results := health.Run(health.Config{SysRoot: o.disk.SysRoot(), ProcRoot: o.disk.ProcRoot(), MinMemoryMiB: h.MinMemoryMiB, MinCPUs: h.MinCPUs, Skip: h.Skip})
	if r, ok := o.provider.(HealthReporter); ok {
		if err := r.ReportHealthChecks(ctx, results); err != nil {
			if errors.Is(err, config.ErrRefused) {
				return err
			}
			logger.Warningf("health checks are not reported: %v", err)
		}
	}
	var bad []string
	for _, r := range results {
		if r.Status == health.Fail {
			logger.Warningf("health check %s: %s %s", r.Name, r.Message, r.Details)
		}
		if r.Stops() {
			bad = append(bad, r.Name+" ("+r.Message+")")
		}
	}
	if len(bad) > 0 {
		return errors.NewNotValid(nil, "machine failed its health checks: "+strings.Join(bad, "; "))
	}
	return nil
}

func (o *Orchestrator) copyProvisionerFiles(context.Context) error {
	return o.system.CopyProvisionerFiles()
}

func (o *Orchestrator) setHostname(context.Context) error { return o.system.SetHostname(o.cfg) }

func (o *Orchestrator) configureDNS(context.Context) error { return o.system.ConfigureDNS(o.cfg) }

func (o *Orchestrator) configureKubelet(context.Context) error {
	return o.system.ConfigureKubelet(o.cfg)
}

func (o *Orchestrator) configureGRUB(ctx context.Context) error {
	return o.system.ConfigureGRUB(ctx, o.cfg)
}

func (o *Orchestrator) injectCloudInit(context.Context) error {
	return o.system.InjectCloudInit(o.cfg)
}

// copyMachineFiles copies what was brought along, then what the config holds.
func (o *Orchestrator) copyMachineFiles(context.Context) error {
	if err := o.system.CopyMachineFiles(); err != nil {
		return err
	}
	return o.system.WriteFiles(o.cfg.Files)
}

func (o *Orchestrator) runMachineCommands(ctx context.Context) error {
	if err := o.system.RunMachineCommands(ctx); err != nil {
		return err
	}
	return o.system.RunScripts(ctx, o.cfg.Commands)
}

func (o *Orchestrator) runPostCommands(ctx context.Context) error {
	return o.system.RunPostProvisionCmds(ctx, o.cfg.PostCmds)
}

func (o *Orchestrator) setupMellanox(ctx context.Context) error {
	changed, err := o.system.SetupMellanox(ctx, o.cfg.VirtualFns)
	o.facts().FirmwareChanged = o.facts().FirmwareChanged || changed
	return err
}

func (o *Orchestrator) removeEFIEntries(ctx context.Context) error {
	return o.system.RemoveEFIBootEntries(ctx)
}

func (o *Orchestrator) createEFIEntry(ctx context.Context) error {
	i, err := o.target()
	if err != nil {
		return err
	}
	return o.system.CreateEFIBootEntry(ctx, i.Path, o.facts().ESP)
}

// prepareKexec loads the installed kernel while its file system is still mounted.
// Changed firmware settings want a cold start. What cannot be loaded is left to the firmware.
func (o *Orchestrator) prepareKexec(context.Context) error {
	if o.facts().FirmwareChanged {
		logger.Infof("no kexec: firmware settings changed, which needs a cold start")
		return nil
	}
	if o.opts.Kexec == nil {
		return nil
	}
	entry, err := o.system.defaultKernel()
	if err == nil {
		err = o.opts.Kexec.Load(entry.kernel, entry.initrd, entry.options)
	}
	if err != nil {
		logger.Warningf("no kexec, the machine reboots: %v", err)
		return nil
	}
	o.facts().Kexec = true
	return nil
}
