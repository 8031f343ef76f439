package main

import (
	"context"
	"crypto/ed25519"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/juju/errors"
	"github.com/juju/loggo"

	"github.com/slipway-project/slipway/provision"
	"github.com/slipway-project/slipway/provision/config"
	"github.com/slipway-project/slipway/provision/disk"
	"github.com/slipway-project/slipway/provision/image"
	"github.com/slipway-project/slipway/provision/media"
	"github.com/slipway-project/slipway/provision/netup"
	"github.com/slipway-project/slipway/provision/pid1"
)

var logger = loggo.GetLogger("slipway.installer")

const (
	// maxRetries is how often rescue mode retry runs the pipeline again.
	maxRetries = 3
	// retryPause is between those.
	retryPause = 30 * time.Second
	// failPause is between a failure and the end of a machine, so that a fault that
	// comes back at once does not make it restart without a rest.
	failPause = 30 * time.Second
	// rescueTimeout is how long a rescue shell or a wait lasts unless told.
	rescueTimeout = 30 * time.Minute
	// feedEvery is how often the watchdog is fed.
	feedEvery = 15 * time.Second
)

// installer is a machine that is being installed.
type installer struct {
	root   string // "/", but in a test
	kernel pid1.Kernel
	loader provision.KexecLoader
	links  netup.Links
	disks  disk.Config
	reap   func(pid int)
	shell  func(ctx context.Context) error
	quick  time.Duration // replaces pauses, and waits that nothing ends, in a test; 0 does not

	wg  sync.WaitGroup
	log *pid1.LogWriter
}

// limit returns a wait, or the test's.
func (i *installer) limit(d time.Duration) time.Duration {
	if i.quick > 0 {
		return i.quick
	}
	return d
}

// install does everything and returns how the machine is to leave.
func (i *installer) install(ctx context.Context) pid1.End {
	if err := i.early(); err != nil {
		logger.Errorf("%v", err)
		return pid1.Reboot
	}
	background, stop := context.WithCancel(ctx)
	defer func() {
		stop()
		i.wg.Wait()
	}()
	i.wg.Go(func() { pid1.NewReaper(i.disks.ProcRoot, 1, i.reap).Run(background) })
	i.loadModules()
	dog := i.watch()
	end, err := i.order(ctx, background)
	switch {
	case errors.Is(err, config.ErrRefused):
		logger.Errorf("the controller does not want this boot: %v", err)
		end = pid1.PowerOff
	case err != nil:
		logger.Errorf("%v", err)
		pause(ctx, i.limit(failPause))
	}
	if dog != nil {
		dog.Stop(end != pid1.Kexec && err == nil)
	}
	return end
}

// early makes the machine able to run programs and show a log.
func (i *installer) early() error {
	if err := pid1.MountAll(i.kernel, i.root); err != nil {
		return err
	}
	var consoles []io.Writer
	if f, err := os.OpenFile(filepath.Join(i.root, "dev/console"), os.O_WRONLY, 0); err == nil {
		consoles = append(consoles, f)
	}
	i.log = pid1.NewLogWriter(consoles...)
	loggo.GetLogger("slipway").SetLogLevel(loggo.INFO)
	if _, err := loggo.ReplaceDefaultWriter(i.log); err != nil {
		return errors.Annotate(err, "cannot set up log")
	}
	logger.Infof("installer %s", version)
	// There is no udev here: LVM has to make the nodes of volumes itself (libdevmapper's
	// DM_DISABLE_UDEV), or it waits for what never comes and finds no volume.
	if err := os.Setenv("DM_DISABLE_UDEV", "1"); err != nil {
		return errors.Annotate(err, "cannot set up LVM")
	}
	return errors.Annotate(os.Setenv("PATH", "/bin:/sbin:/usr/bin:/usr/sbin"), "cannot set PATH")
}

// loadModules loads drivers.
func (i *installer) loadModules() {
	m := pid1.ReadModules(i.kernel, filepath.Join(i.root, media.ModuleDir), i.disks.SysRoot)
	n := m.Load(func() { pause(context.Background(), i.limit(300*time.Millisecond)) })
	logger.Infof("%d modules loaded", n)
}

// watch starts feeding the watchdog, if there is one.
func (i *installer) watch() *pid1.Guarded {
	dog, err := pid1.OpenDog(filepath.Join(i.root, "dev/watchdog"), 0)
	if err != nil {
		logger.Infof("no watchdog: %v", err)
		return nil
	}
	return pid1.Keep(dog, feedEvery, func() bool { return true })
}

// order finds out what is ordered and does it. background ends after everything else.
func (i *installer) order(ctx, background context.Context) (pid1.End, error) {
	boot, err := i.findBoot(ctx)
	if err != nil {
		return pid1.Reboot, err
	}
	client, err := i.connect(ctx, boot)
	if err != nil {
		return i.rescue(ctx, boot.Rescue), err
	}
	i.wg.Go(func() { i.log.Ship(background, client) })
	cfg, err := client.GetConfig(ctx)
	if err != nil {
		return i.rescue(ctx, boot.Rescue), err
	}
	logger.Infof("order for %s: %s", cfg.Host, mode(cfg))
	manager, err := disk.NewManager(i.disks)
	if err != nil {
		return pid1.Reboot, err
	}
	o := provision.NewOrchestrator(cfg, client, manager)
	o.SetOptions(provision.Options{
		Root: filepath.Join(i.root, "newroot"), Deploy: filepath.Join(i.root, "deploy"), Checkpoint: filepath.Join(i.root, "run/slipway-checkpoint.json"),
		Kexec: i.loader, Images: image.NewWriter(image.Config{Client: client.HTTPClient()}),
	})
	if err := i.pipeline(ctx, o, cfg); err != nil {
		return i.rescue(ctx, cfg.Rescue), err
	}
	return finish(o, cfg), nil
}

// connect brings up the network, sets the clock, and proves that this boot was ordered.
func (i *installer) connect(ctx context.Context, boot *config.Boot) (*config.Client, error) {
	network, err := netup.Setup(ctx, i.links, boot.Network)
	if err != nil {
		return nil, err
	}
	if err := network.WriteResolvConf(filepath.Join(i.root, "etc/resolv.conf")); err != nil {
		return nil, err
	}
	if err := i.setClock(ctx, boot); err != nil {
		return nil, err
	}
	client, err := config.NewClient(boot)
	if err != nil {
		return nil, err
	}
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		return nil, errors.Annotate(err, "cannot make key")
	}
	e := config.Exchange{Host: boot.Host, Boot: boot.Number, Token: boot.Token, PublicKey: public}
	e.Signature = ed25519.Sign(private, e.Message())
	return client, client.Exchange(ctx, e)
}

// setClock asks the controller for the time until it answers; this is also how the
// network is known to work.
func (i *installer) setClock(ctx context.Context, boot *config.Boot) error {
	ctx, cancel := context.WithTimeout(ctx, boot.Network.Timeout.Duration(5*time.Minute))
	defer cancel()
	for {
		now, err := config.ServerClock(ctx, boot)
		if err == nil {
			return pid1.SetClock(i.kernel, time.Now(), now)
		}
		logger.Warningf("%v", err)
		if !pause(ctx, i.limit(2*time.Second)) {
			return errors.Annotate(err, "cannot reach controller")
		}
	}
}

// pipeline runs what is ordered, again as often as the rescue mode says.
func (i *installer) pipeline(ctx context.Context, o *provision.Orchestrator, cfg *config.MachineConfig) error {
	do := o.Provision
	if cfg.Mode == config.ModeDeprovision || cfg.Mode == config.ModeSoftDeprovision {
		do = o.Deprovision
	}
	for try := 0; ; try++ {
		err := do(ctx)
		if err == nil || cfg.Rescue.Mode != config.RescueRetry || try == maxRetries || errors.Is(err, config.ErrRefused) {
			return err
		}
		logger.Errorf("%v; trying again (%d of %d)", err, try+1, maxRetries)
		if !pause(ctx, i.limit(retryPause)) {
			return err
		}
	}
}

// finish returns how a machine leaves after a success.
func finish(o *provision.Orchestrator, cfg *config.MachineConfig) pid1.End {
	switch {
	case mode(cfg) != config.ModeProvision:
		return pid1.PowerOff
	case cfg.Finish == config.FinishKexec && o.KexecLoaded():
		return pid1.Kexec
	case cfg.Finish == config.FinishKexec, cfg.Finish == config.FinishReboot:
		return pid1.Reboot
	}
	return pid1.PowerOff
}

func mode(cfg *config.MachineConfig) config.Mode {
	if cfg.Mode == "" {
		return config.ModeProvision
	}
	return cfg.Mode
}

// rescue does what the policy says after a failure, and returns how the machine leaves.
func (i *installer) rescue(ctx context.Context, r config.Rescue) pid1.End {
	timeout := r.Timeout
	if timeout <= 0 {
		timeout = rescueTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, i.limit(timeout))
	defer cancel()
	switch r.Mode {
	case config.RescueShell:
		logger.Infof("rescue shell on the console for %v; leave it to restart", timeout)
		if err := i.shell(ctx); err != nil {
			logger.Warningf("rescue shell: %v", err)
		}
	case config.RescueWait:
		logger.Infof("waiting for %v before the restart", timeout)
		<-ctx.Done()
	}
	return pid1.Reboot
}

// pause waits and reports whether ctx is still alive.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
