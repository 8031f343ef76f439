//go:build e2e

package ha_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/juju/loggo"

	"github.com/slipway-project/slipway/internal/e2e/harness"
)

// programs is the folder of the commands, made once.
var programs string

func TestMain(m *testing.M) {
	loggo.GetLogger("slipway").SetLogLevel(loggo.CRITICAL) // hundreds of clients lose their connection
	os.Exit(harness.Main(m, &programs, "controllerd", "mongodouble", "provisionerd", "slipway"))
}

// launch starts a program of ours, which is killed at the end of the test.
func launch(t *testing.T, program string, args ...string) *harness.Process {
	t.Helper()
	p := harness.New(t, harness.Config{Name: program + " " + args[0], Program: filepath.Join(programs, program), Args: func() []string { return args }})
	p.Start()
	return p
}

// command runs a program of ours to its end and returns what it printed.
func command(t *testing.T, env []string, program string, args ...string) string {
	t.Helper()
	return harness.Run(t, env, filepath.Join(programs, program), args...)
}
