//go:build e2e

package upgrade_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/slipway-project/slipway/internal/buildinfo"
)

// TestUpgrade takes one machine through versions that work and versions that do
// not.
func TestUpgrade(t *testing.T) {
	s := newSite(t, agentVersion(t, buildinfo.Version))
	eventually(t, "the agent is there", func() bool {
		a := s.agent()
		return a.Status == "started" && a.Version != ""
	})
	pid := s.pid()

	// All good versions are one program, with another text in it.
	const pattern = "9.9.9000"
	program := agentVersion(t, pattern)
	if n := bytes.Count(program, []byte(pattern)); n != 1 {
		t.Fatalf("the version is in the program %d times", n)
	}
	next := func(n int) (string, []byte) {
		version := "9.9." + strconv.Itoa(9000+n)
		return version, bytes.Replace(program, []byte(pattern), []byte(version), 1)
	}
	version, content := next(1)
	s.offer(version, content, false)
	s.runs(version)
	if now := s.pid(); now != pid || pid == 0 {
		t.Errorf("the agent's process is %d, and was %d: init would have noticed", now, pid)
	}

	s.offer("9.9.9002", build(t, "./testdata/bad", "-X main.version=9.9.9002 -X main.fault=crash"), false)
	s.says("cannot upgrade to 9.9.9002: it ended (exit status 2) before it had logged in: panic: this version is broken; waiting for another version")
	s.offer("9.9.9003", content, false)
	s.says("cannot upgrade to 9.9.9003: its program says that it is version 9.9.9001")
	if now := s.pid(); now != pid {
		t.Errorf("the agent's process is %d, and was %d", now, pid)
	}
	s.deadline("2s") // it is over in any case: that version never logs in
	s.offer("9.9.9004", build(t, "./testdata/bad", "-X main.version=9.9.9004 -X main.fault=hang"), false)
	s.says("cannot upgrade to 9.9.9004: it did not log in within 2s; waiting for another version")
	s.deadline("1m")

	free := s.fill()
	version, content = next(5)
	s.offer(version, content, false)
	s.says("no space left on device; trying again")
	free()
	s.runs(version) // by itself

	s.offer("9.9.9001", nil, true)
	s.runs("9.9.9001")
}

// An agent that is the first process of its machine, without any init, upgrades in
// its place, and survives versions that do not work.
func TestUpgradeOfTheFirstProcess(t *testing.T) {
	s := newSiteOf(t, alone, agentVersion(t, buildinfo.Version))
	eventually(t, "the agent is there", func() bool { return s.agent().Status == "started" && s.pid() != 0 })
	pid := s.pid()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	must(t, err)
	if !regexp.MustCompile(`(?m)^NSpid:\t\d+\t1$`).Match(status) {
		t.Fatalf("the agent is not the first process:\n%s", status)
	}
	const version = "9.9.9000"
	s.offer(version, agentVersion(t, version), false)
	s.runs(version)
	s.offer("9.9.9002", build(t, "./testdata/bad", "-X main.version=9.9.9002 -X main.fault=crash"), false)
	s.says("cannot upgrade to 9.9.9002: it ended (exit status 2)")
	s.offer(version, nil, true)
	s.runs(version)
	if now := s.pid(); now != pid {
		t.Errorf("the agent is process %d, and was %d", now, pid)
	}
}

// TestKilledDuringUpgrades kills the agent at any moment of upgrades. Whatever
// init starts then has to finish them.
func TestKilledDuringUpgrades(t *testing.T) {
	s := newSite(t, agentVersion(t, buildinfo.Version))
	eventually(t, "the agent is there", func() bool { return s.agent().Status == "started" })
	seed, err := strconv.ParseUint(os.Getenv("SEED"), 10, 64)
	if err != nil {
		seed = rand.Uint64()
	}
	t.Logf("SEED=%d", seed)
	dice := rand.New(rand.NewPCG(seed, 0))
	const pattern = "9.9.9000"
	program := agentVersion(t, pattern)
	var killed int
	for n := range 5 {
		version := "9.9." + strconv.Itoa(9001+n)
		s.offer(version, bytes.Replace(program, []byte(pattern), []byte(version), 1), false)
		<-time.After(time.Duration(dice.IntN(1500)) * time.Millisecond) // an upgrade takes about a second
		if pid := s.pid(); pid != 0 {
			must(t, syscall.Kill(pid, syscall.SIGKILL))
			killed++
		}
		s.runs(version)
	}
	t.Logf("killed %d times", killed)
}

// fill takes all the room on the machine's disk, and returns what gives it back.
func (s *site) fill() (free func()) {
	s.Helper()
	path := filepath.Join(s.disk, "filler")
	f, err := os.Create(path)
	must(s, err)
	defer f.Close()
	for block := make([]byte, 1<<16); err == nil; {
		_, err = f.Write(block)
	}
	if !errors.Is(err, syscall.ENOSPC) {
		s.Fatal(fmt.Errorf("cannot fill the disk: %w", err))
	}
	return func() { must(s, os.Remove(path)) }
}
