// Package harness runs our programs as real processes for end-to-end tests: it
// builds them, starts them, waits until they say that they are ready, kills them
// by their own ids, and shows the end of what they printed when a test fails.
package harness

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// Patience bounds every wait, on a machine that has other work as well. A controller
// that is killed amid a transaction leaves what it has written locked for a minute,
// as with MongoDB.
const Patience = 3 * time.Minute

// Main builds programs, the names of folders in cmd, into a folder of their own
// that bin is set to; runs the tests; and returns the exit code.
func Main(m *testing.M, bin *string, programs ...string) int {
	dir, err := os.MkdirTemp("", "e2e-*")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	if err := Build(dir, programs...); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	*bin = dir
	return m.Run()
}

// Build builds programs, the names of folders in cmd, into a folder. They need
// no library of the system.
func Build(dir string, programs ...string) error {
	args := []string{"build", "-o", dir + string(filepath.Separator)}
	for _, p := range programs {
		args = append(args, "github.com/slipway-project/slipway/cmd/"+p)
	}
	cmd := exec.Command("go", args...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("cannot build %v: %w\n%s", programs, err, out)
	}
	return nil
}

// Eventually waits until a function is content, for as long as Patience. It looks
// again and again, since what it looks at is in other processes.
func Eventually(t testing.TB, what string, content func() bool) {
	t.Helper()
	deadline := time.Now().Add(Patience)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !content() {
		if time.Now().After(deadline) {
			t.Fatalf("not after %v: %s", Patience, what)
		}
		<-tick.C
	}
}

// Run runs a program to its end and returns what it printed.
func Run(t testing.TB, env []string, program string, args ...string) string {
	t.Helper()
	cmd := exec.Command(program, args...)
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %q: %v\n%s", filepath.Base(program), args, err, out)
	}
	return string(out)
}
