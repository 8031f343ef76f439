package job_test

import (
	"testing"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/core/job"
)

func TestCheck(t *testing.T) {
	for _, c := range []struct {
		name string
		jobs []job.Job
		want string
	}{
		{"one", []job.Job{job.HostUnits}, ""},
		{"both", []job.Job{job.HostUnits, job.ManageModel}, ""},
		{"none", nil, "no jobs specified"},
		{"twice", []job.Job{job.HostUnits, job.HostUnits}, "duplicate job: JobHostUnits"},
		{"unknown", []job.Job{"x"}, `invalid machine job "x"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := job.Check(c.jobs)
			if c.want == "" {
				if err != nil {
					t.Errorf("Check = %v, want nil", err)
				}
				return
			}
			if !errors.Is(err, errors.NotValid) || err.Error() != c.want {
				t.Errorf("Check = %v, want %q", err, c.want)
			}
		})
	}
}
