package redfish

import (
	"fmt"
	"strings"
	"time"

	"github.com/juju/errors"
	gofish "github.com/stmcginnis/gofish/redfish"

	metal3v1alpha1 "github.com/slipway-project/slipway/environs/baremetal/metal3/v1alpha1"
	"github.com/slipway-project/slipway/environs/baremetal/provisioner"
)

// Provision is described by provisioner.Provisioner.
func (p *hostProvisioner) Provision(configData provisioner.HostConfigData) (provisioner.Result, error) {
	return p.run(func(c *call) (provisioner.Result, error) {
		if !p.host.WantsImage() {
			return provisioner.Result{}, verdictf("the host has no image to provision")
		}
		image := p.host.Spec.Image
		job, found, err := c.job()
		if err != nil {
			return provisioner.Result{}, err
		}
		same := found && job.Purpose == PurposeInstall && job.Image == image.URL
		retry := provisioner.IsRetry(p.host, metal3v1alpha1.ProvisioningError)
		if same && job.Phase == PhaseFailed && !retry {
			return provisioner.Failed("Image provisioning failed: " + job.Message), nil
		}
		if !same || job.Phase == PhaseFailed || retry && c.givenUp(job) {
			work := Job{Purpose: PurposeInstall, Image: *image}
			if err := readConfig(configData, &work); err != nil {
				return provisioner.Result{}, err
			}
			if err := c.start(work); err != nil {
				return provisioner.Result{}, err
			}
			p.publish("ProvisioningStarted", "Image provisioning started for "+image.URL)
			return provisioner.Again(0), nil
		}
		finished := !job.Restarted.IsZero()
		result, err := c.advance(job)
		if err == nil && result == (provisioner.Result{}) {
			p.host.Status.PoweredOn = true
			if !finished {
				p.publish("ProvisioningComplete", "Image provisioning completed for "+image.URL)
			}
		}
		return result, err
	})
}

// Deprovision is described by provisioner.Provisioner. A host that never got as
// far as writing to its disk is not wiped.
func (p *hostProvisioner) Deprovision() (provisioner.Result, error) {
	return p.run(func(c *call) (provisioner.Result, error) {
		job, found, err := c.job()
		if err != nil {
			return provisioner.Result{}, err
		}
		wiping := found && job.Purpose == PurposeWipe
		retry := provisioner.IsRetry(p.host, metal3v1alpha1.ProvisioningError)
		carries := p.host.Status.Provisioning.Image.URL != ""
		switch {
		case !found && !carries:
			return provisioner.Result{}, nil
		case wiping && job.Phase == PhaseFailed && !retry:
			return provisioner.Failed("Wiping failed: " + job.Message), nil
		case !wiping || job.Phase == PhaseFailed || retry && c.givenUp(job):
			if err := c.start(Job{Purpose: PurposeWipe, Soft: p.host.Metadata.Annotations[metal3v1alpha1.WipeAnnotation] == "soft"}); err != nil {
				return provisioner.Result{}, err
			}
			p.publish("DeprovisioningStarted", "Image deprovisioning started")
			return provisioner.Again(0), nil
		}
		finished := !job.Restarted.IsZero()
		result, err := c.advance(job)
		if err == nil && result == (provisioner.Result{}) && !finished {
			p.host.Status.PoweredOn = false
			p.publish("DeprovisioningComplete", "Image deprovisioning completed")
		}
		return result, err
	})
}

// job returns the host's job.
func (c *call) job() (job JobStatus, found bool, err error) {
	if c.o.Installer == nil {
		return JobStatus{}, false, verdictf("this site has no installer: images cannot be written")
	}
	job, err = c.o.Installer.Status(c.ctx, c.id())
	if errors.Is(err, errors.NotFound) {
		return JobStatus{}, false, nil
	}
	c.media = []string{job.ISO, job.HTTPBoot}
	return job, err == nil, errors.Annotate(err, "cannot ask for the host's job")
}

// start makes a job for the host.
func (c *call) start(job Job) error {
	job.Host, job.Name = c.id(), c.host.Metadata.Name
	job.BootMAC = c.host.Spec.BootMACAddress
	job.BootMode = c.bootMode()
	job.RootHints = c.hints()
	job.Network = c.host.Metadata.Annotations[metal3v1alpha1.InstallerNetworkAnnotation]
	job.KeepDisks = strings.FieldsFunc(c.host.Metadata.Annotations[metal3v1alpha1.KeepDisksAnnotation], func(r rune) bool { return r == ',' || r == ' ' })
	c.forget()
	_, err := c.o.Installer.Start(c.ctx, job)
	if errors.Is(err, errors.NotValid) || errors.Is(err, errors.BadRequest) || errors.Is(err, errors.NotSupported) {
		return verdictf("%v", err) // another try is in vain
	}
	return errors.Annotate(err, "cannot make a job for the installer")
}

// hints returns which disk the image goes to; nil leaves it to the installer. The
// profile of a host of which nothing is known names a disk by guess: that is no hint.
func (c *call) hints() *metal3v1alpha1.RootDeviceHints {
	profile := c.host.Status.HardwareProfile
	if c.host.Spec.RootDeviceHints == nil && (profile == "" || profile == metal3v1alpha1.DefaultProfile) {
		return nil
	}
	if h := c.host.Status.Provisioning.RootDeviceHints; h != nil {
		return h
	}
	return c.host.EffectiveHints()
}

// forget drops what is remembered of the last boot of an installer.
func (c *call) forget() {
	c.conn.mu.Lock()
	defer c.conn.mu.Unlock()
	c.known.override, c.known.step = 0, ""
}

// readConfig reads the host's data into the job.
func readConfig(from provisioner.HostConfigData, job *Job) (err error) {
	if job.UserData, err = from.UserData(); err != nil {
		return errors.Annotate(err, "cannot read user data")
	}
	if job.NetworkData, err = from.NetworkData(); err != nil {
		return errors.Annotate(err, "cannot read network data")
	}
	if m, ok := from.(provisioner.MetaDataGetter); ok {
		if job.MetaData, err = m.MetaData(); err != nil {
			return errors.Annotate(err, "cannot read meta data")
		}
	}
	return nil
}

// advance makes the next move of a job; the zero Result: it is over.
func (c *call) advance(job JobStatus) (provisioner.Result, error) {
	c.tellStep(job)
	c.details = job.Details
	switch {
	case job.Phase == PhaseDone && !job.Restarted.IsZero():
		return provisioner.Result{}, nil
	case job.Phase == PhaseDone:
		return c.conclude(job)
	case job.Phase == PhaseRunning:
		if silent := time.Since(job.LastReport); silent > c.o.SilenceTimeout {
			return c.bootAgain(job, fmt.Sprintf("the installer has been silent for %v, since step %q; look at the machine's console", silent.Round(time.Second), job.Step))
		}
		return provisioner.Again(c.o.Poll), nil
	case time.Since(job.Started) > c.o.BootTimeout:
		if job.Booted.IsZero() {
			return provisioner.Result{}, verdictf("the machine could not be booted into the installer within %v; look at its console and its BMC's log", c.o.BootTimeout)
		}
		return c.bootAgain(job, fmt.Sprintf("the machine was booted into the installer but has not reported within %v; look at its console: does it boot from %s, and does it reach us over its network?%s", c.o.BootTimeout, bootName(c), c.signatureWanted()))
	case !job.Booted.IsZero():
		return provisioner.Again(c.o.Poll), nil
	}
	return c.bootInstaller(job)
}

// bootAgain gives up a boot of the installer, and has another one begin: with another
// number, token and medium. After a number of boots the job has failed for that reason.
func (c *call) bootAgain(job JobStatus, reason string) (provisioner.Result, error) {
	if job.Tries >= c.o.MaxBoots {
		return provisioner.Result{}, verdictf("%s (given up after %d boots)", reason, job.Tries)
	}
	if err := c.o.Installer.Renew(c.ctx, c.id(), job.Number, reason); err != nil {
		return provisioner.Result{}, errors.Annotate(err, "cannot order another boot of the installer")
	}
	c.forget()
	c.publish("InstallerRestarted", fmt.Sprintf("Boot %d of %d: %s", job.Tries+1, c.o.MaxBoots, reason))
	return provisioner.Again(0), nil
}

// givenUp reports whether the job's boots are used up, or none of them came about in time. Nothing
// becomes of such a job any more: another try needs another one.
func (c *call) givenUp(job JobStatus) bool {
	last := job.Tries >= c.o.MaxBoots
	switch job.Phase {
	case PhaseRunning:
		return last && time.Since(job.LastReport) > c.o.SilenceTimeout
	case PhaseWaiting:
		return (last || job.Booted.IsZero()) && time.Since(job.Started) > c.o.BootTimeout
	}
	return false
}

// bootName says what the machine should boot from. The URL itself is a secret.
func bootName(c *call) string {
	if c.address.Driver.Boot == "UEFI HTTP" {
		return "the program that the controller serves by HTTP"
	}
	return "its virtual CD"
}

// signatureWanted tells a person that the firmware starts only what is signed, if the
// BMC says so; "" otherwise. It is a hint: a BMC that does not answer is no error.
func (c *call) signatureWanted() string {
	sys, err := c.conn.readSystem(c.ctx, c.path)
	if err != nil || sys.SecureBoot.ID == "" {
		return ""
	}
	var s struct {
		SecureBootCurrentBoot gofish.SecureBootCurrentBootType
	}
	if _, err := c.conn.get(c.ctx, sys.SecureBoot.ID, &s); err != nil || s.SecureBootCurrentBoot != gofish.EnabledSecureBootCurrentBootType {
		return ""
	}
	return " Secure Boot is on: is the installer signed with a key that the machine's firmware trusts?"
}

// bootInstaller makes the next move to get the installer running. What shows in
// the BMC alone does not tell a machine that we have just booted from one that was
// on all the time: therefore the marks.
func (c *call) bootInstaller(job JobStatus) (provisioner.Result, error) {
	if !job.Prepared.IsZero() {
		result, err := c.power(true, false)
		if err != nil || result != (provisioner.Result{}) {
			return result, err
		}
		return provisioner.Again(c.o.Poll), c.mark(MarkBooted)
	}
	result, err := c.power(false, true)
	if err != nil || result != (provisioner.Result{}) {
		return result, err
	}
	sys, err := c.conn.readSystem(c.ctx, c.path)
	if err != nil {
		return provisioner.Result{}, err
	}
	plan, err := c.plan(sys, job)
	switch {
	case err != nil:
		return provisioner.Result{}, err
	case plan.cd != nil && plan.cd.Image != plan.image:
		return provisioner.Again(0), c.insert(vendorOf(sys.Manufacturer), plan.cd, plan.image)
	case !plan.overridden(sys):
		return c.tryOverride(sys, plan)
	}
	return provisioner.Again(0), c.mark(MarkPrepared)
}

// mark notes that the host's job has passed a point.
func (c *call) mark(m Mark) error {
	return errors.Annotatef(c.o.Installer.Mark(c.ctx, c.id(), m), "cannot note that the host is %s", m)
}

// maxOverrides is how often the boot source is overridden before we believe that
// the BMC does not keep it.
const maxOverrides = 3

// tryOverride overrides the boot source; the next call reads it back.
func (c *call) tryOverride(sys *system, plan bootPlan) (provisioner.Result, error) {
	c.conn.mu.Lock()
	c.known.override++
	tries := c.known.override
	c.conn.mu.Unlock()
	if tries > maxOverrides {
		return provisioner.Result{}, verdictf("the BMC accepts boot source %s but does not keep it (it says %s, %s); look at its boot settings", plan.target, clean(sys.Boot.Target, ""), clean(sys.Boot.Enabled, ""))
	}
	wait := time.Duration(0)
	if tries > 1 {
		wait = c.o.Poll
	}
	return provisioner.Again(wait), c.override(sys, plan)
}

// conclude takes the installer away and leaves the machine on, with its new
// image, or off, wiped.
func (c *call) conclude(job JobStatus) (provisioner.Result, error) {
	if job.Ejected.IsZero() {
		result, err := c.power(false, true)
		if err != nil || result != (provisioner.Result{}) {
			return result, err
		}
		if err := c.eject(job.ISO); err != nil {
			return provisioner.Result{}, err
		}
		return provisioner.Again(0), c.mark(MarkEjected)
	}
	if job.Purpose == PurposeInstall {
		result, err := c.power(true, false)
		if err != nil || result != (provisioner.Result{}) {
			return result, err
		}
	}
	return provisioner.Result{}, c.mark(MarkRestarted)
}

// tellStep publishes what the installer does now, once for each step.
func (c *call) tellStep(job JobStatus) {
	switch {
	case job.Phase == PhaseRunning:
		c.doing = job.Step
	case job.Phase == PhaseWaiting && !job.Booted.IsZero():
		c.doing = "the machine boots the installer"
	}
	if job.Step == "" || job.Phase != PhaseRunning {
		return
	}
	c.conn.mu.Lock()
	changed := c.known.step != job.Step
	c.known.step = job.Step
	c.conn.mu.Unlock()
	if changed {
		c.publish("InstallerStep", "The installer is at step "+job.Step)
	}
}
