package provision

// The golden list shows what only the package knows: retries, limits, reruns.

import (
	"fmt"
	"strings"
)

// Lists prints the three lists of steps.
func Lists(o *Orchestrator) string {
	var b strings.Builder
	for _, l := range []struct {
		name  string
		steps []plannedStep
	}{{"provision", o.provisionSteps()}, {"deprovision hard", o.hardSteps()}, {"deprovision soft", o.softSteps()}} {
		fmt.Fprintf(&b, "%s\n", l.name)
		for i, s := range l.steps {
			fmt.Fprintf(&b, "%3d %-24s retries %d, at most %v", i+1, s.Name, s.Retries, s.Timeout)
			if s.Rerun {
				b.WriteString(", again on resume")
			}
			if s.Silent {
				b.WriteString(", reports by itself")
			}
			if s.Skip != nil {
				b.WriteString(", may be left out")
			}
			if len(s.Dump) > 0 {
				fmt.Fprintf(&b, ", dump: %s", strings.Join(s.Dump, "; "))
			}
			b.WriteString("\n")
		}
	}
	return b.String()
}

// Backoff gives backoff to tests.
var Backoff = backoff

// CompareVersions gives compareVersions to tests.
var CompareVersions = compareVersions
