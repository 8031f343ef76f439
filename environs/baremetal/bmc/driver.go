package bmc

import (
	"slices"
	"strings"
)

// Family is the protocol spoken with a BMC, as far as our own code cares.
type Family string

// The families.
const (
	FamilyIPMI      Family = "ipmi"
	FamilyRedfish   Family = "redfish"
	FamilyIDRAC     Family = "idrac" // Dell's own, before Redfish
	FamilyILO       Family = "ilo"   // HPE's own, before Redfish
	FamilyIRMC      Family = "irmc"  // Fujitsu
	FamilyIBMC      Family = "ibmc"  // Huawei
	FamilySimulated Family = "simulated"
)

// BootVia is how a host gets its installer.
type BootVia string

// The ways to boot an installer.
const (
	BootPXE          BootVia = "pxe"
	BootVirtualMedia BootVia = "virtual media"
	BootHTTP         BootVia = "UEFI HTTP"
)

// Driver is all there is to know about one scheme. The interface names are
// those of Ironic; an empty one is left to Ironic's default.
type Driver struct {
	Scheme string
	Family Family
	Boot   BootVia

	Name                string // Ironic's hardware type; empty: Ironic does not know it
	BootInterface       string
	BIOSInterface       string
	ManagementInterface string
	PowerInterface      string
	RAIDInterface       string
	VendorInterface     string

	// NeedsMAC is whether a host with this driver must have a boot MAC address.
	NeedsMAC bool
	// TLS is whether the scheme takes a +http or +https suffix and can check
	// certificates.
	TLS bool
	// DefaultPort is for a plain address without port; 0: that of the transport.
	DefaultPort int
}

// drivers is the table of schemes.
func drivers() []Driver {
	const (
		idracRedfish = "idrac-redfish"
		none         = "no-raid"
	)
	return []Driver{
		{Scheme: "ibmc", Family: FamilyIBMC, Boot: BootPXE, Name: "ibmc", BootInterface: "pxe", ManagementInterface: "ibmc", PowerInterface: "ibmc", NeedsMAC: true, TLS: true},
		{Scheme: "idrac", Family: FamilyIDRAC, Boot: BootPXE, Name: "idrac", BootInterface: "ipxe", TLS: true},
		{Scheme: "idrac-redfish", Family: FamilyRedfish, Boot: BootPXE, Name: "idrac", BootInterface: "ipxe", BIOSInterface: idracRedfish, ManagementInterface: idracRedfish, PowerInterface: idracRedfish, RAIDInterface: idracRedfish, VendorInterface: idracRedfish, TLS: true},
		{Scheme: "idrac-virtualmedia", Family: FamilyRedfish, Boot: BootVirtualMedia, Name: "idrac", BootInterface: "idrac-redfish-virtual-media", ManagementInterface: idracRedfish, PowerInterface: idracRedfish, RAIDInterface: none, VendorInterface: "no-vendor", NeedsMAC: true, TLS: true},
		{Scheme: "ilo4", Family: FamilyILO, Boot: BootPXE, Name: "ilo", BootInterface: "ilo-ipxe", NeedsMAC: true, TLS: true},
		{Scheme: "ilo4-virtualmedia", Family: FamilyILO, Boot: BootVirtualMedia, Name: "ilo", BootInterface: "ilo-virtual-media", NeedsMAC: true, TLS: true},
		{Scheme: "ilo5", Family: FamilyILO, Boot: BootPXE, Name: "ilo5", BootInterface: "ilo-ipxe", RAIDInterface: "ilo5", NeedsMAC: true, TLS: true},
		{Scheme: "ilo5-redfish", Family: FamilyRedfish, Boot: BootPXE, Name: "redfish", BootInterface: "ipxe", NeedsMAC: true, TLS: true},
		{Scheme: "ilo5-virtualmedia", Family: FamilyRedfish, Boot: BootVirtualMedia, Name: "redfish", BootInterface: "redfish-virtual-media", NeedsMAC: true, TLS: true},
		{Scheme: "ipmi", Family: FamilyIPMI, Boot: BootPXE, Name: "ipmi", BootInterface: "ipxe", DefaultPort: 623},
		{Scheme: "irmc", Family: FamilyIRMC, Boot: BootPXE, Name: "irmc", BootInterface: "pxe", RAIDInterface: "irmc", TLS: true},
		{Scheme: "libvirt", Family: FamilyIPMI, Boot: BootPXE, Name: "ipmi", BootInterface: "ipxe", NeedsMAC: true, DefaultPort: 623},
		{Scheme: "redfish", Family: FamilyRedfish, Boot: BootPXE, Name: "redfish", BootInterface: "ipxe", NeedsMAC: true, TLS: true},
		{Scheme: "redfish-uefihttp", Family: FamilyRedfish, Boot: BootHTTP, Name: "redfish", BootInterface: "redfish-https", TLS: true},
		{Scheme: "redfish-virtualmedia", Family: FamilyRedfish, Boot: BootVirtualMedia, Name: "redfish", BootInterface: "redfish-virtual-media", NeedsMAC: true, TLS: true},
		{Scheme: "simulated", Family: FamilySimulated, Boot: BootVirtualMedia, Name: "fake-hardware"},
	}
}

// Drivers returns the known drivers, sorted by scheme.
func Drivers() []Driver { return drivers() }

// driverFor returns the driver of scheme.
func driverFor(scheme string) (Driver, bool) {
	all := drivers()
	i := slices.IndexFunc(all, func(d Driver) bool { return d.Scheme == scheme })
	if i < 0 {
		return Driver{}, false
	}
	return all[i], true
}

// schemes lists the known schemes for an error message.
func schemes() string {
	var names []string
	for _, d := range drivers() {
		names = append(names, d.Scheme)
	}
	return strings.Join(names, ", ")
}

// prefix returns what Ironic puts before the keys of driver_info.
func (d Driver) prefix() string {
	switch d.Family {
	case FamilyIDRAC:
		return "drac"
	case FamilySimulated:
		return "fake"
	default:
		return string(d.Family)
	}
}

// DriverInfo returns what Ironic calls driver_info: how it reaches the BMC.
// skipVerify switches the check of the BMC's certificate off. The map holds the
// password: it must not be logged.
func (a Address) DriverInfo(c Credentials, skipVerify bool) map[string]any {
	p := a.Driver.prefix()
	info := map[string]any{p + "_username": c.Username, p + "_password": c.Password}
	switch a.Driver.Family {
	case FamilyIPMI:
		info["ipmi_address"] = a.Host
		info["ipmi_port"] = a.portOr(a.Driver.DefaultPort)
		if a.PrivilegeLevel != "" {
			info["ipmi_priv_level"] = a.PrivilegeLevel
		}
	case FamilyRedfish:
		info["redfish_address"] = a.Endpoint()
		if a.Path != "" && a.Path != "/redfish/v1" {
			info["redfish_system_id"] = a.Path
		}
	case FamilyIDRAC:
		info["drac_address"] = a.Host
		info["drac_protocol"] = a.Transport
		info["drac_path"] = pathOr(a.Path, "/wsman")
		if a.Port != 0 {
			info["drac_port"] = a.Port
		}
	case FamilyIBMC:
		info["ibmc_address"] = a.Endpoint() + a.Path
	case FamilyILO:
		info["ilo_address"] = a.Host
		if a.Port != 0 {
			info["client_port"] = a.Port
		}
	case FamilyIRMC:
		info["irmc_address"] = a.Host
		if a.Port != 0 {
			info["irmc_port"] = a.Port
		}
	case FamilySimulated:
		return map[string]any{}
	}
	if skipVerify && a.Driver.TLS {
		info[p+"_verify_ca"] = false
	}
	return info
}

// pathOr returns path, or d if there is none.
func pathOr(path, d string) string {
	if path == "" {
		return d
	}
	return path
}
