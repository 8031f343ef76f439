package provision

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/juju/errors"
)

const (
	mellanoxVendor = "0x15b3"
	// defaultVirtualFns is asked for when no number is given.
	defaultVirtualFns = 32
)

// pciVendorCheck overrides how PCI vendors are detected; nil looks into sysfs.
var pciVendorCheck atomic.Pointer[func(string) (bool, error)]

// SetPCIVendorCheckFunc overrides the PCI vendor detection for testing. Returns a
// restore function that resets to the original implementation.
func SetPCIVendorCheckFunc(fn func(string) (bool, error)) func() {
	old := pciVendorCheck.Swap(&fn)
	return func() { pciVendorCheck.Store(old) }
}

// SetupMellanox detects and configures Mellanox ConnectX NICs. Returns true if firmware
// values were changed (requiring a hard reboot for reinit).
//
// Each adapter's settings are queried first and set only where SR-IOV is off or the number of virtual
// functions differs from numVFs; 0 or less means 32. An adapter that cannot be queried or
// set is a warning. The tool is the installed system's, so its root must be mounted.
func (c *Configurator) SetupMellanox(ctx context.Context, numVFs int) (bool, error) {
	if numVFs <= 0 {
		numVFs = defaultVirtualFns
	}
	check := func(vendor string) (bool, error) { return len(c.adapters(vendor)) > 0, nil }
	if p := pciVendorCheck.Load(); p != nil && *p != nil {
		check = *p
	}
	found, err := check(mellanoxVendor)
	if err != nil {
		logger.Warningf("network adapters are not configured: %v", err)
		return false, nil
	}
	if !found {
		return false, nil
	}
	changed := false
	for _, address := range c.adapters(mellanoxVendor) {
		if err := ctx.Err(); err != nil {
			return changed, errors.Trace(err)
		}
		set, err := c.setVirtualFns(ctx, address, numVFs)
		if err != nil {
			logger.Warningf("network adapter %s is not configured: %v", address, err)
		}
		changed = changed || set
	}
	return changed, nil
}

// adapters returns the PCI addresses of network adapters of a vendor, one for each
// card: function 0. They are sorted.
func (c *Configurator) adapters(vendor string) []string {
	dirs, _ := filepath.Glob(filepath.Join(c.disk.SysRoot(), "bus", "pci", "devices", "*.0"))
	var out []string
	for _, d := range dirs {
		v, err := os.ReadFile(filepath.Join(d, "vendor"))
		if err != nil || strings.TrimSpace(string(v)) != vendor {
			continue
		}
		class, err := os.ReadFile(filepath.Join(d, "class"))
		if err == nil && strings.HasPrefix(strings.TrimSpace(string(class)), "0x02") && pciAddress.MatchString(filepath.Base(d)) {
			out = append(out, filepath.Base(d))
		}
	}
	slices.Sort(out)
	return out
}

var (
	pciAddress = regexp.MustCompile(`^[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.0$`)
	mstSetting = regexp.MustCompile(`(?m)^\s*\*?\s*(NUM_OF_VFS|SRIOV_EN)\s+(\S+)`)
)

// setVirtualFns sets one adapter if it differs, and reports whether it did.
func (c *Configurator) setVirtualFns(ctx context.Context, address string, n int) (bool, error) {
	out, err := c.disk.ChrootRun(ctx, c.root, "mstconfig -d "+address+" query")
	if err != nil {
		return false, errors.Annotate(err, "cannot query settings")
	}
	have := map[string]string{}
	for _, m := range mstSetting.FindAllStringSubmatch(string(out), -1) {
		have[m[1]] = m[2]
	}
	if len(have) == 0 {
		return false, errors.NotSupportedf("SR-IOV on this adapter")
	}
	// a value is printed as a number, or as True(1)
	if have["NUM_OF_VFS"] == strconv.Itoa(n) && strings.HasPrefix(have["SRIOV_EN"], "True") {
		return false, nil
	}
	_, err = c.disk.ChrootRun(ctx, c.root, fmt.Sprintf("mstconfig -y -d %s set SRIOV_EN=1 NUM_OF_VFS=%d", address, n))
	if err != nil {
		return false, errors.Annotate(err, "cannot change settings")
	}
	logger.Infof("network adapter %s: virtual functions %s -> %d", address, have["NUM_OF_VFS"], n)
	return true, nil
}
