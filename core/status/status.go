// Package status names the conditions that a machine's agent and its instance
// can be in.
package status

import "time"

// Status is a condition, in one or two lower-case words.
type Status string

// The statuses of a machine, which its agent reports. Pending is what a machine
// starts in; down is only ever shown, never set.
const (
	Pending Status = "pending"
	Started Status = "started"
	Stopped Status = "stopped"
	Error   Status = "error"
	Down    Status = "down"
)

// The statuses of an instance, which the provisioner reports. Other text is
// accepted too.
const (
	Allocating        Status = "allocating"
	Running           Status = "running"
	Provisioning      Status = "provisioning"
	ProvisioningError Status = "provisioning error"
	Unknown           Status = "unknown"
)

// Keys of a status's data, which provisioners write and operators are shown.
const (
	DataTransient = "transient" // true: the start is to be tried again
	DataTries     = "tries"     // how often the start was tried, a number
	DataNextTry   = "next-try"  // when it will be tried next, in RFC 3339
)

// Info is a status with what is known about it.
type Info struct {
	Status  Status
	Message string
	Data    map[string]any // nil means none
	Since   time.Time      // when it was set; zero means unknown
}
