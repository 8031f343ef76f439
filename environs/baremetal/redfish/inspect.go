package redfish

import (
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strings"

	"github.com/juju/errors"
	"github.com/stmcginnis/gofish/common"
	gofish "github.com/stmcginnis/gofish/redfish"

	metal3v1alpha1 "github.com/slipway-project/slipway/environs/baremetal/metal3/v1alpha1"
	"github.com/slipway-project/slipway/environs/baremetal/provisioner"
)

// InspectHardware is described by provisioner.Provisioner. It reads what the BMC
// knows, with the machine on or off.
func (p *hostProvisioner) InspectHardware() (provisioner.Result, *metal3v1alpha1.HardwareDetails, error) {
	var details *metal3v1alpha1.HardwareDetails
	result, err := p.run(func(c *call) (provisioner.Result, error) {
		p.publish("InspectionStarted", "Hardware inspection started")
		d, err := c.inspect()
		if err != nil {
			return provisioner.Result{}, err
		}
		details = d
		p.publish("InspectionComplete", "Hardware inspection completed")
		return provisioner.Result{}, nil
	})
	return result, details, err
}

// inspect reads the inventory.
func (c *call) inspect() (*metal3v1alpha1.HardwareDetails, error) {
	r := reader{c.ctx, c.conn}
	sys, err := gofish.GetComputerSystem(r, c.path)
	if err != nil {
		return nil, c.readable(err)
	}
	d := &metal3v1alpha1.HardwareDetails{
		SystemVendor: metal3v1alpha1.HardwareSystemVendor{Manufacturer: sys.Manufacturer, ProductName: sys.Model, SerialNumber: sys.SerialNumber},
		Firmware:     metal3v1alpha1.Firmware{BIOS: metal3v1alpha1.BIOS{Version: sys.BIOSVersion}},
		RAMMebibytes: int(sys.MemorySummary.TotalSystemMemoryGiB * 1024),
		Hostname:     sys.HostName,
		CPU:          metal3v1alpha1.CPU{Arch: "x86_64", Model: sys.ProcessorSummary.Model, Count: sys.ProcessorSummary.LogicalProcessorCount},
	}
	for _, part := range []func(*gofish.ComputerSystem, *metal3v1alpha1.HardwareDetails) error{
		readProcessors, readMemory, readStorage, readNICs,
	} {
		if err := part(sys, d); err != nil {
			if err = c.readable(err); !tolerable(err) {
				return nil, err
			}
			logger.Warningf("host %s: inventory is not complete: %s", c.host.Metadata.Name, clean(err.Error(), c.creds.Password))
		}
	}
	c.markPXE(d)
	if d.RAMMebibytes <= 0 || d.CPU.Count <= 0 {
		return nil, verdictf("the BMC tells neither how many processors nor how much memory the machine has; power it on once, so that its firmware takes the inventory")
	}
	return d, nil
}

// readable turns gofish's errors, which may quote whole answers, into ours.
func (c *call) readable(err error) error {
	var (
		v       verdict
		r       *refusal
		u       unreachable
		several *common.CollectionError
	)
	switch {
	case errors.As(err, &v), errors.As(err, &r), errors.As(err, &u):
		return err
	case errors.As(err, &several):
		for _, one := range several.Failures {
			return c.readable(one)
		}
	}
	// What is left is about decoding: a conn's own errors are sorted already.
	return verdictf("the BMC's inventory is not what Redfish prescribes: %s", clean(err.Error(), c.creds.Password))
}

// tolerable reports whether inspection goes on without that part: the BMC does
// not have it.
func tolerable(err error) bool {
	s := statusOf(err)
	return s == 404 || s == 405 || s == 501
}

// readProcessors adds up the processors.
func readProcessors(sys *gofish.ComputerSystem, d *metal3v1alpha1.HardwareDetails) error {
	all, err := sys.Processors()
	if err != nil {
		return err
	}
	threads := 0
	for _, p := range all {
		if p.ProcessorType != "" && p.ProcessorType != gofish.CPUProcessorType || p.Status.State == common.AbsentState {
			continue
		}
		threads += max(p.TotalThreads, p.TotalCores)
		if p.Model != "" {
			d.CPU.Model = p.Model
		}
		if mhz := math.Round(float64(p.MaxSpeedMHz)); mhz > 0 {
			d.CPU.ClockMegahertz = mhz
		}
		switch {
		case strings.HasPrefix(string(p.ProcessorArchitecture), "ARM") || strings.HasPrefix(string(p.InstructionSet), "ARM"):
			d.CPU.Arch = "aarch64"
		case strings.HasPrefix(string(p.InstructionSet), "Power"):
			d.CPU.Arch = "ppc64le"
		}
	}
	if threads > 0 {
		d.CPU.Count = threads
	}
	return nil
}

// readMemory adds up the memory modules, which are exact where the summary is
// rounded.
func readMemory(sys *gofish.ComputerSystem, d *metal3v1alpha1.HardwareDetails) error {
	all, err := sys.Memory()
	if err != nil {
		return err
	}
	total := 0
	for _, m := range all {
		if m.Status.State != common.AbsentState {
			total += m.CapacityMiB
		}
	}
	if total > 0 {
		d.RAMMebibytes = total
	}
	return nil
}

// readStorage lists the disks. The operating system's names for them are not
// known to a BMC: they are called by their place.
func readStorage(sys *gofish.ComputerSystem, d *metal3v1alpha1.HardwareDetails) error {
	controllers, err := sys.Storage()
	if err != nil {
		return err
	}
	for _, controller := range controllers {
		drives, err := controller.Drives()
		if err != nil {
			return err
		}
		for _, drive := range drives {
			if drive.CapacityBytes <= 0 || drive.Status.State == common.AbsentState {
				continue
			}
			s := metal3v1alpha1.Storage{
				Name: drive.Name, Rotational: drive.MediaType == gofish.HDDMediaType, SizeBytes: drive.CapacityBytes,
				Vendor: drive.Manufacturer, Model: drive.Model, SerialNumber: drive.SerialNumber,
			}
			if s.Name == "" {
				s.Name = controller.ID + "/" + drive.ID
			}
			for _, id := range drive.Identifiers {
				if id.DurableNameFormat == common.NAADurableNameFormat {
					s.WWN = "0x" + strings.ToLower(strings.TrimPrefix(id.DurableName, "0x"))
				}
			}
			d.Storage = append(d.Storage, s)
		}
	}
	slices.SortStableFunc(d.Storage, func(a, b metal3v1alpha1.Storage) int { return strings.Compare(a.Name, b.Name) })
	return nil
}

// readNICs lists the network interfaces.
func readNICs(sys *gofish.ComputerSystem, d *metal3v1alpha1.HardwareDetails) error {
	all, err := sys.EthernetInterfaces()
	if err != nil {
		return err
	}
	for _, n := range all {
		mac := n.PermanentMACAddress
		if mac == "" {
			mac = n.MACAddress
		}
		if mac == "" {
			continue
		}
		one := metal3v1alpha1.NIC{Name: n.ID, MAC: strings.ToLower(strings.ReplaceAll(mac, "-", ":")), SpeedGbps: n.SpeedMbps / 1000}
		if v := n.VLAN; v.VLANEnable {
			one.VLANID = metal3v1alpha1.VLANID(v.VLANID)
		}
		var ips []string
		for _, a := range n.IPv4Addresses {
			ips = append(ips, a.Address)
		}
		for _, a := range n.IPv6Addresses {
			ips = append(ips, a.Address)
		}
		listed := false
		for _, text := range ips {
			ip, err := netip.ParseAddr(text)
			if err != nil || ip.IsUnspecified() || ip.IsLinkLocalUnicast() {
				continue
			}
			one.IP, listed = ip.String(), true
			d.NIC = append(d.NIC, one)
		}
		if !listed {
			d.NIC = append(d.NIC, one)
		}
	}
	slices.SortStableFunc(d.NIC, func(a, b metal3v1alpha1.NIC) int { return strings.Compare(a.Name, b.Name) })
	return nil
}

// markPXE marks the interface that the host installs from.
func (c *call) markPXE(d *metal3v1alpha1.HardwareDetails) {
	for i := range d.NIC {
		d.NIC[i].PXE = strings.EqualFold(d.NIC[i].MAC, c.host.Spec.BootMACAddress)
	}
	if len(d.NIC) == 0 {
		logger.Warningf("host %s: %s", c.host.Metadata.Name, fmt.Sprintf("the BMC at %s lists no network interfaces", c.address.Endpoint()))
	}
}
