package ironic

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/v1/nodes"
	"github.com/juju/errors"
	"gopkg.in/yaml.v3"

	metal3v1alpha1 "github.com/slipway-project/slipway/environs/baremetal/metal3/v1alpha1"
	"github.com/slipway-project/slipway/environs/baremetal/provisioner"
)

// Provision is described by provisioner.Provisioner.
func (p *hostProvisioner) Provision(configData provisioner.HostConfigData) (provisioner.Result, error) {
	return p.run(func(c *call) (provisioner.Result, error) {
		if !p.host.WantsImage() {
			return provisioner.Result{}, verdictf("the host has no image to provision")
		}
		if c.node.Fault != "" {
			return provisioner.Again(c.c.Poll), nil // Ironic tries to reach the BMC again by itself
		}
		if cleared, err := c.clearMaintenance(); cleared || err != nil {
			return provisioner.Again(0), err
		}
		url := p.host.Spec.Image.URL
		switch c.state() {
		case nodes.Manageable:
			return c.to(nodes.TargetProvide)
		case nodes.CleanFail:
			if !provisioner.IsRetry(p.host, metal3v1alpha1.ProvisioningError) {
				return provisioner.Failed("Cleaning failed: " + c.lastError()), nil
			}
			return c.to(nodes.TargetManage)
		case nodes.Available:
			return c.deploy(configData)
		case nodes.DeployFail:
			if c.carries(p.host.Spec.Image) && !provisioner.IsRetry(p.host, metal3v1alpha1.ProvisioningError) {
				if c.node.LastError == "" {
					return provisioner.Again(c.c.BusyPoll), nil
				}
				return provisioner.Failed("Image provisioning failed: " + c.node.LastError), nil
			}
			return c.deploy(configData)
		case nodes.Active:
			if !c.carries(p.host.Spec.Image) {
				return provisioner.Result{}, verdictf("the host carries image %v; deprovision it first", c.node.InstanceInfo["image_source"])
			}
			p.publish("ProvisioningComplete", "Image provisioning completed for "+url)
			return provisioner.Result{}, nil
		case nodes.Enroll, nodes.AdoptFail, nodes.InspectFail, nodes.Error:
			return provisioner.Result{}, errors.Errorf("cannot provision a node in state %s", c.node.ProvisionState)
		}
		return provisioner.Again(c.c.Poll), nil
	})
}

// carries reports whether image is what the node has, or was told to have.
func (c *call) carries(image *metal3v1alpha1.Image) bool {
	want := imageInfo(image)
	for _, key := range []string{"image_source", "boot_iso", "image_os_hash_algo", "image_os_hash_value"} {
		if have, _ := c.node.InstanceInfo[key].(string); have != want[key] {
			return false
		}
	}
	return true
}

// deploy tells Ironic to write the image.
func (c *call) deploy(configData provisioner.HostConfigData) (provisioner.Result, error) {
	image := c.host.Spec.Image
	hints := c.host.Status.Provisioning.RootDeviceHints
	if hints == nil {
		hints = c.host.EffectiveHints()
	}
	changes := c.imageChanges(c.node, image)
	have := c.node.Properties
	if want := hints.IronicHints(); !same(have["root_device"], want) && (len(want) > 0 || have["root_device"] != nil) {
		changes = append(changes, add("/properties/root_device", want))
	}
	if want := capabilities(have["capabilities"], c.bootMode()); have["capabilities"] != want {
		changes = append(changes, add("/properties/capabilities", want))
	}
	drive, err := c.configDrive(configData)
	if err != nil {
		return provisioner.Result{}, errors.Trace(err)
	}
	if err := c.patch(c.node, changes...); err != nil {
		return provisioner.Result{}, refused(err, "Ironic refuses the image: %s")
	}
	validation, err := nodes.Validate(c.ctx, c.client, c.node.UUID).Extract()
	if err != nil {
		return provisioner.Result{}, errors.Trace(err)
	}
	var faults []string
	for _, v := range []nodes.DriverValidation{validation.Boot, validation.Deploy} {
		if !v.Result {
			faults = append(faults, v.Reason)
		}
	}
	if len(faults) > 0 {
		return provisioner.Result{}, verdictf("host validation error: %s", strings.Join(faults, "; "))
	}
	result, err := c.target(nodes.ProvisionStateOpts{Target: nodes.TargetActive, ConfigDrive: drive})
	if err == nil {
		c.publish("ProvisioningStarted", "Image provisioning started for "+image.URL)
	}
	return result, err
}

// configDrive returns what the machine is configured with at its first boot.
func (c *call) configDrive(from provisioner.HostConfigData) (nodes.ConfigDrive, error) {
	user, err := from.UserData()
	if err != nil {
		return nodes.ConfigDrive{}, errors.Annotate(err, "cannot read user data")
	}
	network, err := from.NetworkData()
	if err != nil {
		return nodes.ConfigDrive{}, errors.Annotate(err, "cannot read network data")
	}
	meta := map[string]any{"metal3-name": c.host.Metadata.Name, "metal3-namespace": c.host.Metadata.Namespace, "uuid": c.host.Metadata.UID,
		"name": c.host.Metadata.Name, "local-hostname": c.host.Metadata.Name, "local_hostname": c.host.Metadata.Name}
	if more, ok := from.(provisioner.MetaDataGetter); ok {
		text, err := more.MetaData()
		if err != nil {
			return nodes.ConfigDrive{}, errors.Annotate(err, "cannot read meta data")
		}
		if err := decodeMap(text, &meta); err != nil {
			return nodes.ConfigDrive{}, verdictf("the host's meta data is not a YAML map")
		}
	}
	drive := nodes.ConfigDrive{MetaData: meta}
	if user != "" {
		drive.UserData = user
	}
	if network != "" {
		if err := decodeMap(network, &drive.NetworkData); err != nil {
			return nodes.ConfigDrive{}, verdictf("the host's network data is not a YAML or JSON map")
		}
	}
	return drive, nil
}

// decodeMap merges a YAML (or JSON) map into m. The text may hold secrets: no
// error quotes it.
func decodeMap(text string, m *map[string]any) error {
	if err := yaml.Unmarshal([]byte(text), m); err != nil {
		return errors.New("not a map")
	}
	_, err := json.Marshal(*m) // refuses keys that are no strings
	return errors.Trace(err)
}

// Deprovision is described by provisioner.Provisioner.
func (p *hostProvisioner) Deprovision() (provisioner.Result, error) {
	return p.run(func(c *call) (provisioner.Result, error) {
		retry := provisioner.IsRetry(p.host, metal3v1alpha1.ProvisioningError)
		if cleared, err := c.clearMaintenance(); cleared || err != nil {
			return provisioner.Again(0), err
		}
		switch c.state() {
		case nodes.Active, nodes.DeployFail, nodes.DeployWait:
			result, err := c.to(nodes.TargetDeleted)
			if err == nil {
				p.publish("DeprovisioningStarted", "Image deprovisioning started")
			}
			return result, err
		case nodes.Error:
			if !retry {
				return provisioner.Failed("Deprovisioning failed: " + c.lastError()), nil
			}
			return c.to(nodes.TargetDeleted)
		case nodes.CleanFail:
			if !retry {
				return provisioner.Failed("Cleaning failed: " + c.lastError()), nil
			}
			return c.to(nodes.TargetManage)
		case nodes.Manageable:
			return c.to(nodes.TargetProvide) // cleaning is part of it
		case nodes.AdoptFail, nodes.InspectFail:
			return c.to(nodes.TargetManage)
		case nodes.Available:
			if p.host.Status.Provisioning.Image.URL != "" || p.host.Status.ErrorType == metal3v1alpha1.ProvisioningError {
				p.publish("DeprovisioningComplete", "Image deprovisioning completed")
			}
			p.host.Status.PoweredOn = c.node.PowerState == "power on"
			return provisioner.Result{}, nil
		case nodes.Enroll:
			return provisioner.Result{}, errors.Errorf("cannot deprovision a node in state %s", c.node.ProvisionState)
		}
		return provisioner.Again(c.c.Poll), nil
	})
}

// inspectionKey is where a node's extra says which inspection it has been through,
// so that one that is asked for later is told from it.
const inspectionKey = "slipway_inspection"

// InspectHardware is described by provisioner.Provisioner.
func (p *hostProvisioner) InspectHardware() (provisioner.Result, *metal3v1alpha1.HardwareDetails, error) {
	var details *metal3v1alpha1.HardwareDetails
	result, err := p.run(func(c *call) (provisioner.Result, error) {
		switch c.state() {
		case nodes.Available:
			return c.to(nodes.TargetManage)
		case nodes.InspectFail:
			if !provisioner.IsRetry(p.host, metal3v1alpha1.InspectionError) && !strings.Contains(c.node.LastError, "aborted") {
				return provisioner.Failed("Inspection failed: " + c.lastError()), nil
			}
			return c.startInspection()
		case nodes.Manageable:
			if done, _ := c.node.Extra[inspectionKey].(string); done != c.inspectionID() {
				return c.startInspection()
			}
			var err error
			if details, err = c.inventory(); err == nil {
				p.publish("InspectionComplete", "Hardware inspection completed")
			}
			return provisioner.Result{}, err
		case nodes.Inspecting, nodes.InspectWait, nodes.Cleaning, nodes.CleanWait, nodes.Verifying, nodes.Adopting:
			return provisioner.Again(c.c.InspectPoll), nil
		}
		return provisioner.Result{}, errors.Errorf("cannot inspect a node in state %s", c.node.ProvisionState)
	})
	return result, details, err
}

// inspectionID names the inspection that is asked for.
func (c *call) inspectionID() string {
	return "at " + c.host.Status.OperationHistory.Inspect.Start.UTC().Format("2006-01-02T15:04:05.000000000Z")
}

// startInspection has Ironic inspect the node.
func (c *call) startInspection() (provisioner.Result, error) {
	err := c.patch(c.node, add("/properties/capabilities", capabilities(c.node.Properties["capabilities"], c.bootMode())),
		add("/extra/"+inspectionKey, c.inspectionID()))
	if err != nil {
		return provisioner.Result{}, errors.Trace(err)
	}
	result, err := c.to(nodes.TargetInspect)
	if err != nil {
		return provisioner.Result{}, errors.Trace(err)
	}
	c.publish("InspectionStarted", "Hardware inspection started")
	return result, nil
}

// inventory returns what inspection found. An Ironic that keeps no inventory is
// asked for the node's properties instead.
func (c *call) inventory() (*metal3v1alpha1.HardwareDetails, error) {
	data, err := nodes.GetInventory(c.ctx, c.client, c.node.UUID).Extract()
	if err == nil {
		return detailsOf(&data.Inventory, c.host.Spec.BootMACAddress), nil
	}
	if gophercloud.ResponseCodeIs(err, http.StatusNotFound) || gophercloud.ResponseCodeIs(err, http.StatusNotAcceptable) {
		logger.Debugf("host %s: Ironic has no inventory", c.host.Metadata.Name)
		return detailsOfProperties(c.node.Properties), nil
	}
	return nil, errors.Annotate(err, "cannot read the inventory")
}

// number returns a property, which may be a number or its text.
func number(v any) int {
	var n int
	_, _ = fmt.Sscan(fmt.Sprint(v), &n)
	return n
}
