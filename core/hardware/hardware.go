// Package hardware describes what an instance turned out to be like.
package hardware

// Characteristics are what a provider knows of an instance's hardware. A nil
// field means unknown.
type Characteristics struct {
	Arch             *string   `json:"arch,omitempty"`
	Mem              *uint64   `json:"mem,omitempty"`       // MiB
	RootDisk         *uint64   `json:"root-disk,omitempty"` // MiB
	CPUCores         *uint64   `json:"cpu-cores,omitempty"`
	CPUPower         *uint64   `json:"cpu-power,omitempty"`
	Tags             *[]string `json:"tags,omitempty"`
	AvailabilityZone *string   `json:"availability-zone,omitempty"`
}
