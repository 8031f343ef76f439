package metal3v1alpha1

import (
	"fmt"
	"slices"
	"strings"
)

// RootDeviceHints say which disk the image goes to. A disk must meet all the
// hints that are given. The zero value meets every disk.
type RootDeviceHints struct {
	DeviceName         string `json:"deviceName,omitempty"` // exact
	HCTL               string `json:"hctl,omitempty"`       // exact
	Model              string `json:"model,omitempty"`      // part of it
	Vendor             string `json:"vendor,omitempty"`     // part of it
	SerialNumber       string `json:"serialNumber,omitempty"`
	MinSizeGigabytes   int    `json:"minSizeGigabytes,omitempty"` // GiB; 0: any
	WWN                string `json:"wwn,omitempty"`
	WWNWithExtension   string `json:"wwnWithExtension,omitempty"`
	WWNVendorExtension string `json:"wwnVendorExtension,omitempty"`
	Rotational         *bool  `json:"rotational,omitempty"` // nil: either
}

// Match reports whether disk meets all hints.
func (r *RootDeviceHints) Match(disk Storage) bool {
	if r == nil {
		return true
	}
	exact := []struct{ want, have string }{
		{r.DeviceName, disk.Name},
		{r.HCTL, disk.HCTL},
		{r.SerialNumber, disk.SerialNumber},
		{r.WWN, disk.WWN},
		{r.WWNWithExtension, disk.WWNWithExtension},
		{r.WWNVendorExtension, disk.WWNVendorExtension},
	}
	for _, e := range exact {
		if e.want != "" && e.want != e.have {
			return false
		}
	}
	if !containsFold(disk.Model, r.Model) || !containsFold(disk.Vendor, r.Vendor) {
		return false
	}
	if r.Rotational != nil && *r.Rotational != disk.Rotational {
		return false
	}
	return disk.SizeBytes>>30 >= int64(r.MinSizeGigabytes)
}

// containsFold reports whether part is in s, letter case aside; the empty part
// is in everything.
func containsFold(s, part string) bool {
	return part == "" || strings.Contains(strings.ToLower(s), strings.ToLower(part))
}

// Choose returns the smallest disk of at least minBytes that meets the hints; of
// equal ones the first by name. ok is false if there is none.
func (r *RootDeviceHints) Choose(disks []Storage, minBytes int64) (disk Storage, ok bool) {
	for _, d := range disks {
		if d.SizeBytes < minBytes || !r.Match(d) {
			continue
		}
		if !ok || d.SizeBytes < disk.SizeBytes || d.SizeBytes == disk.SizeBytes && d.Name < disk.Name {
			disk, ok = d, true
		}
	}
	return disk, ok
}

// IronicHints returns the hints as Ironic's property root_device wants them: an
// operator and a value for each hint that is given.
func (r *RootDeviceHints) IronicHints() map[string]string {
	hints := make(map[string]string)
	if r == nil {
		return hints
	}
	for _, h := range []struct{ key, operator, value string }{
		{"name", "s==", r.DeviceName},
		{"hctl", "s==", r.HCTL},
		{"model", "<in>", r.Model},
		{"vendor", "<in>", r.Vendor},
		{"serial", "s==", r.SerialNumber},
		{"wwn", "s==", r.WWN},
		{"wwn_with_extension", "s==", r.WWNWithExtension},
		{"wwn_vendor_extension", "s==", r.WWNVendorExtension},
	} {
		if h.value != "" {
			hints[h.key] = h.operator + " " + h.value
		}
	}
	if r.MinSizeGigabytes != 0 {
		hints["size"] = fmt.Sprintf(">= %d", r.MinSizeGigabytes)
	}
	if r.Rotational != nil {
		hints["rotational"] = fmt.Sprint(*r.Rotational)
	}
	return hints
}

// Profile is what is assumed of a kind of machine.
type Profile struct {
	Name            string
	RootDeviceHints RootDeviceHints
	RootGB          int // GB for the root file system
	LocalGB         int // GB of local disk
	CPUArch         string
}

// DefaultProfile is the profile of a host that names none.
const DefaultProfile = "unknown"

// Profiles returns the known profiles, sorted by name.
func Profiles() []Profile {
	const root, local, arch = 10, 50, "x86_64"
	return []Profile{
		{"dell", RootDeviceHints{HCTL: "0:0:0:0"}, root, local, arch},
		{"dell-raid", RootDeviceHints{HCTL: "0:2:0:0"}, root, local, arch},
		{"libvirt", RootDeviceHints{DeviceName: "/dev/vda"}, root, local, arch},
		{"openstack", RootDeviceHints{DeviceName: "/dev/vdb"}, root, local, arch},
		{DefaultProfile, RootDeviceHints{DeviceName: "/dev/sda"}, root, local, arch},
	}
}

// ProfileNamed returns the profile called name; ok is false if there is none.
func ProfileNamed(name string) (p Profile, ok bool) {
	all := Profiles()
	i := slices.IndexFunc(all, func(p Profile) bool { return p.Name == name })
	if i < 0 {
		return Profile{}, false
	}
	return all[i], true
}

// EffectiveHints returns the hints to provision with: those of the spec, or else
// those of the host's profile.
func (h *BareMetalHost) EffectiveHints() *RootDeviceHints {
	if h.Spec.RootDeviceHints != nil {
		hints := *h.Spec.RootDeviceHints
		return &hints
	}
	p, ok := ProfileNamed(h.Status.HardwareProfile)
	if !ok {
		p, _ = ProfileNamed(DefaultProfile)
	}
	return &p.RootDeviceHints
}
