package ironic

import (
	"net/http"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/v1/nodes"
	"github.com/juju/errors"

	metal3v1alpha1 "github.com/slipway-project/slipway/environs/baremetal/metal3/v1alpha1"
	"github.com/slipway-project/slipway/environs/baremetal/provisioner"
)

// powerCommand is one that Ironic has accepted.
type powerCommand struct {
	target nodes.TargetPowerState
	sent   time.Time
}

// isOn reports whether the node is on; known is false if Ironic does not know.
func (c *call) isOn() (on, known bool) {
	switch c.node.PowerState {
	case string(nodes.PowerOn):
		return true, true
	case string(nodes.PowerOff):
		return false, true
	}
	return false, false
}

// PowerOn is described by provisioner.Provisioner.
func (p *hostProvisioner) PowerOn() (provisioner.Result, error) {
	return p.run(func(c *call) (provisioner.Result, error) { return c.power(true) })
}

// PowerOff is described by provisioner.Provisioner.
func (p *hostProvisioner) PowerOff() (provisioner.Result, error) {
	return p.run(func(c *call) (provisioner.Result, error) { return c.power(false) })
}

// power makes one move towards the wanted power state.
func (c *call) power(on bool) (provisioner.Result, error) {
	is, known := c.isOn()
	if known && is == on {
		c.setCommand(nil)
		c.host.Status.PoweredOn = on
		return provisioner.Result{}, nil
	}
	if c.node.TargetPowerState != "" || c.node.TargetProvisionState != "" {
		return provisioner.Again(c.c.Poll), nil
	}
	retry := provisioner.IsRetry(c.host, metal3v1alpha1.PowerManagementError)
	command := c.command()
	soft := nodes.PowerStateOpts{Target: nodes.SoftPowerOff, Timeout: int(c.c.SoftOffTimeout / time.Second)}
	switch {
	case command != nil && on && command.target == nodes.PowerOn, command != nil && !on && command.target == nodes.PowerOff:
		// It was accepted, is no longer under way, and has not worked.
		if time.Since(command.sent) < 2*c.c.BusyPoll && c.node.LastError == "" {
			return provisioner.Again(c.c.BusyPoll), nil
		}
		c.setCommand(nil)
		return provisioner.Failed("Ironic could not change the power state: " + c.lastError()), nil
	case on:
		return c.sendPower(nodes.PowerStateOpts{Target: nodes.PowerOn}, "PowerOn", "Host powered on")
	case retry, command != nil && command.target == nodes.SoftPowerOff && time.Since(command.sent) > c.c.BusyPoll:
		return c.sendPower(nodes.PowerStateOpts{Target: nodes.PowerOff}, "PowerOff", "Host hard powered off")
	case command != nil && command.target == nodes.SoftPowerOff:
		return provisioner.Again(c.c.BusyPoll), nil
	}
	result, err := c.sendPower(soft, "PowerOff", "Host soft powered off")
	if gophercloud.ResponseCodeIs(err, http.StatusBadRequest) { // not supported by the driver
		return c.sendPower(nodes.PowerStateOpts{Target: nodes.PowerOff}, "PowerOff", "Host hard powered off")
	}
	return result, err
}

// sendPower sends a power command.
func (c *call) sendPower(opts nodes.PowerStateOpts, reason, message string) (provisioner.Result, error) {
	c.read = nil
	if err := nodes.ChangePowerState(c.ctx, c.client, c.node.UUID, opts).ExtractErr(); err != nil {
		return provisioner.Result{}, errors.Trace(err)
	}
	c.setCommand(&powerCommand{opts.Target, time.Now()})
	c.publish(reason, message)
	return provisioner.Again(0), nil
}

// command returns the command that the node has yet to obey, or nil.
func (c *call) command() *powerCommand {
	c.backend.mu.Lock()
	defer c.backend.mu.Unlock()
	return c.backend.power[c.node.UUID]
}

// setCommand notes the command that the node has yet to obey.
func (c *call) setCommand(p *powerCommand) {
	c.backend.mu.Lock()
	defer c.backend.mu.Unlock()
	if p == nil {
		delete(c.backend.power, c.node.UUID)
		return
	}
	c.backend.power[c.node.UUID] = p
}
