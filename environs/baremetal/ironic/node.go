package ironic

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/v1/nodes"
	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/v1/ports"
	"github.com/juju/errors"

	metal3v1alpha1 "github.com/slipway-project/slipway/environs/baremetal/metal3/v1alpha1"
	"github.com/slipway-project/slipway/environs/baremetal/provisioner"
)

// name returns the name of the host's node.
func (p *hostProvisioner) name() string {
	if ns := p.host.Metadata.Namespace; ns != "" {
		return ns + "~" + p.host.Metadata.Name
	}
	return p.host.Metadata.Name
}

// get returns the node with that ID or name, or nil.
func (c *call) get(id string) (*nodes.Node, error) {
	if n := c.read; n != nil && n.UUID == id && time.Since(c.readAt) < readFor {
		return n, nil
	}
	node, err := nodes.Get(c.ctx, c.client, id).Extract()
	switch {
	case err == nil:
		c.read, c.readAt = node, time.Now()
		return node, nil
	case gophercloud.ResponseCodeIs(err, http.StatusNotFound):
		return nil, nil
	}
	return nil, errors.Annotate(plain(err), "cannot find the host's node")
}

// findRegistered returns the node of a host that has been registered, by its ID,
// or nil.
func (c *call) findRegistered() (*nodes.Node, error) {
	if id := c.host.Status.Provisioning.ID; id != "" {
		return c.get(id)
	}
	return nil, nil
}

// find returns the host's node, by its ID, its name, or its boot MAC address, or
// nil.
func (c *call) find() (*nodes.Node, error) {
	node, err := c.findRegistered()
	if node != nil || err != nil {
		return node, errors.Trace(err)
	}
	for _, name := range slices.Compact([]string{c.name(), c.host.Metadata.Name}) {
		if node, err := c.get(name); node != nil || err != nil {
			return node, errors.Trace(err)
		}
	}
	return c.findByMAC()
}

// findByMAC returns the node whose port has the host's boot MAC address, or nil.
// A node that has a name belongs to another host.
func (c *call) findByMAC() (*nodes.Node, error) {
	mac := strings.ToLower(c.host.Spec.BootMACAddress)
	if mac == "" {
		return nil, nil
	}
	page, err := ports.List(c.client, ports.ListOpts{Address: mac, Fields: []string{"node_uuid"}}).AllPages(c.ctx)
	if err != nil {
		return nil, errors.Annotate(plain(err), "cannot look for the host's port")
	}
	found, err := ports.ExtractPorts(page)
	if err != nil || len(found) == 0 {
		return nil, errors.Trace(err)
	}
	node, err := c.get(found[0].NodeUUID)
	if err != nil {
		return nil, errors.Trace(err)
	}
	if node == nil {
		return nil, errors.Errorf("a port in Ironic has the MAC address %s but its node %s is missing", mac, found[0].NodeUUID)
	}
	if node.Name != "" {
		return nil, verdictf("MAC address %s conflicts with the existing node %s in Ironic", mac, node.Name)
	}
	return node, c.patch(node, add("/name", c.name()))
}

// add returns the change that sets path.
func add(path string, value any) nodes.UpdateOperation {
	return nodes.UpdateOperation{Op: nodes.AddOp, Path: path, Value: value}
}

// patch changes the node.
func (c *call) patch(node *nodes.Node, changes ...nodes.UpdateOperation) error {
	if len(changes) == 0 {
		return nil
	}
	c.read = nil
	var opts nodes.UpdateOpts
	for _, change := range changes {
		opts = append(opts, change)
	}
	_, err := nodes.Update(c.ctx, c.client, node.UUID, opts).Extract()
	return errors.Trace(err)
}

// target asks Ironic for a change of the node's provision state, and says to come
// back later.
func (c *call) target(opts nodes.ProvisionStateOpts) (provisioner.Result, error) {
	c.read = nil
	logger.Debugf("host %s: node is %s, target %s", c.host.Metadata.Name, c.node.ProvisionState, opts.Target)
	if err := nodes.ChangeProvisionState(c.ctx, c.client, c.node.UUID, opts).ExtractErr(); err != nil {
		return provisioner.Result{}, errors.Trace(err)
	}
	return provisioner.Again(c.c.Poll), nil
}

// to is target without anything more to say.
func (c *call) to(target nodes.TargetProvisionState) (provisioner.Result, error) {
	return c.target(nodes.ProvisionStateOpts{Target: target})
}

// state returns the node's provision state.
func (c *call) state() nodes.ProvisionState { return nodes.ProvisionState(c.node.ProvisionState) }

// lastError returns what Ironic says went wrong.
func (c *call) lastError() string {
	if c.node.LastError == "" {
		return "Ironic does not say why"
	}
	return c.node.LastError
}

// atWork reports whether the node is in a state that Ironic will leave by itself.
func (c *call) atWork() bool {
	switch c.state() {
	case nodes.Verifying, nodes.Deploying, nodes.DeployWait, nodes.DeployDone, nodes.Deleting, nodes.Deleted, nodes.Cleaning, nodes.CleanWait,
		nodes.Inspecting, nodes.InspectWait, nodes.Adopting, nodes.Rescuing, nodes.RescueWait, nodes.Unrescuing, nodes.Rebuild:
		return true
	}
	return false
}

// clearMaintenance takes the node out of maintenance, if it is in it. One that
// Ironic itself put there, because of a fault, is left.
func (c *call) clearMaintenance() (cleared bool, err error) {
	if !c.node.Maintenance || c.node.Fault != "" {
		return false, nil
	}
	c.read = nil
	err = nodes.UnsetMaintenance(c.ctx, c.client, c.node.UUID).ExtractErr()
	return err == nil, errors.Trace(err)
}

// capabilities returns the node's capabilities with the host's boot mode, and all
// others as they are.
func capabilities(have any, mode metal3v1alpha1.BootMode) string {
	text, _ := have.(string)
	var kept []string
	for _, one := range strings.Split(text, ",") {
		if one = strings.TrimSpace(one); one != "" && !strings.HasPrefix(one, "boot_mode:") {
			kept = append(kept, one)
		}
	}
	boot := "boot_mode:uefi"
	if mode == metal3v1alpha1.Legacy {
		boot = "boot_mode:bios"
	}
	return strings.Join(append(kept, boot), ",")
}

// bootMode returns the boot mode in force.
func (p *hostProvisioner) bootMode() metal3v1alpha1.BootMode {
	if m := p.host.Status.Provisioning.BootMode; m != "" {
		return m
	}
	return p.host.EffectiveBootMode()
}
