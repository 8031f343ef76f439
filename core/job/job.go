// Package job names what a machine is for.
package job

import (
	"github.com/juju/errors"
)

// Job is something a machine does, named as on the wire.
type Job string

// The jobs. A machine with ManageModel belongs to the site itself: its agent
// may manage models, and its life cannot be changed.
const (
	HostUnits   Job = "JobHostUnits"
	ManageModel Job = "JobManageModel"
)

// Parse returns the job that text names, or an error satisfying
// errors.NotValid.
func Parse(text string) (Job, error) {
	switch j := Job(text); j {
	case HostUnits, ManageModel:
		return j, nil
	}
	return "", errors.WithType(errors.Errorf("invalid machine job %q", text), errors.NotValid)
}

// Check returns an error satisfying errors.NotValid unless jobs names at
// least one job, and each known one once.
func Check(jobs []Job) error {
	if len(jobs) == 0 {
		return errors.WithType(errors.New("no jobs specified"), errors.NotValid)
	}
	seen := make(map[Job]bool, len(jobs))
	for _, j := range jobs {
		if _, err := Parse(string(j)); err != nil {
			return err
		}
		if seen[j] {
			return errors.WithType(errors.Errorf("duplicate job: %s", j), errors.NotValid)
		}
		seen[j] = true
	}
	return nil
}
