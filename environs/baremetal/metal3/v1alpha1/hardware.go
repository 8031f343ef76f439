package metal3v1alpha1

// HardwareDetails is what inspection found.
type HardwareDetails struct {
	SystemVendor HardwareSystemVendor `json:"systemVendor,omitzero"`
	Firmware     Firmware             `json:"firmware,omitzero"`
	RAMMebibytes int                  `json:"ramMebibytes"`
	NIC          []NIC                `json:"nics,omitempty"`
	Storage      []Storage            `json:"storage,omitempty"`
	CPU          CPU                  `json:"cpu,omitzero"`
	Hostname     string               `json:"hostname,omitempty"`
}

// HardwareSystemVendor is who built the host.
type HardwareSystemVendor struct {
	Manufacturer string `json:"manufacturer,omitempty"`
	ProductName  string `json:"productName,omitempty"`
	SerialNumber string `json:"serialNumber,omitempty"`
}

// Firmware is what the host starts with.
type Firmware struct {
	BIOS BIOS `json:"bios,omitzero"`
}

// BIOS is the host's BIOS or UEFI firmware.
type BIOS struct {
	Date    string `json:"date,omitempty"`
	Vendor  string `json:"vendor,omitempty"`
	Version string `json:"version,omitempty"`
}

// NIC is one network interface with one address. An interface with an IPv4 and
// an IPv6 address is listed twice, IPv4 first; one without is listed once with an
// empty IP.
type NIC struct {
	Name string `json:"name"`
	// Model is "0xVVVV 0xDDDD", the PCI vendor and device, where known.
	Model string `json:"model,omitempty"`
	MAC   string `json:"mac,omitempty"` // lower case, with colons
	IP    string `json:"ip,omitempty"`
	// SpeedGbps is the link's speed in Gbit/s; 0 means unknown or less than one.
	SpeedGbps int    `json:"speedGbps,omitempty"`
	VLANs     []VLAN `json:"vlans,omitempty"`
	VLANID    VLANID `json:"vlanId,omitempty"` // 0: untagged
	// PXE is whether the host can install from this interface.
	PXE bool `json:"pxe,omitempty"`
}

// VLANID is between 0 and 4094.
type VLANID int32

// VLAN is a virtual network seen on an interface.
type VLAN struct {
	ID   VLANID `json:"id"`
	Name string `json:"name,omitempty"`
}

// Storage is one disk.
type Storage struct {
	Name       string `json:"name"` // a device name such as /dev/sda
	Rotational bool   `json:"rotational"`
	SizeBytes  int64  `json:"sizeBytes"`

	Vendor             string `json:"vendor,omitempty"`
	Model              string `json:"model,omitempty"`
	SerialNumber       string `json:"serialNumber,omitempty"`
	WWN                string `json:"wwn,omitempty"`
	WWNVendorExtension string `json:"wwnVendorExtension,omitempty"`
	WWNWithExtension   string `json:"wwnWithExtension,omitempty"`
	HCTL               string `json:"hctl,omitempty"` // SCSI address, "0:0:0:0"
}

// CPU is the host's processors taken together.
type CPU struct {
	Arch           string   `json:"arch"`
	Model          string   `json:"model,omitempty"`
	ClockMegahertz float64  `json:"clockMegahertz"` // rounded to whole megahertz
	Flags          []string `json:"flags,omitempty"`
	Count          int      `json:"count"` // logical processors
}
