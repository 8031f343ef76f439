package install

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/juju/errors"
	"gopkg.in/yaml.v3"

	metal3v1alpha1 "github.com/slipway-project/slipway/environs/baremetal/metal3/v1alpha1"
	"github.com/slipway-project/slipway/provision/config"
)

// The keys of the meta data that are not handed on to the installed system as they are.
const (
	metaInstaller  = "installer"      // a map: further settings of a config.MachineConfig
	metaHostname   = "local-hostname" // of the installed system
	metaInstance   = "instance-id"
	metaDataSource = "data-source" // of cloud-init: nocloud or configdrive
)

// machineConfig makes what an installer is told of an order. The error satisfies
// errors.NotValid, and quotes nothing secret.
//
// The meta data is a map. Its member "installer" may set whatever else a machine's config
// has: files, commands, kernel parameters, name servers, limits on health and firmware. What the
// order itself says wins.
func machineConfig(d *doc, data Data) (*config.MachineConfig, error) {
	c := &config.MachineConfig{}
	if d.Order.Purpose == PurposeWipe {
		c.Mode = config.ModeDeprovision
		if d.Order.Soft {
			c.Mode = config.ModeSoftDeprovision
		}
	} else {
		if err := readMeta(c, data); err != nil {
			return nil, err
		}
		if c.Hostname == "" {
			c.Hostname = d.Order.Name
		}
		if c.CloudInit != nil && c.CloudInit.InstanceID == "" {
			c.CloudInit.InstanceID = d.Order.Host
		}
		image, err := imageOf(d.Order.Image, c.Image)
		if err != nil {
			return nil, err
		}
		c.Mode, c.Image, c.Inventory = config.ModeProvision, image, true
		if h := d.Order.RootHints; h != nil {
			c.RootDevice = hintsOf(h)
		}
	}
	c.Host, c.Finish = d.Order.Name, config.FinishPowerOff
	c.Recorded = d.Disk
	c.KeepDisks, c.Secure = d.Order.KeepDisks, d.Order.Erase
	if err := c.Validate(); err != nil {
		return nil, errors.Trace(err)
	}
	return c, nil
}

// readMeta reads the machine's data into c.
func readMeta(c *config.MachineConfig, data Data) error {
	meta := map[string]any{}
	if yaml.Unmarshal([]byte(data.Meta), &meta) != nil { // its error quotes the text
		return errors.NewNotValid(nil, "the meta data of the machine is no YAML map")
	}
	if further, ok := meta[metaInstaller]; ok {
		text, err := json.Marshal(further)
		if err != nil {
			return errors.NewNotValid(nil, "the member \"installer\" of the meta data is no map")
		}
		strict := json.NewDecoder(bytes.NewReader(text))
		strict.DisallowUnknownFields()
		if err := strict.Decode(c); err != nil {
			return errors.NewNotValid(nil, "the member \"installer\" of the meta data: "+fieldOf(err))
		}
		delete(meta, metaInstaller)
	}
	take := func(key string) string {
		v, ok := meta[key]
		delete(meta, key)
		if !ok || v == nil {
			return ""
		}
		return fmt.Sprint(v)
	}
	ci := &config.CloudInit{InstanceID: take(metaInstance), DataSource: take(metaDataSource), UserData: data.User, NetworkData: data.Network}
	if name := take(metaHostname); name != "" {
		c.Hostname = name
	}
	if len(meta) > 0 {
		ci.MetaData = make(map[string]string, len(meta))
	}
	for k := range meta {
		ci.MetaData[k] = take(k)
	}
	if ci.UserData != "" || ci.NetworkData != "" || ci.InstanceID != "" || len(ci.MetaData) > 0 {
		c.CloudInit = ci
	}
	return nil
}

// fieldOf says what a JSON decoder did not like, without the value.
func fieldOf(err error) string {
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) {
		return fmt.Sprintf("%q is no %s", wrong.Field, wrong.Type)
	}
	if text := err.Error(); strings.HasPrefix(text, "json: unknown field ") {
		return strings.TrimPrefix(text, "json: ")
	}
	return "not of the form of a machine's config"
}

// imageOf returns an image as installers know it. Signature and other forms of a checksum
// come from further settings.
func imageOf(i metal3v1alpha1.Image, further config.Image) (config.Image, error) {
	if i.IsLiveISO() {
		return config.Image{}, errors.NewNotValid(nil, "a live ISO is not installed on a disk")
	}
	out := further
	out.URLs = append([]string{i.URL}, further.URLs...)
	if i.Checksum == "" {
		return out, nil
	}
	if strings.Contains(i.Checksum, "://") {
		return out, errors.NewNotValid(nil, "the image's checksum is a URL: give the checksum itself, as 64 or 128 hexadecimal digits")
	}
	out.Checksum = i.Checksum
	switch i.ChecksumType {
	case metal3v1alpha1.SHA256, metal3v1alpha1.SHA512:
		if !strings.Contains(i.Checksum, ":") {
			out.Checksum = string(i.ChecksumType) + ":" + i.Checksum
		}
	case "":
	default:
		return out, errors.NewNotValid(nil, fmt.Sprintf("the image's checksum is of type %s: give a sha256 or sha512", i.ChecksumType))
	}
	return out, nil
}

// hintsOf returns hints as installers know them.
func hintsOf(h *metal3v1alpha1.RootDeviceHints) config.DiskHints {
	const gib, gb = 1 << 30, 1e9
	return config.DiskHints{
		Name: h.DeviceName, Serial: h.SerialNumber, WWN: h.WWN, WWNWithExtension: h.WWNWithExtension, WWNVendorExtension: h.WWNVendorExtension,
		Model: h.Model, Vendor: h.Vendor, HCTL: h.HCTL, MinSizeGB: uint64(max(0, h.MinSizeGigabytes)) * gib / gb, Rotational: h.Rotational,
	}
}

// name returns what is kept of a name that a machine gives. Blanks stay, since disks are known
// again by theirs.
func name(text string) string { return shortened(text, maxName) }

// Details returns what an installer found the machine to be made of; nil if it sent no
// inventory that can be read.
func Details(inventory, firmware json.RawMessage) *metal3v1alpha1.HardwareDetails {
	var m struct {
		Vendor    string `json:"vendor"`
		Product   string `json:"product"`
		Serial    string `json:"serial"`
		Arch      string `json:"arch"`
		CPUModel  string `json:"cpu-model"`
		CPUs      int    `json:"cpus"`
		MemoryMiB int    `json:"memory-mib"`
		Disks     []struct {
			Path       string `json:"path"`
			Serial     string `json:"serial"`
			WWN        string `json:"wwn"`
			WWNVendor  string `json:"wwn-vendor-extension"`
			Model      string `json:"model"`
			Vendor     string `json:"vendor"`
			HCTL       string `json:"hctl"`
			Size       int64  `json:"size"`
			Rotational bool   `json:"rotational"`
			Removable  bool   `json:"removable"`
			BootMedium bool   `json:"boot-medium"`
		} `json:"disks"`
		Ports []struct {
			Name  string `json:"name"`
			MAC   string `json:"mac"`
			Speed int    `json:"speed-mbps"`
		} `json:"ports"`
	}
	if len(inventory) == 0 || json.Unmarshal(inventory, &m) != nil || m.CPUs <= 0 {
		return nil
	}
	arch := map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[m.Arch]
	if arch == "" {
		arch = m.Arch
	}
	d := &metal3v1alpha1.HardwareDetails{
		SystemVendor: metal3v1alpha1.HardwareSystemVendor{Manufacturer: name(m.Vendor), ProductName: name(m.Product), SerialNumber: name(m.Serial)},
		RAMMebibytes: max(0, m.MemoryMiB), CPU: metal3v1alpha1.CPU{Arch: name(arch), Model: name(m.CPUModel), Count: m.CPUs},
	}
	for _, x := range m.Disks {
		if x.Removable || x.BootMedium || len(d.Storage) == maxParts {
			continue
		}
		d.Storage = append(d.Storage, metal3v1alpha1.Storage{
			Name: name(x.Path), SerialNumber: name(x.Serial), WWN: name(x.WWN), WWNVendorExtension: name(x.WWNVendor), Model: name(x.Model), Vendor: name(x.Vendor),
			HCTL: name(x.HCTL), SizeBytes: max(0, x.Size), Rotational: x.Rotational,
		})
	}
	for _, p := range m.Ports[:min(len(m.Ports), maxParts)] {
		d.NIC = append(d.NIC, metal3v1alpha1.NIC{Name: name(p.Name), MAC: strings.ToLower(name(p.MAC)), SpeedGbps: max(0, p.Speed) / 1000})
	}
	var f struct {
		BIOS   string `json:"bios"`
		Vendor string `json:"bios-vendor"`
		Date   string `json:"bios-date"`
	}
	if len(firmware) > 0 && json.Unmarshal(firmware, &f) == nil {
		d.Firmware.BIOS = metal3v1alpha1.BIOS{Version: name(f.BIOS), Vendor: name(f.Vendor), Date: name(f.Date)}
	}
	return d
}
