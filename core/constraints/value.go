// Package constraints says what a machine must be like, and parses, prints,
// validates and merges such demands.
package constraints

// Value is a set of constraints. A nil field says nothing; a field that is
// present and zero or empty says "explicitly unset", and overrides a model's
// value.
type Value struct {
	Arch         *string   `json:"arch,omitempty"`
	Container    *string   `json:"container,omitempty"` // a container type, or "none"
	Cores        *uint64   `json:"cores,omitempty"`
	CPUPower     *uint64   `json:"cpu-power,omitempty"` // 100 is about one year-2007 core
	Mem          *uint64   `json:"mem,omitempty"`       // MiB
	RootDisk     *uint64   `json:"root-disk,omitempty"` // MiB
	Tags         *[]string `json:"tags,omitempty"`      // "^x" means not x
	InstanceType *string   `json:"instance-type,omitempty"`
	Spaces       *[]string `json:"spaces,omitempty"` // "^x" means not x
	VirtType     *string   `json:"virt-type,omitempty"`
}
