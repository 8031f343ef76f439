//go:build e2e

package lxd_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/slipway-project/slipway/environs/userdata"
	"github.com/slipway-project/slipway/internal/e2e/harness"
)

// daemon is the LXD that all tests of this package share.
var daemon *lxdDaemon

func TestMain(m *testing.M) {
	var err error
	if daemon, err = newDaemon(); err == nil {
		if err = daemon.start(); err == nil {
			err = daemon.prepare()
		}
	}
	code := 1
	if err != nil {
		fmt.Fprintln(os.Stderr, "cannot run LXD:", err)
	} else {
		code = m.Run()
	}
	if daemon != nil {
		if err := daemon.clean(); err != nil {
			fmt.Fprintln(os.Stderr, "cannot clean up:", err)
			code = 1
		}
	}
	os.Exit(code)
}

// longForm leaves a test to "make soak", which sets SOAK: it takes minutes.
func longForm(t *testing.T) {
	t.Helper()
	if os.Getenv("SOAK") == "" {
		t.Skip("the long form: make soak runs it")
	}
}

// lxdDaemon is a daemon with a state folder of its own.
type lxdDaemon struct {
	dir      string
	inside   []string // what it is run with, such as nsenter; nil means nothing
	cmd      *exec.Cmd
	done     chan struct{}
	projects atomic.Int32
}

func newDaemon() (*lxdDaemon, error) {
	dir, err := os.MkdirTemp("", "slipway-lxd")
	if err != nil {
		return nil, err
	}
	return &lxdDaemon{dir: dir}, os.Chmod(dir, 0o711) // containers' root must get through
}

// another starts a daemon that ends with the test, run with what is inside.
func another(t *testing.T, inside []string) *lxdDaemon {
	t.Helper()
	d, err := newDaemon()
	if err != nil {
		t.Fatal(err)
	}
	d.inside = inside
	t.Cleanup(func() {
		if err := d.clean(); err != nil {
			t.Error(err)
		}
	})
	if err = d.start(); err == nil {
		err = d.prepare()
	}
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func (d *lxdDaemon) state() string   { return filepath.Join(d.dir, "state") }
func (d *lxdDaemon) address() string { return "unix://" + filepath.Join(d.state(), "unix.socket") }

func (d *lxdDaemon) env() []string { return append(os.Environ(), "LXD_DIR="+d.state()) }

// start runs the daemon and waits until it answers.
func (d *lxdDaemon) start() error {
	if err := os.MkdirAll(d.state(), 0o711); err != nil {
		return err
	}
	log, err := os.OpenFile(filepath.Join(d.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	line := append(slices.Clone(d.inside), "lxd", "--group", "root")
	d.cmd = exec.Command(line[0], line[1:]...)
	d.cmd.Env, d.cmd.Stdout, d.cmd.Stderr = d.env(), log, log
	if err := d.cmd.Start(); err != nil {
		return err
	}
	d.done = make(chan struct{})
	go func() {
		_ = d.cmd.Wait() // it ends by our signal
		close(d.done)
	}()
	ctx, cancel := context.WithTimeout(context.Background(), harness.Patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "lxd", "waitready", "--timeout", fmt.Sprint(int(harness.Patience/time.Second)))
	cmd.Env = d.env()
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("lxd waitready: %v %s", err, out)
	}
	return nil
}

// kill ends the daemon with a signal. Containers run on.
func (d *lxdDaemon) kill(s syscall.Signal) {
	_ = d.cmd.Process.Signal(s) // it may have ended
	<-d.done
}

// lxc runs the command-line client.
func (d *lxdDaemon) lxc(args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), harness.Patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "lxc", args...)
	cmd.Env = append(d.env(), "HOME="+d.dir)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if ctx.Err() != nil {
		d.dump()
	}
	if err != nil {
		return "", fmt.Errorf("lxc %s: %v: %s", strings.Join(args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return string(out), nil
}

// dump ends a daemon that hangs, and keeps what it says of its goroutines.
func (d *lxdDaemon) dump() {
	d.kill(syscall.SIGABRT)
	text, _ := os.ReadFile(filepath.Join(d.dir, "log")) // nothing more can be said
	kept := filepath.Join(os.TempDir(), "slipway-lxd-hung.log")
	_ = os.WriteFile(kept, text, 0o600)
	fmt.Fprintln(os.Stderr, "LXD does not answer: what it was doing is in", kept)
}

// must is lxc in a test.
func (d *lxdDaemon) must(t *testing.T, args ...string) string {
	t.Helper()
	out, err := d.lxc(args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// prepare makes a storage pool, and the image "base": busybox, whose init runs
// what a machine's image without systemd has to run.
func (d *lxdDaemon) prepare() error {
	for _, args := range [][]string{
		{"storage", "create", "default", "dir"},
		{"profile", "device", "add", "default", "root", "disk", "path=/", "pool=default"},
	} {
		if _, err := d.lxc(args...); err != nil {
			return err
		}
	}
	return d.importImage("base", "")
}

// importImage makes an image under an alias, with an agent unless that is empty.
func (d *lxdDaemon) importImage(alias, agent string) error {
	image, err := d.image(alias, agent)
	if err != nil {
		return err
	}
	_, err = d.lxc("image", "import", image, "--alias", alias)
	return err
}

// inittab gives the machine an address that is worth reporting, although it has
// no network. See RFC 5737 for it.
const inittab = `::sysinit:/bin/ip link set lo up
::sysinit:/bin/ip address add 198.51.100.7/32 dev lo
::respawn:/bin/agent
`

// agentScript runs the agent, and rests when its job is done.
const agentScript = `#!/bin/sh
/var/lib/slipway/agent/current/provisionerd machine --agent-file /var/lib/slipway/agent.yaml >>/var/log/agent.log 2>&1 && exec sleep 86400
sleep 1
`

// image packs an image, which has an agent unless that is empty.
func (d *lxdDaemon) image(name, agent string) (string, error) {
	top := filepath.Join(d.dir, name)
	root := filepath.Join(top, "rootfs")
	for _, dir := range []string{"bin", "sbin", "etc", "proc", "sys", "dev", "root", "tmp", "var/lib", "var/log"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			return "", err
		}
	}
	if agent != "" {
		at := filepath.Join(root, userdata.AgentPath)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			return "", err
		}
		if err := os.Link(agent, at); err != nil {
			return "", err
		}
		if err := os.Chmod(filepath.Join(root, userdata.DataDir), 0o700); err != nil {
			return "", err
		}
	}
	busybox, err := exec.LookPath("busybox")
	if err != nil {
		return "", err
	}
	program, err := os.ReadFile(busybox)
	if err != nil {
		return "", err
	}
	for name, content := range map[string]string{
		"bin/busybox": string(program), "bin/agent": agentScript, "etc/inittab": inittab,
		"../metadata.yaml": metadata("busybox"),
	} {
		if err := os.WriteFile(filepath.Join(root, name), []byte(content), 0o755); err != nil {
			return "", err
		}
	}
	for _, name := range []string{"bin/sh", "bin/sleep", "bin/ls", "bin/cat", "bin/stat", "bin/ip", "bin/ps", "bin/killall", "sbin/init", "sbin/poweroff"} {
		if err := os.Symlink("/bin/busybox", filepath.Join(root, name)); err != nil {
			return "", err
		}
	}
	image := top + ".tar"
	out, err := exec.Command("tar", "-C", top, "--owner=0", "--group=0", "-cf", image, "metadata.yaml", "rootfs").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("tar: %v %s", err, out)
	}
	return image, nil
}

// metadata is what LXD has to know of an image of some system.
func metadata(system string) string {
	return "architecture: x86_64\ncreation_date: 1700000000\nproperties:\n  os: " + system + "\n  release: \"1\"\n"
}

// project makes an LXD project, which has containers of its own. It ends with
// the test, and so do its containers.
func (d *lxdDaemon) project(t *testing.T) string {
	t.Helper()
	name := fmt.Sprint("p", d.projects.Add(1))
	d.must(t, "project", "create", name, "-c", "features.images=false", "-c", "features.profiles=false")
	t.Cleanup(func() {
		for _, c := range d.containers(t, name) {
			d.must(t, "delete", "--force", "--project", name, c)
		}
		d.must(t, "project", "delete", name)
	})
	return name
}

// containers returns the names of the containers in a project.
func (d *lxdDaemon) containers(t *testing.T, project string) []string {
	t.Helper()
	return strings.Fields(d.must(t, "list", "--project", project, "--format", "csv", "--columns", "n"))
}

// clean ends the daemon and removes its folder.
func (d *lxdDaemon) clean() error {
	if d.cmd != nil && d.cmd.Process != nil {
		d.kill(syscall.SIGPWR) // stops what runs, and ends
	}
	if err := d.endProxies(); err != nil {
		return err
	}
	// The daemon leaves its own mounts behind.
	for _, mount := range []string{"devlxd", "shmounts", "guestapi"} {
		_ = syscall.Unmount(filepath.Join(d.state(), mount), syscall.MNT_DETACH) // it may not be there
	}
	return os.RemoveAll(d.dir)
}

// endProxies ends the processes that carry API connections into containers and
// were forgotten: LXD notes one only a second after it has started it, so it loses
// those that it was killed beside.
func (d *lxdDaemon) endProxies() error {
	all, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return err
	}
	for _, dir := range all {
		command, _ := os.ReadFile(filepath.Join(dir, "cmdline")) // it may have ended meanwhile
		env, _ := os.ReadFile(filepath.Join(dir, "environ"))
		ours := slices.Contains(strings.Split(string(env), "\x00"), "LXD_DIR="+d.state())
		if pid, err := strconv.Atoi(filepath.Base(dir)); err == nil && ours && strings.Contains(string(command), "forkproxy") {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	return nil
}
