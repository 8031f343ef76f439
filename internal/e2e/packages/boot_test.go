//go:build e2e

package packages_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/slipway-project/slipway/internal/e2e/harness"
)

// booting is run in a mount namespace of its own: it starts the system in the root
// $1, in a control group called $2 and with a network of its own. What the program
// that does that leaves in /run is gone with the namespace.
const booting = `set -e
for at in /sys/fs/cgroup /sys/fs/cgroup/systemd /sys/fs/cgroup/unified; do
	if [ -e "$at/cgroup.procs" ]; then
		mkdir "$at/$2"
		echo $$ >"$at/$2/cgroup.procs"
	fi
done
mount -t tmpfs tmpfs /run
exec systemd-nspawn --quiet --directory "$1" --machine "$2" --register=no --keep-unit --private-network --console=pipe --boot`

// machine is a root whose own systemd runs.
type machine struct {
	root
	inside []string // what a program is run with in there
}

// boot starts the system in the root, which ends with the test.
func (r root) boot(t *testing.T) machine {
	t.Helper()
	// There is no network to wait for.
	if err := os.Symlink("/dev/null", r.path("etc/systemd/system/systemd-networkd-wait-online.service")); err != nil {
		t.Fatal(err)
	}
	group := "slipway-e2e-" + strconv.Itoa(os.Getpid())
	t.Cleanup(func() {
		for _, at := range []string{"", "systemd", "unified"} {
			removeGroup(t, filepath.Join("/sys/fs/cgroup", at, group))
		}
	})
	p := harness.New(t, harness.Config{Name: "machine", Program: "unshare", Args: func() []string {
		return []string{"--mount", "sh", "-c", booting, "boot", string(r), group}
	}})
	p.Start()
	t.Cleanup(p.End)
	m := machine{root: r}
	harness.Eventually(t, "systemd runs", func() bool {
		if p.Ended() {
			t.Fatal("the machine has ended")
		}
		if m.inside == nil {
			pid := firstProcess(strconv.Itoa(p.Pid()))
			if pid == "" {
				return false
			}
			m.inside = []string{"nsenter", "--target", pid, "--mount", "--uts", "--ipc", "--net", "--pid", "--root", "--wd",
				"env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C.UTF-8", "DEBIAN_FRONTEND=noninteractive"}
		}
		out, _ := m.do("systemctl", "is-system-running") // it fails while it starts
		out = strings.TrimSpace(out)
		return out == "running" || out == "degraded"
	})
	return m
}

// firstProcess returns the process, of those that another has started, that is the
// first of a PID namespace; "" if there is none yet.
func firstProcess(of string) string {
	text, _ := os.ReadFile("/proc/" + of + "/task/" + of + "/children") // it may have none yet
	for _, pid := range strings.Fields(string(text)) {
		status, _ := os.ReadFile("/proc/" + pid + "/status")
		exe, _ := os.Readlink("/proc/" + pid + "/exe")
		if regexp.MustCompile(`(?m)^NSpid:\t\d+\t1$`).Match(status) && strings.HasSuffix(exe, "/systemd") {
			return pid
		}
	}
	return ""
}

// removeGroup removes a control group and those in it, which have no processes.
func removeGroup(t *testing.T, path string) {
	t.Helper()
	var all []string
	_ = filepath.WalkDir(path, func(p string, d os.DirEntry, err error) error { // it may not be there
		if err == nil && d.IsDir() {
			all = append(all, p)
		}
		return nil
	})
	slices.Reverse(all)
	for _, p := range all {
		harness.Eventually(t, "control group "+p+" is gone", func() bool { return os.Remove(p) == nil })
	}
}

// do runs a program in the machine and returns what it printed.
func (m machine) do(args ...string) (string, error) {
	line := append(slices.Clone(m.inside), args...)
	out, err := exec.Command(line[0], line[1:]...).CombinedOutput()
	return string(out), err
}

// must runs a program in the machine, which has to succeed.
func (m machine) must(t *testing.T, args ...string) string {
	t.Helper()
	out, err := m.do(args...)
	if err != nil {
		said, _ := m.do("journalctl", "--no-pager", "--lines", "50")
		t.Fatalf("%q: %v\n%s\n%s", args, err, out, said)
	}
	return out
}

// unit returns how a service is, and its process; "0" if it has none.
func (m machine) unit(t *testing.T, name string) (state, pid string) {
	t.Helper()
	show := func(property string) string {
		return strings.TrimSpace(m.must(t, "systemctl", "show", "--value", "--property", property, name))
	}
	return show("ActiveState"), show("MainPID")
}
