// Package health looks at a machine before it is installed: whether it has a
// disk, memory and processors enough, and whether its parts report faults.
//
// All is read below two roots, those of sysfs and procfs, so a test gives
// trees of its own and nothing here runs a command.
package health

import (
	"fmt"
	"slices"
)

// Status is how a check ended.
type Status string

// How a check may end.
const (
	Pass Status = "pass"
	Fail Status = "fail"
	Skip Status = "skip" // by configuration, or because the machine has nothing to read
)

// Severity says what a failure means.
type Severity string

// The severities. Only a failed check that is critical stops an installation.
const (
	Info     Severity = "info"
	Warning  Severity = "warning"
	Critical Severity = "critical"
)

// CheckResult is what one check has found.
type CheckResult struct {
	Name     string   `json:"name"`
	Status   Status   `json:"status"`
	Severity Severity `json:"severity"`
	Message  string   `json:"message"`
	Details  string   `json:"details,omitempty"`
}

// Stops reports whether the result stops an installation.
func (r CheckResult) Stops() bool { return r.Status == Fail && r.Severity == Critical }

// Config says where to look and what to ask for. SysRoot and ProcRoot have no
// defaults: an empty one finds nothing.
type Config struct {
	SysRoot      string   // where sysfs is mounted
	ProcRoot     string   // where procfs is mounted
	MinMemoryMiB uint64   // 0 asks for nothing
	MinCPUs      int      // 0 asks for nothing
	Skip         []string // names of checks to leave out
}

// check is one entry of the list: its name, how bad a failure is, and the
// function that looks.
type check struct {
	name     string
	severity Severity
	look     func(Config) (Status, string, string)
}

// list is THE list of checks, in the order they run and are reported.
func list() []check {
	return []check{
		{"disk-presence", Critical, diskPresence},
		{"disk-ioerr", Warning, diskErrors},
		{"memory-ecc", Critical, memoryECC},
		{"minimum-memory", Critical, minimumMemory},
		{"minimum-cpu", Critical, minimumCPU},
		{"nic-link-state", Warning, linkState},
		{"thermal-state", Warning, thermalState},
	}
}

// Names returns the names of all checks, in order.
func Names() []string {
	var out []string
	for _, c := range list() {
		out = append(out, c.name)
	}
	return out
}

// Run runs all checks and returns one result for each, in order.
func Run(c Config) []CheckResult {
	var out []CheckResult
	for _, k := range list() {
		r := CheckResult{Name: k.name, Severity: k.severity}
		if slices.Contains(c.Skip, k.name) {
			r.Status, r.Message = Skip, "skipped by configuration"
		} else {
			r.Status, r.Message, r.Details = k.look(c)
		}
		out = append(out, r)
	}
	return out
}

// plural returns "1 disk", "2 disks".
func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
