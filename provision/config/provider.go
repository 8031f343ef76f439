package config

import (
	"context"
	"encoding/json"
)

// State is where a run stands.
type State string

// The states of a run, in the order a controller sees them.
const (
	StateInit    State = "init"
	StateStep    State = "step" // one step ended, well or not
	StateSuccess State = "success"
	StateError   State = "error" // the run has ended and the machine is not installed
)

// Status is one report of a run. Every step gives one, each failed try of a step
// another, so a controller can show where a machine stands and why.
type Status struct {
	State   State           `json:"state"`
	Step    string          `json:"step,omitempty"`
	Number  int             `json:"number,omitempty"` // of the step, from 1
	Total   int             `json:"total,omitempty"`  // steps in this run
	Try     int             `json:"try,omitempty"`    // from 1
	Result  string          `json:"result,omitempty"` // of a step: "done", "skipped", "failed" or "retrying"
	Millis  int64           `json:"millis,omitempty"` // the step took
	Message string          `json:"message,omitempty"`
	Facts   json.RawMessage `json:"facts,omitempty"` // what the run has found out: the disk, its serial, partitions
}

// Provider is what the pipeline needs of the controller while it runs. All
// methods may be called at once.
type Provider interface {
	// ReportStatus delivers one status; it returns when the controller has it.
	ReportStatus(ctx context.Context, s Status) error
	// ReportInventory delivers what hardware was found, as JSON.
	ReportInventory(ctx context.Context, inventory []byte) error
	// ReportFirmware delivers firmware versions, as JSON.
	ReportFirmware(ctx context.Context, firmware []byte) error
	// Heartbeat tells that the machine is alive during a long step.
	Heartbeat(ctx context.Context) error
	// ShipLog delivers lines of the installer's log, oldest first.
	ShipLog(ctx context.Context, lines []string) error
}
