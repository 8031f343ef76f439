package fakeinstaller

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/environs/baremetal/fakebmc"
	"github.com/slipway-project/slipway/provision"
	"github.com/slipway-project/slipway/provision/config"
	"github.com/slipway-project/slipway/provision/disk"
	"github.com/slipway-project/slipway/provision/health"
	"github.com/slipway-project/slipway/provision/image"
)

// The steps that a run reports: those of the real installer that tell most.
const (
	stepInventory = "collect-inventory"
	stepHealth    = "health-checks"
	stepDetect    = "detect-disk"
	stepVerify    = "verify-image"
	stepWipe      = "wipe-disk"
	stepStream    = "stream-image"
	stepEntry     = "create-efi-boot-entry"
	stepWipeAll   = "wipe-all-disks"
	stepUnboot    = "remove-efi-entries"
)

// beatEvery is how often a machine shows that it is alive.
const beatEvery = 20 * time.Second

// run is one run of the installer.
type run struct {
	number int
	s      *fakebmc.System
	client *config.Client
	cfg    *config.MachineConfig
	images *image.Writer
	url    string // of the image, as it was found
}

// step is one step of a run.
type step struct {
	name string
	do   func(context.Context) error // nil: there is nothing to do
}

// order finds out what is ordered and does it.
func (i *Installer) order(ctx context.Context, s *fakebmc.System, boot *config.Boot, client *config.Client) (fakebmc.End, error) {
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		return fakebmc.Stays, errors.Annotate(err, "cannot make key")
	}
	e := config.Exchange{Host: boot.Host, Boot: boot.Number, Token: boot.Token, PublicKey: public}
	e.Signature = ed25519.Sign(private, e.Message())
	if err := client.Exchange(ctx, e); err != nil {
		return fakebmc.Stays, err
	}
	cfg, err := client.GetConfig(ctx)
	if err != nil {
		return fakebmc.Stays, err
	}
	loading := client.HTTPClient()
	defer loading.CloseIdleConnections()
	r := &run{number: s.Number(), s: s, client: client, cfg: cfg, images: image.NewWriter(image.Config{Client: loading, Arch: "amd64"})}
	beating, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() { r.beat(beating) })
	defer wg.Wait()
	defer stop()
	return r.all(ctx, i)
}

// beat sends heartbeats until ctx is done.
func (r *run) beat(ctx context.Context) {
	for pause(ctx, beatEvery) {
		if err := r.client.Heartbeat(ctx); err != nil && ctx.Err() == nil {
			logger.Debugf("machine %d: %v", r.number, err)
		}
	}
}

// all does one step after the other, and reports what came of it.
func (r *run) all(ctx context.Context, i *Installer) (fakebmc.End, error) {
	mode := r.cfg.Mode
	if mode == "" {
		mode = config.ModeProvision
	}
	if err := r.client.ReportStatus(ctx, config.Status{State: config.StateInit}); err != nil {
		return fakebmc.Stays, err
	}
	if err := r.client.ShipLog(ctx, []string{
		fmt.Sprintf("an imitation of the installer, on machine %d of a fake rack", r.number), fmt.Sprintf("order for %s: %s", r.cfg.Host, mode),
	}); err != nil {
		return fakebmc.Stays, err
	}
	steps := r.steps(mode)
	bad, fails := i.o.Fails(r.number)
	for n, st := range steps {
		begin := time.Now()
		if !pause(ctx, i.o.Time/time.Duration(len(steps))) {
			return fakebmc.Stays, errors.Trace(ctx.Err())
		}
		var err error
		switch {
		case fails && mode == config.ModeProvision && st.name == bad:
			err = errors.Errorf("a simulated fault of machine %d", r.number)
		case st.do != nil:
			err = st.do(ctx)
		}
		if err != nil {
			return fakebmc.Stays, r.fail(ctx, st.name, err)
		}
		status := config.Status{State: config.StateStep, Step: st.name, Number: n + 1, Total: len(steps), Try: 1, Result: "done", Millis: time.Since(begin).Milliseconds()}
		if err := r.client.ReportStatus(ctx, status); err != nil {
			return fakebmc.Stays, err
		}
	}
	return r.succeed(ctx, i, mode)
}

// fail reports the error of a step, and returns it.
func (r *run) fail(ctx context.Context, name string, err error) error {
	if ctx.Err() != nil {
		return errors.Trace(ctx.Err())
	}
	message := config.Redact(err.Error())
	_ = r.client.ShipLog(ctx, []string{"step " + name + ": " + message}) // the report tells the same
	if rerr := r.client.ReportStatus(ctx, config.Status{State: config.StateError, Step: name, Message: message}); rerr != nil {
		return rerr
	}
	return errors.Annotatef(err, "step %s", name)
}

// succeed notes what is on the disk now, and reports it.
func (r *run) succeed(ctx context.Context, i *Installer, mode config.Mode) (fakebmc.End, error) {
	i.mu.Lock()
	delete(i.disks, r.s)
	if mode == config.ModeProvision && r.cfg.CloudInit != nil {
		i.disks[r.s] = r.cfg.CloudInit.UserData
	}
	i.mu.Unlock()
	status := config.Status{State: config.StateSuccess}
	if mode == config.ModeProvision {
		r.s.SetDisk(config.RedactURL(r.url))
		facts, err := json.Marshal(map[string]config.DiskID{"disk": {Serial: r.s.Hardware().Disks[0].Serial}})
		if err != nil {
			return fakebmc.Stays, errors.Annotate(err, "cannot encode facts")
		}
		status.Facts = facts
	} else if mode != config.ModeDryRun {
		r.s.SetDisk("")
	}
	if err := r.client.ReportStatus(ctx, status); err != nil {
		return fakebmc.Stays, err
	}
	if mode == config.ModeProvision && (r.cfg.Finish == config.FinishReboot || r.cfg.Finish == config.FinishKexec) {
		return fakebmc.Restarts, nil
	}
	return fakebmc.GoesOff, nil
}

// steps returns what a run does.
func (r *run) steps(mode config.Mode) []step {
	switch mode {
	case config.ModeDeprovision:
		return []step{{stepWipeAll, nil}, {stepUnboot, nil}}
	case config.ModeSoftDeprovision:
		return []step{{stepUnboot, nil}}
	case config.ModeDryRun:
		return []step{{stepDetect, nil}, {stepVerify, r.verify}}
	}
	return []step{
		{stepInventory, r.inventory}, {stepHealth, r.health}, {stepDetect, nil}, {stepVerify, r.verify},
		{stepWipe, nil}, {stepStream, r.stream}, {stepEntry, nil},
	}
}

// inventory reports what the machine is made of.
func (r *run) inventory(ctx context.Context) error {
	if !r.cfg.Inventory {
		return nil
	}
	h := r.s.Hardware()
	m := provision.MachineInventory{Vendor: "Fake", Product: "Machine in memory", Serial: h.Serial, Arch: "amd64", CPUModel: "Fake Xeon 3000", CPUs: h.CPUs, MemoryMiB: uint64(h.MemoryMiB), EFI: true}
	for n, d := range h.Disks {
		name := "sd" + string(rune('a'+n))
		m.Disks = append(m.Disks, disk.Info{Name: name, Path: "/dev/" + name, Serial: d.Serial, Model: "Fakedisk 1", Size: d.Bytes, Rotational: d.Rotational})
	}
	for n, mac := range h.MACs {
		m.Ports = append(m.Ports, provision.Port{Name: fmt.Sprintf("eth%d", n), MAC: mac, SpeedMbps: 25000, Link: true})
	}
	text, err := json.Marshal(m)
	if err != nil {
		return errors.Annotate(err, "cannot encode inventory")
	}
	return r.client.ReportInventory(ctx, text)
}

// health reports that all is well.
func (r *run) health(ctx context.Context) error {
	if r.cfg.Health.Disabled {
		return nil
	}
	return r.client.ReportHealthChecks(ctx, []health.CheckResult{{Name: "memory", Status: health.Pass, Message: "as much as there seems to be"}})
}

// verify finds out whether the image can be had.
func (r *run) verify(ctx context.Context) (err error) {
	r.url, _, err = r.images.Check(ctx, r.cfg.Image)
	return err
}

// stream loads and verifies the image, and keeps nothing of it.
func (r *run) stream(ctx context.Context) error {
	size := r.s.Hardware().Disks[0].Bytes
	_, err := r.images.Write(ctx, r.cfg.Image, image.Target{URL: r.url, Device: nowhere(size), Size: size})
	return err
}
