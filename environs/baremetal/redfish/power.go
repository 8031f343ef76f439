package redfish

import (
	"net/http"
	"time"

	gofish "github.com/stmcginnis/gofish/redfish"

	metal3v1alpha1 "github.com/slipway-project/slipway/environs/baremetal/metal3/v1alpha1"
	"github.com/slipway-project/slipway/environs/baremetal/provisioner"
)

// powerCommand is one that the BMC has accepted and that has yet to show.
type powerCommand struct {
	on   bool
	hard bool
	kind gofish.ResetType
	sent time.Time
}

// PowerOn is described by provisioner.Provisioner.
func (p *hostProvisioner) PowerOn() (provisioner.Result, error) {
	return p.run(func(c *call) (provisioner.Result, error) { return c.power(true, false) })
}

// PowerOff is described by provisioner.Provisioner.
func (p *hostProvisioner) PowerOff() (provisioner.Result, error) {
	hard := provisioner.IsRetry(p.host, metal3v1alpha1.PowerManagementError)
	return p.run(func(c *call) (provisioner.Result, error) { return c.power(false, hard) })
}

// power makes one move towards the wanted power state. Of several calls for one
// system at a time one moves, the others wait.
func (c *call) power(on, hard bool) (provisioner.Result, error) {
	sys, err := c.conn.readSystem(c.ctx, c.path)
	if err != nil {
		return provisioner.Result{}, err
	}
	if is, known := sys.isOn(); known && is == on {
		c.setPending(nil)
		c.host.Status.PoweredOn = on
		return provisioner.Result{}, nil
	}
	if !c.acquirePower() {
		return provisioner.Again(c.o.Poll), nil
	}
	defer c.releasePower()
	pending := c.pending()
	_, known := sys.isOn()
	switch {
	case pending == nil && !known:
		// Somebody else's command is under way; give it the time of one of ours.
		c.setPending(&powerCommand{on: on, hard: true, kind: gofish.ResetType("unknown command"), sent: time.Now()})
		return provisioner.Again(c.o.Poll), nil
	case pending != nil && pending.on == on && time.Since(pending.sent) < c.limit(pending) && !(hard && !pending.hard):
		return provisioner.Again(c.o.Poll), nil
	case pending != nil && pending.on == on && pending.hard:
		c.setPending(nil)
		return provisioner.Result{}, verdictf("the BMC accepted power command %s %v ago, but the machine is still %q; look at its console", pending.kind, time.Since(pending.sent).Round(time.Second), sys.PowerState)
	}
	if pending != nil && pending.on == on && !pending.hard {
		logger.Infof("host %s: the operating system does not shut down: powering off hard", c.host.Metadata.Name)
		hard = true
	}
	return c.sendPower(sys, on, hard)
}

// sendPower sends the command that fits.
func (c *call) sendPower(sys *system, on, hard bool) (provisioner.Result, error) {
	kind, text := gofish.OnResetType, "Host powered on"
	switch {
	case on && !sys.allows(kind) && sys.allows(gofish.ForceOnResetType):
		kind = gofish.ForceOnResetType
	case on:
	case !hard && sys.allows(gofish.GracefulShutdownResetType):
		kind, text = gofish.GracefulShutdownResetType, "Host soft powered off"
	default:
		kind, text, hard = gofish.ForceOffResetType, "Host hard powered off", true
	}
	err := c.conn.reset(c.ctx, sys, kind)
	if status := statusOf(err); status == http.StatusConflict || status == http.StatusBadRequest {
		// Either it is so already, which the next look tells, or the BMC cannot do
		// that to this machine now.
		logger.Debugf("host %s: %s: %v", c.host.Metadata.Name, kind, err)
		if !on && !hard {
			return c.sendPower(sys, on, true)
		}
		if status == http.StatusBadRequest {
			return provisioner.Result{}, err
		}
		return provisioner.Again(c.o.Poll), nil
	}
	if err != nil {
		return provisioner.Result{}, err
	}
	c.setPending(&powerCommand{on: on, hard: hard || on, kind: kind, sent: time.Now()})
	if on {
		c.publish("PowerOn", text)
	} else {
		c.publish("PowerOff", text)
	}
	return provisioner.Again(min(c.o.Poll, time.Second)), nil
}

// limit returns how long a command may take to show.
func (c *call) limit(p *powerCommand) time.Duration {
	if p.hard {
		return c.o.PowerTimeout
	}
	return c.o.SoftOffTimeout
}

// acquirePower takes the right to send power commands to the system.
func (c *call) acquirePower() bool {
	c.conn.mu.Lock()
	defer c.conn.mu.Unlock()
	if c.known.busy {
		return false
	}
	c.known.busy = true
	return true
}

// releasePower gives it back.
func (c *call) releasePower() {
	c.conn.mu.Lock()
	defer c.conn.mu.Unlock()
	c.known.busy = false
}

// pending returns the command that has yet to show, or nil.
func (c *call) pending() *powerCommand {
	c.conn.mu.Lock()
	defer c.conn.mu.Unlock()
	return c.known.power
}

// setPending notes the command that has yet to show.
func (c *call) setPending(p *powerCommand) {
	c.conn.mu.Lock()
	defer c.conn.mu.Unlock()
	c.known.power = p
}
