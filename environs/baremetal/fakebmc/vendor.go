package fakebmc

import "slices"

// Vendor is how one maker's BMC differs from others. The zero value of each field
// is the plain behaviour.
type Vendor struct {
	Name         string // for Config.Vendor
	Manufacturer string // what the system says
	Product      string // what the service root says
	SystemID     string // of the only system; with more than one, a number follows
	ManagerID    string
	CD           string // the virtual CD's ID
	CDTarget     string // the boot source that means the virtual CD

	// MediaInSystem has virtual media below the system, not the manager.
	MediaInSystem bool
	// ImageOnly has InsertMedia refuse any parameter but Image.
	ImageOnly bool
	// PatchMedia has no InsertMedia action: the device is written to instead.
	PatchMedia bool
	// EjectFirst has InsertMedia refuse if there is a medium.
	EjectFirst bool
	// IfMatch refuses a PATCH without the resource's current ETag.
	IfMatch bool
	// WholeOverride refuses a boot override that lacks one of target, enabled
	// and mode.
	WholeOverride bool
	// NoGraceful lacks the reset type GracefulShutdown.
	NoGraceful bool
	// StrictPower refuses to switch on what is on, and off what is off.
	StrictPower bool
	// NoMode refuses BootSourceOverrideMode.
	NoMode bool
}

// Vendors returns the known vendors. Which quirk belongs to whom is from their
// public manuals and from the reports of those who run them; the models named
// are those that showed it.
func Vendors() []Vendor {
	return []Vendor{
		{Name: "generic", Manufacturer: "Contoso", Product: "Contoso BMC", SystemID: "1", ManagerID: "BMC", CD: "Cd", CDTarget: "Cd"},
		{Name: "dell", Manufacturer: "Dell Inc.", Product: "Integrated Dell Remote Access Controller", SystemID: "System.Embedded.1", ManagerID: "iDRAC.Embedded.1", CD: "CD", CDTarget: "Cd", EjectFirst: true, StrictPower: true},
		{Name: "hpe", Manufacturer: "HPE", Product: "ProLiant DL360 Gen10", SystemID: "1", ManagerID: "1", CD: "2", CDTarget: "Cd", ImageOnly: true, NoMode: true},
		{Name: "lenovo", Manufacturer: "Lenovo", Product: "XClarity Controller", SystemID: "1", ManagerID: "1", CD: "EXT1", CDTarget: "Cd", PatchMedia: true, IfMatch: true},
		{Name: "supermicro", Manufacturer: "Supermicro", Product: "Supermicro BMC", SystemID: "1", ManagerID: "1", CD: "CD1", CDTarget: "UsbCd", WholeOverride: true, NoGraceful: true, EjectFirst: true},
		{Name: "openbmc", Manufacturer: "OpenBMC", Product: "OpenBMC", SystemID: "system", ManagerID: "bmc", CD: "Slot_0", CDTarget: "Cd", MediaInSystem: true},
	}
}

// VendorNamed returns the vendor called name; empty means "generic".
func VendorNamed(name string) (Vendor, bool) {
	if name == "" {
		name = "generic"
	}
	all := Vendors()
	i := slices.IndexFunc(all, func(v Vendor) bool { return v.Name == name })
	if i < 0 {
		return Vendor{}, false
	}
	return all[i], true
}
