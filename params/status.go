package params

import "time"

// EntityStatusArgs is a status to set on one entity. Data replaces what was
// there; null is none.
type EntityStatusArgs struct {
	Tag    string         `json:"tag"`
	Status string         `json:"status"`
	Info   string         `json:"info"`
	Data   map[string]any `json:"data"`
}

// SetStatus are the parameters of SetStatus, SetInstanceStatus and UpdateStatus.
type SetStatus struct {
	Entities []EntityStatusArgs `json:"entities"`
}

// StatusResult is the status of one entity. ID and Life are filled in only by
// MachinesWithTransientErrors, where Since is null. Data is {} when there is
// none, and null beside an error.
type StatusResult struct {
	Error  *Error         `json:"error,omitempty"`
	ID     string         `json:"id"` // of the machine, not its tag
	Life   string         `json:"life"`
	Status string         `json:"status"`
	Info   string         `json:"info"`
	Data   map[string]any `json:"data"`
	Since  *time.Time     `json:"since"`
}

// StatusResults are the results of Status, InstanceStatus and
// MachinesWithTransientErrors. Results is null when the last has nothing to
// report, and never otherwise.
type StatusResults struct {
	Results []StatusResult `json:"results"`
}
