package config

import (
	"encoding/json"
	"time"
)

// Mode says what the installer does with the machine.
type Mode string

// The modes. The empty mode means ModeProvision.
const (
	ModeProvision       Mode = "provision"
	ModeDeprovision     Mode = "deprovision"      // wipe all disks that may be wiped
	ModeSoftDeprovision Mode = "soft-deprovision" // make the installed system unbootable, keep the data
	ModeDryRun          Mode = "dry-run"          // print the plan, touch nothing
)

// MachineConfig is what one machine is to become. The zero value is not valid for
// ModeProvision: it has no image. Call Validate once after reading it; nothing
// else in the pipeline checks the shape of a value again.
type MachineConfig struct {
	Host     string `json:"host"`     // name of the host's record, for messages
	Hostname string `json:"hostname"` // of the installed system; "" leaves the image's own
	Mode     Mode   `json:"mode,omitempty"`

	Image      Image      `json:"image"`
	RootDevice DiskHints  `json:"root-device,omitzero"`
	Recorded   DiskID     `json:"recorded-disk,omitzero"` // where an earlier run put the system
	KeepDisks  []string   `json:"keep-disks,omitempty"`   // serials, WWNs or names that a wipe never touches
	Secure     bool       `json:"secure-erase,omitempty"` // erase by the drive's own command where it has one
	Layout     *Layout    `json:"layout,omitempty"`       // nil: the image brings its partitions
	Namespaces []NVMeCtrl `json:"nvme-namespaces,omitempty"`

	DNS        []string   `json:"dns,omitempty"` // addresses of name servers
	Search     []string   `json:"search,omitempty"`
	Kernel     Kernel     `json:"kernel,omitzero"`
	Kubelet    *Kubelet   `json:"kubelet,omitempty"`
	CloudInit  *CloudInit `json:"cloud-init,omitempty"`
	Files      []File     `json:"files,omitempty"`
	Commands   []string   `json:"machine-commands,omitempty"` // scripts, run in the installed system
	PostCmds   []string   `json:"post-commands,omitempty"`    // single commands, run last
	EFILabel   string     `json:"efi-label,omitempty"`        // of the boot entry; "" means "slipway"
	VirtualFns int        `json:"virtual-functions,omitempty"`

	Health    Health   `json:"health,omitzero"`
	Inventory bool     `json:"inventory,omitempty"`
	Firmware  Firmware `json:"firmware,omitzero"`
	Finish    Finish   `json:"finish,omitempty"`
	Rescue    Rescue   `json:"rescue,omitzero"`
}

// Finish says how the machine leaves the installer after a success.
type Finish string

// The ways to finish. The empty one means FinishPowerOff: the controller ejects
// the medium and boots the disk.
const (
	FinishPowerOff Finish = "poweroff"
	FinishReboot   Finish = "reboot"
	FinishKexec    Finish = "kexec" // straight into the installed kernel, unless firmware settings changed
)

// Image says what to write and how to know that it is the right one.
type Image struct {
	URLs       []string   `json:"urls"` // tried in this order; http, https or oci
	Checksum   string     `json:"checksum,omitempty"`
	Of         ChecksumOf `json:"checksum-of,omitempty"`
	Signature  Signature  `json:"signature,omitzero"`
	Unverified bool       `json:"allow-unverified,omitempty"` // neither checksum nor signature is asked for
}

// ChecksumOf says over which bytes a checksum was made.
type ChecksumOf string

// What a checksum may be of. The empty value means OfFile, which is what
// publishers of images print.
const (
	OfFile    ChecksumOf = "file"    // the bytes as downloaded
	OfContent ChecksumOf = "content" // the bytes after decompression
)

// Signature is a detached signature of the file in the format of minisign
// (ed25519, pre-hashed with BLAKE2b-512).
type Signature struct {
	URL       string `json:"url,omitempty"`
	PublicKey string `json:"public-key,omitempty"` // the base64 line of a minisign public key
}

// DiskHints say which disk to install on; all that are set must match. The zero
// value matches every disk that is neither removable nor the boot medium.
type DiskHints struct {
	Name               string `json:"name,omitempty"` // /dev/sda, or a link below /dev/disk
	Serial             string `json:"serial,omitempty"`
	WWN                string `json:"wwn,omitempty"`
	WWNWithExtension   string `json:"wwn-with-extension,omitempty"`
	WWNVendorExtension string `json:"wwn-vendor-extension,omitempty"`
	Model              string `json:"model,omitempty"`  // part of the model's name
	Vendor             string `json:"vendor,omitempty"` // part of the vendor's name
	HCTL               string `json:"hctl,omitempty"`
	MinSizeGB          uint64 `json:"min-size-gb,omitempty"` // 10^9 bytes, as disks are sold
	Rotational         *bool  `json:"rotational,omitempty"`
}

// DiskID names one physical disk over reboots: names such as /dev/sda do not.
type DiskID struct {
	Serial string `json:"serial,omitempty"`
	WWN    string `json:"wwn,omitempty"`
	Name   string `json:"name,omitempty"` // only for disks that have neither
}

// Kernel says what to do to the installed system's kernel parameters.
type Kernel struct {
	Append  []string `json:"append,omitempty"`  // added unless already there; "key=value" takes the place of another value only if listed in Replace
	Replace []string `json:"replace,omitempty"` // "key=value" that takes the place of every "key" and "key=..."
}

// Kubelet is what a Kubernetes node must know of itself before it joins.
type Kubelet struct {
	ProviderID string            `json:"provider-id,omitempty"`
	Labels     map[string]string `json:"labels,omitempty"`
}

// CloudInit is handed to the installed system's first boot.
type CloudInit struct {
	DataSource  string            `json:"data-source,omitempty"` // "nocloud" (also ""), or "configdrive"
	InstanceID  string            `json:"instance-id,omitempty"`
	UserData    Secret            `json:"user-data,omitempty"`
	NetworkData Secret            `json:"network-data,omitempty"`
	MetaData    map[string]string `json:"meta-data,omitempty"`
}

// File is one file of the installed system.
type File struct {
	Path    string `json:"path"`           // absolute, inside the installed system
	Mode    uint32 `json:"mode,omitempty"` // permission bits; 0 means 0644
	Content Secret `json:"content"`
}

// Health says what a machine must have to be worth installing.
type Health struct {
	Disabled     bool     `json:"disabled,omitempty"`
	MinMemoryMiB uint64   `json:"min-memory-mib,omitempty"` // 0 asks for nothing
	MinCPUs      int      `json:"min-cpus,omitempty"`       // 0 asks for nothing
	Skip         []string `json:"skip,omitempty"`           // names of checks
}

// Firmware says whether to report versions, and the least that will do.
type Firmware struct {
	Report  bool   `json:"report,omitempty"`
	MinBIOS string `json:"min-bios,omitempty"`
	MinBMC  string `json:"min-bmc,omitempty"`
}

// RescueMode says what a failed installation leaves behind.
type RescueMode string

// The rescue modes. The empty mode means RescueReboot.
const (
	RescueReboot RescueMode = "reboot"
	RescueRetry  RescueMode = "retry" // run the pipeline again from its checkpoint, three times at most
	RescueShell  RescueMode = "shell" // a shell on the console, until Timeout
	RescueWait   RescueMode = "wait"  // nothing, until Timeout
)

// Rescue is the policy after a failure.
type Rescue struct {
	Mode    RescueMode    `json:"mode,omitempty"`
	Timeout time.Duration `json:"timeout,omitempty"` // of shell and wait; 0 means 30 minutes
}

// NVMeCtrl says how to divide one NVMe controller into namespaces. What it
// held is lost.
type NVMeCtrl struct {
	Controller string          `json:"controller"` // /dev/nvme0
	Namespaces []NVMeNamespace `json:"namespaces"`
}

// NVMeNamespace is one part of a controller.
type NVMeNamespace struct {
	Label     string `json:"label"`
	Percent   int    `json:"percent"`              // of the controller's capacity, 1 to 100
	BlockSize int    `json:"block-size,omitempty"` // 512 (also 0) or 4096
}

// String gives the config as JSON with everything secret redacted.
func (c MachineConfig) String() string {
	c.Files = append([]File(nil), c.Files...)
	for i := range c.Files {
		c.Files[i].Content = Secret(c.Files[i].Content.String())
	}
	if c.CloudInit != nil {
		ci := *c.CloudInit
		ci.UserData = Secret(ci.UserData.String())
		ci.NetworkData = Secret(ci.NetworkData.String())
		c.CloudInit = &ci
	}
	c.Commands = redactAll(c.Commands)
	c.PostCmds = redactAll(c.PostCmds)
	c.Image.URLs = append([]string(nil), c.Image.URLs...)
	for i, u := range c.Image.URLs {
		c.Image.URLs[i] = RedactURL(u)
	}
	c.Image.Signature.URL = RedactURL(c.Image.Signature.URL)
	out, err := json.Marshal(alias(c))
	if err != nil {
		return "machine config that cannot be printed"
	}
	return string(out)
}

// alias has MachineConfig's fields without its String method.
type alias MachineConfig

// GoString keeps %#v from printing what String hides.
func (c MachineConfig) GoString() string { return c.String() }

// Label returns the label of the machine's EFI boot entry.
func (c *MachineConfig) Label() string {
	if c.EFILabel == "" {
		return "slipway"
	}
	return c.EFILabel
}
