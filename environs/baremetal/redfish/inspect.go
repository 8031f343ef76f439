package redfish

import (
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strings"
	"sync"

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

// inventory is what we need of a ComputerSystem for its parts.
type inventory struct {
	Manufacturer, Model, SerialNumber, HostName string
	BiosVersion                                 string
	MemorySummary                               struct{ TotalSystemMemoryGiB float64 }
	ProcessorSummary                            struct {
		Model                 string
		LogicalProcessorCount int
	}
	Processors, Memory, Storage, EthernetInterfaces link
}

// inspect reads the inventory.
func (c *call) inspect() (*metal3v1alpha1.HardwareDetails, error) {
	var sys inventory
	if _, err := c.conn.get(c.ctx, c.path, &sys); err != nil {
		return nil, errors.Trace(err)
	}
	d := &metal3v1alpha1.HardwareDetails{
		SystemVendor: metal3v1alpha1.HardwareSystemVendor{Manufacturer: sys.Manufacturer, ProductName: sys.Model, SerialNumber: sys.SerialNumber},
		Firmware:     metal3v1alpha1.Firmware{BIOS: metal3v1alpha1.BIOS{Version: sys.BiosVersion}},
		RAMMebibytes: int(sys.MemorySummary.TotalSystemMemoryGiB * 1024),
		Hostname:     sys.HostName,
		CPU:          metal3v1alpha1.CPU{Arch: "x86_64", Model: sys.ProcessorSummary.Model, Count: sys.ProcessorSummary.LogicalProcessorCount},
	}
	for _, part := range []func(inventory, *metal3v1alpha1.HardwareDetails) error{
		c.readProcessors, c.readMemory, c.readStorage, c.readNICs,
	} {
		if err := part(sys, d); err != nil {
			if !tolerable(err) {
				return nil, errors.Trace(err)
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

// maxMembers bounds a collection: no machine has more processors, memory modules,
// disks or interfaces.
const maxMembers = 1024

// members returns the paths of a collection's members, over all its pages. A
// collection without a path has none.
func (c *call) members(path string) ([]string, error) {
	var all []string
	for path != "" {
		var page struct {
			Members []link
			Next    string `json:"Members@odata.nextLink"`
		}
		if _, err := c.conn.get(c.ctx, path, &page); err != nil {
			return nil, errors.Trace(err)
		}
		for _, m := range page.Members {
			all = append(all, m.ID)
		}
		if len(all) > maxMembers || len(page.Members) == 0 && page.Next != "" {
			return nil, verdictf("the BMC's collection at %s has no end", path)
		}
		path = page.Next
	}
	return all, nil
}

// readAll reads the resources at paths, a few at a time and in order. T is a type
// of gofish's data model, or one of ours.
func readAll[T any](c *call, paths []string) ([]T, error) {
	all, failures := make([]T, len(paths)), make([]error, len(paths))
	work := make(chan int)
	var wg sync.WaitGroup
	for range maxInFlight - 1 { // one is left for others
		wg.Go(func() {
			for i := range work {
				failures[i] = c.readOne(paths[i], &all[i])
			}
		})
	}
	for i := range paths {
		work <- i
	}
	close(work)
	wg.Wait()
	for _, err := range failures {
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// readOne reads one resource. The decoders of gofish are not made for BMCs that
// answer anything at all: a panic of theirs is a fault of the answer.
func (c *call) readOne(path string, v any) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = verdictf("what the BMC answers at %s is not what Redfish prescribes: %v", path, p)
		}
	}()
	_, err = c.conn.get(c.ctx, path, v)
	return errors.Trace(err)
}

// readCollection reads all members of a collection.
func readCollection[T any](c *call, path string) ([]T, error) {
	paths, err := c.members(path)
	if err != nil {
		return nil, errors.Trace(err)
	}
	return readAll[T](c, paths)
}

// tolerable reports whether inspection goes on without that part: the BMC does
// not have it.
func tolerable(err error) bool {
	s := statusOf(err)
	return s == 404 || s == 405 || s == 501
}

// readProcessors adds up the processors.
func (c *call) readProcessors(sys inventory, d *metal3v1alpha1.HardwareDetails) error {
	all, err := readCollection[gofish.Processor](c, sys.Processors.ID)
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
func (c *call) readMemory(sys inventory, d *metal3v1alpha1.HardwareDetails) error {
	all, err := readCollection[gofish.Memory](c, sys.Memory.ID)
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
func (c *call) readStorage(sys inventory, d *metal3v1alpha1.HardwareDetails) error {
	type storage struct {
		ID     string `json:"Id"`
		Drives []link
	}
	controllers, err := readCollection[storage](c, sys.Storage.ID)
	if err != nil {
		return err
	}
	for _, controller := range controllers {
		var paths []string
		for _, l := range controller.Drives {
			paths = append(paths, l.ID)
		}
		drives, err := readAll[gofish.Drive](c, paths[:min(len(paths), maxMembers)])
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
func (c *call) readNICs(sys inventory, d *metal3v1alpha1.HardwareDetails) error {
	all, err := readCollection[gofish.EthernetInterface](c, sys.EthernetInterfaces.ID)
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
