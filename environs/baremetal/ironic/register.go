package ironic

import (
	"fmt"
	"net/http"
	"reflect"
	"strings"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/v1/nodes"
	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/v1/ports"
	"github.com/juju/errors"

	metal3v1alpha1 "github.com/slipway-project/slipway/environs/baremetal/metal3/v1alpha1"
	"github.com/slipway-project/slipway/environs/baremetal/provisioner"
)

// ValidateManagementAccess is described by provisioner.Provisioner.
func (p *hostProvisioner) ValidateManagementAccess(credentialsChanged bool) (provisioner.Result, error) {
	d := p.address.Driver
	if d.NeedsMAC && p.host.Spec.BootMACAddress == "" {
		return provisioner.Failed("a host with a BMC of type " + d.Scheme + " requires a BootMACAddress value"), nil
	}
	c, cancel, err := p.begin()
	if err != nil {
		return provisioner.Result{}, errors.Trace(err)
	}
	defer cancel()
	return c.sort(c.register(credentialsChanged))
}

// register makes the next move to have a node whose BMC Ironic has verified.
func (c *call) register(credentialsChanged bool) (provisioner.Result, error) {
	var err error
	if c.node, err = c.find(); err != nil {
		return provisioner.Result{}, errors.Trace(err)
	}
	if c.node == nil {
		if err := c.create(); err != nil {
			return provisioner.Result{}, errors.Trace(err)
		}
	} else {
		c.host.Status.Provisioning.ID = c.node.UUID
		if err := c.renew(credentialsChanged); err != nil {
			return provisioner.Result{}, errors.Trace(err)
		}
	}
	switch c.state() {
	case nodes.Enroll:
		retry := credentialsChanged || provisioner.IsRetry(c.host, metal3v1alpha1.RegistrationError) ||
			provisioner.IsRetry(c.host, metal3v1alpha1.ProvisionedRegistrationError)
		switch {
		case c.node.TargetProvisionState == string(nodes.TargetManage), c.node.TargetProvisionState == string(nodes.Manageable):
			return provisioner.Again(c.c.Poll), nil
		case c.node.LastError != "" && !retry:
			return provisioner.Failed(c.node.LastError), nil
		}
		return c.to(nodes.TargetManage)
	case nodes.Verifying:
		return provisioner.Again(c.c.Poll), nil
	}
	return provisioner.Result{}, nil
}

// driverInfo returns how Ironic reaches the BMC, and its agent.
func (c *call) driverInfo() map[string]any {
	info := c.address.DriverInfo(c.creds, c.host.Spec.BMC.DisableCertificateVerification)
	for key, value := range map[string]string{
		"deploy_kernel": c.c.DeployKernel, "deploy_ramdisk": c.c.DeployRamdisk, "deploy_iso": c.c.DeployISO,
	} {
		if value != "" {
			info[key] = value
		}
	}
	return info
}

// create makes the host's node and its port.
func (c *call) create() error {
	d := c.address.Driver
	if d.Name == "" {
		return verdictf("Ironic has no driver for a BMC of type %s", d.Scheme)
	}
	with := func(key, value string) string {
		if v, ok := c.c.Interfaces[key]; ok {
			return v
		}
		return value
	}
	var clean *bool // nil: as Ironic is configured
	if c.c.NoCleaning {
		clean = new(bool)
	}
	node, err := nodes.Create(c.ctx, c.client, createOpts{nodes.CreateOpts{
		AutomatedClean: clean,
		Driver:         d.Name, Name: c.name(), DriverInfo: c.driverInfo(),
		BootInterface: with("boot", d.BootInterface), BIOSInterface: with("bios", d.BIOSInterface), DeployInterface: with("deploy", ""),
		InspectInterface: with("inspect", ""), ManagementInterface: with("management", d.ManagementInterface), NetworkInterface: with("network", ""),
		PowerInterface: with("power", d.PowerInterface), RAIDInterface: with("raid", d.RAIDInterface), VendorInterface: with("vendor", d.VendorInterface),
		Properties: map[string]any{"capabilities": capabilities(nil, c.bootMode())},
	}, c.preload()}).Extract()
	if err != nil {
		return refused(err, "Ironic refuses the host: %s")
	}
	c.node = node
	c.host.Status.Provisioning.ID = node.UUID
	c.publish("Registered", "Registered new host")
	if mac := strings.ToLower(c.host.Spec.BootMACAddress); mac != "" {
		pxe := true
		_, err := ports.Create(c.ctx, c.client, ports.CreateOpts{NodeUUID: node.UUID, Address: mac, PXEEnabled: &pxe}).Extract()
		if gophercloud.ResponseCodeIs(err, http.StatusConflict) {
			return verdictf("MAC address %s belongs to another node in Ironic", mac)
		}
		if err != nil {
			return refused(err, "Ironic refuses the boot MAC address: %s")
		}
	}
	return nil
}

// createOpts is nodes.CreateOpts with changes that hold from the beginning, which saves
// a call.
type createOpts struct {
	nodes.CreateOpts
	changes []nodes.UpdateOperation
}

// ToNodeCreateMap is described by nodes.CreateOptsBuilder.
func (o createOpts) ToNodeCreateMap() (map[string]any, error) {
	body, err := o.CreateOpts.ToNodeCreateMap()
	if err != nil {
		return nil, errors.Trace(err)
	}
	for _, change := range o.changes {
		in := body
		path := strings.Split(strings.TrimPrefix(change.Path, "/"), "/")
		for _, key := range path[:len(path)-1] {
			sub, ok := in[key].(map[string]any)
			if !ok {
				sub = make(map[string]any)
				in[key] = sub
			}
			in = sub
		}
		in[path[len(path)-1]] = change.Value
	}
	return body, nil
}

// refused turns a 400 into a verdict.
func refused(err error, format string) error {
	if gophercloud.ResponseCodeIs(err, http.StatusBadRequest) {
		return verdictf(format, strings.TrimPrefix(plain(err).Error(), "Ironic answers 400: "))
	}
	return errors.Trace(err)
}

// preload returns the changes that tell a new node which image is on its disk, or
// will be: adoption needs it.
func (c *call) preload() []nodes.UpdateOperation {
	image := &c.host.Status.Provisioning.Image
	if image.URL == "" {
		image = c.host.Spec.Image
	}
	if image == nil || image.URL == "" {
		return nil
	}
	return c.imageChanges(new(nodes.Node), image)
}

// imageChanges returns the changes that make image the node's. A live ISO is
// booted, and never written to a disk.
func (c *call) imageChanges(node *nodes.Node, image *metal3v1alpha1.Image) []nodes.UpdateOperation {
	var changes []nodes.UpdateOperation
	set := func(key, value string) {
		have, ok := node.InstanceInfo[key]
		switch {
		case value != "" && !(ok && have == value):
			changes = append(changes, add("/instance_info/"+key, value))
		case value == "" && ok:
			changes = append(changes, nodes.UpdateOperation{Op: nodes.RemoveOp, Path: "/instance_info/" + key})
		}
	}
	want := imageInfo(image)
	for _, key := range []string{"image_source", "boot_iso", "image_os_hash_algo", "image_os_hash_value", "image_checksum", "image_disk_format"} {
		set(key, want[key])
	}
	deploy := c.c.Interfaces["deploy"]
	if image.IsLiveISO() {
		deploy = "ramdisk"
	} else if deploy == "" && node.DeployInterface == "ramdisk" {
		deploy = "direct"
	}
	if deploy != "" && node.DeployInterface != deploy {
		changes = append(changes, add("/deploy_interface", deploy))
	}
	if uid := c.host.Metadata.UID; uid != "" && node.InstanceUUID != uid {
		changes = append(changes, add("/instance_uuid", uid))
	}
	return changes
}

// imageInfo returns what Ironic calls instance_info of image.
func imageInfo(image *metal3v1alpha1.Image) map[string]string {
	if image.IsLiveISO() {
		return map[string]string{"boot_iso": image.URL}
	}
	checksum, kind, _ := image.ChecksumOf()
	info := map[string]string{"image_source": image.URL, "image_os_hash_algo": string(kind), "image_os_hash_value": checksum}
	if kind == metal3v1alpha1.MD5 {
		info["image_checksum"] = checksum
	}
	if image.DiskFormat != nil {
		info["image_disk_format"] = *image.DiskFormat
	}
	return info
}

// renew brings a node's driver_info up to date, unless Ironic is busy with it.
// Ironic shows secrets as asterisks: whether they changed, the caller says.
func (c *call) renew(credentialsChanged bool) error {
	if c.atWork() {
		return nil
	}
	want := c.driverInfo()
	changed := credentialsChanged
	for key, value := range want {
		if strings.Contains(key, "password") {
			continue
		}
		have, ok := c.node.DriverInfo[key]
		changed = changed || !ok || !same(have, value)
	}
	if !changed {
		return nil
	}
	if err := c.patch(c.node, add("/driver_info", want)); err != nil {
		return refused(err, "Ironic refuses the BMC's address or credentials: %s")
	}
	return nil
}

// same reports whether two values are equal once JSON has made float64 of numbers.
func same(a, b any) bool {
	return reflect.DeepEqual(a, b) || fmt.Sprint(a) == fmt.Sprint(b)
}

// UpdateHardwareState is described by provisioner.Provisioner.
func (p *hostProvisioner) UpdateHardwareState() (provisioner.Result, error) {
	return p.run(func(c *call) (provisioner.Result, error) {
		on, known := c.isOn()
		if !known || on == p.host.Status.PoweredOn {
			return provisioner.Result{}, nil
		}
		p.host.Status.PoweredOn = on
		return provisioner.Result{Dirty: true}, nil
	})
}

// Adopt is described by provisioner.Provisioner.
func (p *hostProvisioner) Adopt() (provisioner.Result, error) {
	return p.run(func(c *call) (provisioner.Result, error) {
		switch c.state() {
		case nodes.Enroll, nodes.Verifying:
			return provisioner.Result{}, errors.Errorf("cannot adopt a node in state %s", c.node.ProvisionState)
		case nodes.Manageable:
			return c.to(nodes.TargetAdopt)
		case nodes.Adopting:
			return provisioner.Again(c.c.Poll), nil
		case nodes.AdoptFail:
			if provisioner.IsRetry(p.host, metal3v1alpha1.ProvisionedRegistrationError) || provisioner.IsRetry(p.host, metal3v1alpha1.RegistrationError) {
				return c.to(nodes.TargetAdopt)
			}
			return provisioner.Failed("Host adoption failed: " + c.lastError()), nil
		case nodes.Active:
			if cleared, err := c.clearMaintenance(); cleared || err != nil {
				return provisioner.Again(0), err
			}
		}
		return provisioner.Result{}, nil
	})
}

// Delete is described by provisioner.Provisioner.
func (p *hostProvisioner) Delete() (provisioner.Result, error) {
	c, cancel, err := p.begin()
	if err != nil {
		return provisioner.Result{}, errors.Trace(err)
	}
	defer cancel()
	if c.node, err = c.findOwn(); err != nil {
		return provisioner.Result{}, errors.Trace(err)
	}
	if c.node == nil {
		return provisioner.Result{}, nil
	}
	return c.sort(c.remove())
}

// findOwn returns the host's node by its ID or name, or nil: a node that only
// shares a MAC address is not removed.
func (c *call) findOwn() (*nodes.Node, error) {
	node, err := c.findRegistered()
	if node != nil || err != nil {
		return node, errors.Trace(err)
	}
	return c.get(c.name())
}

// remove makes the next move to be rid of the node.
func (c *call) remove() (provisioner.Result, error) {
	switch c.state() {
	case nodes.Verifying:
		return provisioner.Again(c.c.BusyPoll), nil
	case nodes.Available, nodes.Manageable, nodes.Enroll, nodes.AdoptFail, nodes.InspectFail, nodes.CleanFail:
		if c.node.InstanceUUID != "" && c.state() == nodes.Available {
			if err := c.patch(c.node, nodes.UpdateOperation{Op: nodes.RemoveOp, Path: "/instance_uuid"}); err != nil {
				return provisioner.Result{}, errors.Trace(err)
			}
		}
	default: // only a node in maintenance can be removed from there
		if !c.node.Maintenance {
			if err := c.patch(c.node, add("/maintenance", true)); err != nil {
				return provisioner.Result{}, errors.Annotate(err, "cannot set the maintenance flag")
			}
			return provisioner.Again(0), nil
		}
	}
	c.read = nil
	err := nodes.Delete(c.ctx, c.client, c.node.UUID).ExtractErr()
	switch {
	case err == nil, gophercloud.ResponseCodeIs(err, http.StatusNotFound):
		return provisioner.Again(0), nil // the next call confirms it
	case gophercloud.ResponseCodeIs(err, http.StatusConflict) && !c.node.Maintenance && !c.atWork():
		if merr := c.patch(c.node, add("/maintenance", true)); merr == nil {
			return provisioner.Again(c.c.BusyPoll), nil
		}
	}
	return provisioner.Result{}, errors.Trace(err)
}
