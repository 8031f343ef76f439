package provision

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/provision/config"
	"github.com/slipway-project/slipway/provision/disk"
	"github.com/slipway-project/slipway/provision/health"
)

// MachineInventory is what a machine is made of.
type MachineInventory struct {
	Vendor    string      `json:"vendor,omitempty"`
	Product   string      `json:"product,omitempty"`
	Serial    string      `json:"serial,omitempty"`
	Arch      string      `json:"arch"`
	CPUModel  string      `json:"cpu-model,omitempty"`
	CPUs      int         `json:"cpus"` // logical processors
	MemoryMiB uint64      `json:"memory-mib"`
	EFI       bool        `json:"efi"`
	Disks     []disk.Info `json:"disks"`
	Ports     []Port      `json:"ports"`
}

// Port is one network port of a machine.
type Port struct {
	Name      string `json:"name"`
	MAC       string `json:"mac"`
	SpeedMbps int    `json:"speed-mbps,omitempty"` // 0 is unknown, or no link
	Link      bool   `json:"link"`
	Driver    string `json:"driver,omitempty"`
}

// Inventory describes the machine that m's roots show, as JSON of a MachineInventory.
func Inventory(m *disk.Manager) ([]byte, error) {
	sys := m.SysRoot()
	disks, err := m.Disks()
	if err != nil {
		return nil, err
	}
	memory, _ := health.InstalledMemoryMiB(sys, m.ProcRoot())
	_, efiErr := os.Stat(filepath.Join(sys, "firmware/efi"))
	b, err := json.Marshal(MachineInventory{
		Vendor: sysText(sys, "class/dmi/id/sys_vendor"), Product: sysText(sys, "class/dmi/id/product_name"), Serial: sysText(sys, "class/dmi/id/product_serial"),
		Arch: runtime.GOARCH, CPUModel: cpuModel(m.ProcRoot()), CPUs: health.CPUs(m.ProcRoot()), MemoryMiB: memory, EFI: efiErr == nil,
		Disks: disks, Ports: ports(sys),
	})
	return b, errors.Annotate(err, "cannot encode inventory")
}

// sysText reads a trimmed attribute, "" if there is none.
func sysText(root, name string) string {
	b, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

func cpuModel(proc string) string {
	for _, line := range strings.Split(sysText(proc, "cpuinfo"), "\n") {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// ports lists the ports with a device below them.
func ports(sys string) []Port {
	dirs, _ := filepath.Glob(filepath.Join(sys, "class/net/*/device"))
	var out []Port
	for _, d := range dirs {
		d = filepath.Dir(d)
		speed, _ := strconv.Atoi(sysText(d, "speed"))
		p := Port{Name: filepath.Base(d), MAC: sysText(d, "address"), SpeedMbps: max(0, speed), Link: sysText(d, "carrier") == "1"}
		if target, err := os.Readlink(filepath.Join(d, "device/driver")); err == nil {
			p.Driver = filepath.Base(target)
		}
		out = append(out, p)
	}
	return out
}

// firmware is what versions a machine runs.
type firmware struct {
	BIOS       string `json:"bios,omitempty"`
	BIOSVendor string `json:"bios-vendor,omitempty"`
	BIOSDate   string `json:"bios-date,omitempty"`
	BMC        string `json:"bmc,omitempty"`
}

// readFirmware reads versions from DMI and from the IPMI driver.
func readFirmware(sys string) firmware {
	f := firmware{BIOS: sysText(sys, "class/dmi/id/bios_version"), BIOSVendor: sysText(sys, "class/dmi/id/bios_vendor"), BIOSDate: sysText(sys, "class/dmi/id/bios_date")}
	if found, _ := filepath.Glob(filepath.Join(sys, "class/ipmi/*/device/bmc/firmware_revision")); len(found) > 0 {
		f.BMC = sysText("", found[0])
	}
	return f
}

func (f firmware) json() []byte {
	b, err := json.Marshal(f)
	if err != nil {
		return []byte("{}")
	}
	return b
}

// check returns an error satisfying errors.NotValid if a version is below the least
// wanted, or is wanted and cannot be read.
func (f firmware) check(want config.Firmware) error {
	for _, v := range []struct{ what, have, least string }{{"BIOS", f.BIOS, want.MinBIOS}, {"BMC", f.BMC, want.MinBMC}} {
		if v.least != "" && (v.have == "" || compareVersions(v.have, v.least) < 0) {
			return errors.NewNotValid(nil, fmt.Sprintf("%s version is %q, want %q at least", v.what, v.have, v.least))
		}
	}
	return nil
}

var versionPart = regexp.MustCompile(`\d+|[A-Za-z]+`)

// compareVersions compares runs of digits as numbers and runs of letters as text.
func compareVersions(a, b string) int {
	x, y := versionPart.FindAllString(a, -1), versionPart.FindAllString(b, -1)
	for i := range min(len(x), len(y)) {
		m, merr := strconv.ParseUint(x[i], 10, 64)
		n, nerr := strconv.ParseUint(y[i], 10, 64)
		switch {
		case merr == nil && nerr == nil && m != n:
			if m < n {
				return -1
			}
			return 1
		case (merr != nil || nerr != nil) && x[i] != y[i]:
			return strings.Compare(x[i], y[i])
		}
	}
	return len(x) - len(y)
}
