package ironic

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/inventory"

	metal3v1alpha1 "github.com/slipway-project/slipway/environs/baremetal/metal3/v1alpha1"
)

// detailsOf turns an inventory of Ironic's agent into ours.
func detailsOf(in *inventory.InventoryType, bootMAC string) *metal3v1alpha1.HardwareDetails {
	v := in.SystemVendor
	return &metal3v1alpha1.HardwareDetails{
		SystemVendor: metal3v1alpha1.HardwareSystemVendor{Manufacturer: v.Manufacturer, ProductName: v.ProductName, SerialNumber: v.SerialNumber},
		Firmware:     metal3v1alpha1.Firmware{BIOS: metal3v1alpha1.BIOS{Date: v.Firmware.BuildDate, Vendor: v.Firmware.Vendor, Version: v.Firmware.Version}},
		RAMMebibytes: memoryOf(in.Memory),
		NIC:          nicsOf(in.Interfaces, in.Boot.PXEInterface, bootMAC),
		Storage:      storageOf(in.Disks),
		CPU:          cpuOf(in.CPU),
		Hostname:     in.Hostname,
	}
}

// memoryOf returns what is built in, or else what the kernel sees, in MiB.
func memoryOf(m inventory.MemoryType) int {
	if m.PhysicalMb > 0 {
		return m.PhysicalMb
	}
	return m.Total >> 20
}

// cpuOf returns the processors, with sorted flags and a rounded clock.
func cpuOf(c inventory.CPUType) metal3v1alpha1.CPU {
	mhz, _ := strconv.ParseFloat(c.Frequency, 64)
	flags := slices.Clone(c.Flags)
	slices.Sort(flags)
	return metal3v1alpha1.CPU{Arch: c.Architecture, Model: c.ModelName, ClockMegahertz: math.Round(mhz), Flags: flags, Count: c.Count}
}

// nicsOf returns the interfaces, one entry for each address.
func nicsOf(all []inventory.InterfaceType, pxe, bootMAC string) []metal3v1alpha1.NIC {
	var nics []metal3v1alpha1.NIC
	pxe = strings.ReplaceAll(pxe, "-", ":")
	for _, i := range all {
		n := metal3v1alpha1.NIC{Name: i.Name, Model: strings.TrimSpace(i.Vendor + " " + i.Product), MAC: strings.ToLower(i.MACAddress), SpeedGbps: i.SpeedMbps / 1000}
		n.PXE = n.MAC != "" && (strings.HasSuffix(strings.ToLower(pxe), n.MAC) || strings.EqualFold(n.MAC, bootMAC))
		before := len(nics)
		for _, ip := range []string{i.IPV4Address, i.IPV6Address} {
			if ip != "" {
				n.IP = ip
				nics = append(nics, n)
			}
		}
		if len(nics) == before {
			nics = append(nics, n)
		}
	}
	return nics
}

// storageOf returns the disks.
func storageOf(all []inventory.RootDiskType) []metal3v1alpha1.Storage {
	var disks []metal3v1alpha1.Storage
	for _, d := range all {
		disks = append(disks, metal3v1alpha1.Storage{
			Name: d.Name, Rotational: d.Rotational, SizeBytes: d.Size, Vendor: d.Vendor, Model: d.Model, SerialNumber: d.Serial,
			WWN: d.Wwn, WWNVendorExtension: d.WwnVendorExtension, WWNWithExtension: d.WwnWithExtension, HCTL: d.Hctl,
		})
	}
	return disks
}

// detailsOfProperties returns the little that a node's properties tell.
func detailsOfProperties(p map[string]any) *metal3v1alpha1.HardwareDetails {
	d := &metal3v1alpha1.HardwareDetails{
		RAMMebibytes: number(p["memory_mb"]),
		CPU:          metal3v1alpha1.CPU{Arch: "x86_64", Count: number(p["cpus"])},
	}
	if arch, ok := p["cpu_arch"]; ok {
		d.CPU.Arch = fmt.Sprint(arch)
	}
	if gb := number(p["local_gb"]); gb > 0 {
		d.Storage = []metal3v1alpha1.Storage{{Name: "/dev/sda", SizeBytes: int64(gb) << 30}}
	}
	return d
}
