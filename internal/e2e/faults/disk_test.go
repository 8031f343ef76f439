//go:build e2e

package faults_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/environs/simulated"
	"github.com/slipway-project/slipway/internal/e2e/harness"
	"github.com/slipway-project/slipway/params"
)

// disk is a small file system of its own, which only processes in its mount
// namespace see under its path.
type disk struct {
	t      testing.TB
	path   string
	holder *harness.Process
}

// newDisk mounts a file system of so many megabytes.
func newDisk(t testing.TB, megabytes int) *disk {
	t.Helper()
	d := &disk{t: t, path: filepath.Join(t.TempDir(), "disk")}
	if err := os.Mkdir(d.path, 0o700); err != nil {
		t.Fatal(err)
	}
	script := fmt.Sprintf("mount -t tmpfs -o size=%dm,mode=700 tmpfs %s && echo ready there && exec sleep 3600", megabytes, d.path)
	d.holder = harness.New(t, harness.Config{Name: "disk", Program: "unshare", Args: func() []string { return []string{"-m", "sh", "-c", script} }})
	d.holder.Serve()
	return d
}

// inside is how to run a program that sees the disk.
func (d *disk) inside() []string {
	return []string{"nsenter", "-t", fmt.Sprint(d.holder.Pid()), "-m", "--"}
}

// outside is where the disk is seen by everybody else.
func (d *disk) outside(path string) string {
	return filepath.Join(fmt.Sprintf("/proc/%d/root", d.holder.Pid()), path)
}

// fill takes all the room there is, and returns what gives it back.
func (d *disk) fill() (free func()) {
	d.t.Helper()
	path := d.outside(filepath.Join(d.path, "filler"))
	f, err := os.Create(path)
	if err != nil {
		d.t.Fatal(err)
	}
	defer f.Close()
	for block := make([]byte, 4096); err == nil; {
		_, err = f.Write(block)
	}
	if !errors.Is(err, syscall.ENOSPC) {
		d.t.Fatalf("cannot fill the disk: %v", err)
	}
	return func() {
		if err := os.Remove(path); err != nil {
			d.t.Fatal(err)
		}
	}
}

// TestFullDisk fills the controller's disk while machines are being started and
// removed. It says so, answers what needs no room, and goes on by itself when there
// is some again; and so it does if it is killed meanwhile.
func TestFullDisk(t *testing.T) {
	d := newDisk(t, 32)
	s := newSite(t, siteConfig{disk: d, behaviour: simulated.Behaviour{
		Delays: map[simulated.Call]simulated.Distribution{simulated.CallStart: delay(t, 300*time.Millisecond)},
	}})
	living := s.add(5)
	s.started(living...)
	for _, killed := range []bool{false, true} {
		more := s.add(10)
		s.remove(false, living[:2]...)
		living = append(living[2:], more...)
		free := d.fill()
		said := s.addUntilRefused(&living)
		t.Logf("adding a machine without room: %s", said)
		if !strings.Contains(said, "no space left") {
			t.Errorf("adding a machine without room: %q, want it to say that there is no space left", said)
		}
		if s.status() == nil {
			t.Error("no status while the disk is full")
		}
		if killed {
			s.controller.Kill()
		}
		<-time.After(2 * time.Second) // in which workers and agents try, and fail
		free()
		if killed {
			s.controller.Serve()
		}
		s.settled(living...)
	}
}

// addUntilRefused adds machines to those in ids until one is refused, and returns
// what was said.
func (s *site) addUntilRefused(ids *[]string) string {
	s.t.Helper()
	said := ""
	harness.Eventually(s.t, "a machine is refused", func() bool {
		results, err := s.client().AddMachines(context.Background(), params.AddMachineParams{Jobs: []string{"JobHostUnits"}})
		if err == nil {
			err = results[0].Err
		}
		if err != nil {
			said = err.Error()
			return true
		}
		*ids = append(*ids, results[0].Value)
		return false
	})
	return said
}
