package provision

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"io"
	"path/filepath"
	"runtime"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/provision/config"
	"github.com/slipway-project/slipway/provision/disk"
	"github.com/slipway-project/slipway/provision/health"
	"github.com/slipway-project/slipway/provision/image"
)

// HealthReporter is an optional provider capability for reporting health check results.
type HealthReporter interface {
	ReportHealthChecks(context.Context, []health.CheckResult) error
}

// Images finds and writes images.
type Images interface {
	// Check returns the first of the image's URLs that can be had, and the size of
	// the content in bytes, 0 if that is not known yet. It reads no more than it must.
	Check(ctx context.Context, image config.Image) (url string, size int64, err error)
	// Write writes the image's content to target and verifies it. Unless it returns nil,
	// nothing on target can be booted.
	Write(ctx context.Context, image config.Image, target image.Target) (image.Result, error)
}

var _ Images = (*image.Writer)(nil)

// KexecLoader loads a kernel to be started later. It returns an error satisfying
// errors.NotSupported if the machine's kernel cannot.
type KexecLoader interface {
	Load(kernel, initrd, commandLine string) error
}

// Options say where and how an Orchestrator works. The zero value is right on a
// machine that is being installed.
type Options struct {
	Root       string        // where the installed system is mounted; "" means /newroot
	Deploy     string        // files brought along; "" means /deploy
	Checkpoint string        // file to resume from; "" keeps none
	Images     Images        // nil means an image.Writer with its defaults
	Kexec      KexecLoader   // nil never loads a kernel
	Arch       string        // of the machine, as Go names it; "" means this program's
	Random     io.Reader     // GUIDs of a layout; nil means crypto/rand
	Heartbeat  time.Duration // between heartbeats; 0 means 30 seconds
}

// Orchestrator runs the full provisioning pipeline.
type Orchestrator struct {
	cfg      *config.MachineConfig
	provider config.Provider
	disk     *disk.Manager
	opts     Options
	system   *Configurator
	save     *checkpoint
	total    int // steps of the list that runs
}

// NewOrchestrator creates an Orchestrator with the given dependencies. Call
// SetOptions before Provision.
func NewOrchestrator(cfg *config.MachineConfig, provider config.Provider, diskMgr *disk.Manager) *Orchestrator {
	o := &Orchestrator{cfg: cfg, provider: provider, disk: diskMgr}
	o.SetOptions(Options{})
	return o
}

// SetOptions replaces the options. It must not be called while a run is under way.
func (o *Orchestrator) SetOptions(opts Options) {
	if opts.Root == "" {
		opts.Root = "/newroot"
	}
	if opts.Deploy == "" {
		opts.Deploy = "/deploy"
	}
	if opts.Arch == "" {
		opts.Arch = runtime.GOARCH
	}
	if opts.Images == nil {
		opts.Images = image.NewWriter(image.Config{Arch: opts.Arch})
	}
	if opts.Random == nil {
		opts.Random = rand.Reader
	}
	if opts.Heartbeat <= 0 {
		opts.Heartbeat = 30 * time.Second
	}
	o.opts = opts
	o.system = NewConfigurator(o.disk)
	o.system.SetRootDir(opts.Root)
	o.system.SetDeployDir(opts.Deploy)
	o.system.SetEFILabel(o.cfg.Label())
	o.system.arch = opts.Arch
	o.save = loadCheckpoint(opts.Checkpoint, o.cfg)
}

// FirmwareChanged reports whether any provisioning step changed firmware values that
// require a hard reboot (not kexec) to reinitialize.
func (o *Orchestrator) FirmwareChanged() bool { return o.facts().FirmwareChanged }

// KexecLoaded reports whether a kernel is loaded to jump to.
func (o *Orchestrator) KexecLoaded() bool { return o.facts().Kexec && !o.FirmwareChanged() }

// facts returns what the steps share.
func (o *Orchestrator) facts() *Facts { return &o.save.Facts }

// Provision runs all provisioning steps sequentially. In mode dry-run it prints
// the plan instead, and touches nothing.
//
// A step that fails ends the run: everything mounted is unmounted, the state of the machine is
// logged, the failure is reported, and Provision returns an error that names the step.
// Called again, it goes on after the last step that was done, if there is a checkpoint.
func (o *Orchestrator) Provision(ctx context.Context) error {
	if err := o.cfg.Validate(); err != nil {
		return errors.Annotate(err, "cannot provision")
	}
	if o.cfg.Mode == config.ModeDryRun {
		return o.dryRun(ctx)
	}
	return errors.Annotate(o.run(ctx, "provision", o.provisionSteps()), "cannot provision")
}

// Deprovision runs the deprovisioning pipeline. Mode "soft-deprovision" renames the boot
// loader's configuration on the recorded disk, which makes the system unbootable and keeps its
// data. Any other mode (hard) wipes every disk that is neither removable nor the boot medium nor listed
// in keep-disks, after naming each by its serial number, and removes the EFI boot entries that
// led to them.
func (o *Orchestrator) Deprovision(ctx context.Context) error {
	c := *o.cfg
	if c.Mode != config.ModeSoftDeprovision {
		c.Mode = config.ModeDeprovision // which asks for no image
	}
	if err := c.Validate(); err != nil {
		return errors.Annotate(err, "cannot deprovision")
	}
	if o.cfg.Mode == config.ModeSoftDeprovision {
		return errors.Annotate(o.run(ctx, "deprovision", o.softSteps()), "cannot deprovision")
	}
	return errors.Annotate(o.run(ctx, "deprovision", o.hardSteps()), "cannot deprovision")
}

// report sends one status with the facts as they are.
func (o *Orchestrator) report(ctx context.Context, s config.Status) error {
	s.Total = o.total
	if b, err := json.Marshal(o.facts()); err == nil {
		s.Facts = b
	}
	return o.provider.ReportStatus(ctx, s)
}

// efivars returns where the firmware's variables are mounted.
func (o *Orchestrator) efivars() string {
	return filepath.Join(o.disk.SysRoot(), "firmware", "efi", "efivars")
}
