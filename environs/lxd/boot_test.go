package lxd_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/slipway-project/slipway/core/instance"
	"github.com/slipway-project/slipway/core/status"
	"github.com/slipway-project/slipway/environs"
	"github.com/slipway-project/slipway/environs/lxd"
	"github.com/slipway-project/slipway/environs/lxd/lxdtest"
)

const (
	dataDir   = "/var/lib/slipway"
	agentFile = dataDir + "/agent.yaml"
)

// late are settings with which a container runs before its disk is written to.
var late = map[string]any{lxd.HasAgentKey: true}

// LXD has a start wait for a second after something was written to the disk, so
// that is done first only where the boot needs it.
func TestDiskIsWrittenAfterTheStartIfTheBootDoesNotNeedIt(t *testing.T) {
	for name, c := range map[string]struct {
		attrs map[string]any
		late  bool
		files int // that are not directories
	}{
		"neither cloud-init nor the agent": {nil, false, 4},
		"the agent":                        {late, true, 1},
		"cloud-init":                       {map[string]any{lxd.CloudInitKey: true}, true, 2},
		"both":                             {map[string]any{lxd.CloudInitKey: true, lxd.HasAgentKey: true}, true, 1},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, c.attrs, "a")
			id := string(f.start(f.params("0", "")).ID)
			calls := f.servers["a"].Calls()
			start := slices.Index(calls, "PUT /1.0/instances/"+id+"/state")
			write := slices.Index(calls, "POST /1.0/instances/"+id+"/files")
			if start < 0 || write < 0 || (start < write) != c.late {
				t.Errorf("started by call %d, written to from call %d on, want the start first: %v", start, write, c.late)
			}
			files := 0
			for _, file := range f.container("a").Files {
				if file.Kind != "directory" {
					files++
				}
			}
			if files != c.files {
				t.Errorf("%d files on the disk, want %d", files, c.files)
			}
			if got := f.container("a").Files[dataDir].Mode; got != "0700" {
				t.Errorf("%s has mode %s, want 0700", dataDir, got)
			}
		})
	}
}

// Nobody in a container that runs may read the agent file while it is written.
func TestOpenDirectoryIsClosedFirst(t *testing.T) {
	disk := map[string]lxdtest.File{
		"/": {Kind: "directory"}, "/var": {Kind: "directory"}, "/var/lib": {Kind: "directory"}, "/bin": {Kind: "directory"},
		dataDir: {Kind: "directory", Mode: "0755"},
	}
	f := newFixture(t, late, "a")
	f.servers["a"].Disk(disk)
	if _, err := f.environ.StartInstance(t.Context(), f.params("0", "")); err == nil || environs.ClassOf(err) != environs.Permanent || !strings.Contains(err.Error(), "0700") {
		t.Errorf("StartInstance where the directory stays open = %v, want a permanent error", err)
	}
	if got := f.servers["a"].Containers(); len(got) != 0 {
		t.Errorf("%d containers are left", len(got))
	}
	disk["/bin/chmod"] = lxdtest.File{Kind: "file"}
	f.servers["a"].Disk(disk)
	f.start(f.params("0", ""))
	if got := f.container("a").Files; got[dataDir].Mode != "0700" || got[agentFile].Mode != "0600" {
		t.Errorf("directory %+v, agent file with mode %s", got[dataDir], got[agentFile].Mode)
	}
}

// A container that lacks something is not taken for a sound one, nor started by
// LXD itself; the same start finishes it, and leaves alone what the agent may have
// changed since.
func TestStartThatWasCutOffBeforeItsEndIsFinished(t *testing.T) {
	const key, auto = "user.slipway-complete", "boot.autostart"
	for name, attrs := range map[string]map[string]any{"written to late": late, "written to first": nil} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, attrs, "a")
			f.servers["a"].Fail(func(call string) *lxdtest.Failure {
				if strings.HasPrefix(call, "PUT ") || strings.HasPrefix(call, "DELETE ") {
					return &lxdtest.Failure{Code: 500, Text: "not now"}
				}
				return nil
			})
			if _, err := f.environ.StartInstance(t.Context(), f.params("0", "")); err == nil {
				t.Error("StartInstance succeeded")
			}
			f.servers["a"].Fail(nil)
			c := f.container("a")
			if c.Config[auto] != "" || c.Config[key] != "false" {
				t.Errorf("LXD may start a container that is incomplete: %v", c.Config)
			}
			f.stop(c.Name)
			p := f.params("0", "")
			f.start(p)
			c = f.container("a")
			whole := c.Files[agentFile]
			if c.Config[key] != "true" || c.Config[auto] != "true" {
				t.Errorf("configuration in the end: %v", c.Config)
			}
			c.Files[agentFile] = lxdtest.File{Kind: "file", Content: "the agent's own"}
			f.servers["a"].Put(c)
			if i := f.start(p); i.Nonce == "" || f.container("a").Files[agentFile].Content != "the agent's own" {
				t.Errorf("nonce %q, or the agent's own file was replaced", i.Nonce)
			}

			c.Files[agentFile], c.Config[key] = whole, "false"
			if attrs != nil {
				delete(c.Files, agentFile)
			}
			f.servers["a"].Put(c)
			if all, err := f.environ.AllInstances(t.Context()); err != nil || len(all) != 1 || all[0].Nonce != "" || all[0].Status != status.Provisioning {
				t.Errorf("AllInstances = %+v, %v, want no nonce", all, err)
			}
			if i := f.start(p); i.Nonce == "" || f.container("a").Files[agentFile] != whole {
				t.Errorf("nonce %q, agent file %+v", i.Nonce, f.container("a").Files[agentFile])
			}

			c.Status, c.Config[key] = "Stopped", "false"
			delete(c.Files, agentFile)
			f.servers["a"].Put(c)
			f.start(p)
			if got := f.container("a"); got.Status != "Stopped" || got.Files[agentFile].Content != "" {
				t.Errorf("a container that somebody stopped is %s", got.Status)
			}
		})
	}
}

// A container that is to go is not started again by an LXD that is started while
// it goes.
func TestContainerThatGoesIsNotStartedByItself(t *testing.T) {
	f := newFixture(t, late, "a")
	id := f.start(f.params("0", "")).ID
	f.servers["a"].Fail(func(call string) *lxdtest.Failure {
		if strings.HasPrefix(call, "PUT ") {
			return &lxdtest.Failure{Cut: true}
		}
		return nil
	})
	if errs, err := f.environ.StopInstances(t.Context(), []instance.ID{id}); err != nil || errs[0] == nil {
		t.Errorf("StopInstances = %v, %v, want that LXD does not answer", errs, err)
	}
	if got := f.container("a").Config["boot.autostart"]; got != "false" {
		t.Errorf("boot.autostart = %q, want false", got)
	}
	// Without a change of the key, it goes all the same.
	f.servers["a"].Fail(func(call string) *lxdtest.Failure {
		if strings.HasPrefix(call, "PATCH ") {
			return &lxdtest.Failure{Code: 400, Text: "Instance is busy"}
		}
		return nil
	})
	c := f.container("a")
	c.Config["boot.autostart"] = "true"
	f.servers["a"].Put(c)
	f.stop(c.Name)
	if got := f.servers["a"].Containers(); len(got) != 0 {
		t.Errorf("%d containers are left", len(got))
	}
}

func (f *fixture) stop(name string) {
	f.Helper()
	if errs, err := f.environ.StopInstances(f.Context(), []instance.ID{instance.ID(name)}); err != nil || errs[0] != nil {
		f.Fatalf("StopInstances = %v, %v", errs, err)
	}
}

func TestFailedWriteAfterTheStartLeavesNothing(t *testing.T) {
	f := newFixture(t, late, "a", "b")
	f.servers["a"].Fail(func(call string) *lxdtest.Failure {
		if strings.HasSuffix(call, "/files") {
			return &lxdtest.Failure{Code: 500, Text: "write /var/lib/slipway/agent.yaml: no space left on device"}
		}
		return nil
	})
	if i := f.start(f.params("0", "")); i.Zone() != "b" {
		t.Errorf("machine 0 is in zone %q, want b, which has room", i.Zone())
	}
	if got := f.servers["a"].Containers(); len(got) != 0 {
		t.Errorf("%d containers are left", len(got))
	}
}
