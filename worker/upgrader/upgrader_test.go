package upgrader

import (
	"bytes"
	"encoding/binary"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/worker"
)

func TestAnAgentBecomesTheNewVersion(t *testing.T) {
	s, dir := newSite(t), lay(t)
	old := start(t, s, dir, nil)
	if p, err := old.consider(s); err != nil || p != (problem{}) {
		t.Fatalf("with nothing offered: %+v, %v", p, err)
	}
	s.offer(named("2.0.1"), pack(t, "./provisionerd", program(t)))
	if p, err := old.consider(s); !errors.Is(err, worker.ErrRestart) || p != (problem{}) {
		t.Fatalf("consider = %+v, %v, want the program to be started anew", p, err)
	}
	old.wantCurrent(named("2.0.1"))

	next := start(t, s, dir, nil)
	if err := next.Begin(); err != nil || !next.unsure {
		t.Fatalf("Begin() = %v, and it has to prove itself: %v", err, next.unsure)
	}
	next.LoggedIn()
	if r := readRecord(next.files.record()); r.Phase != "" || r.Version != "" || len(r.Refused) != 0 {
		t.Errorf("after the login the record is %+v", r)
	}
	if p, err := next.consider(s); err != nil || p != (problem{}) {
		t.Errorf("afterwards: %+v, %v", p, err)
	}
	if err := start(t, s, dir, nil).Begin(); err != nil {
		t.Errorf("at the next boot: %v", err)
	}

	// The version before is kept, and no other.
	s.offer(named("2.0.2"), pack(t, programName, program(t)))
	if _, err := next.consider(s); !errors.Is(err, worker.ErrRestart) {
		t.Fatal(err)
	}
	third := start(t, s, dir, nil)
	if err := third.Begin(); err != nil {
		t.Fatal(err)
	}
	third.LoggedIn()
	for name, want := range map[string]bool{"2.0.0": false, "2.0.1": true, "2.0.2": true} {
		if _, err := os.Stat(third.files.program(named(name))); (err == nil) != want {
			t.Errorf("version %s is there: %v, want %v", name, err == nil, want)
		}
	}
}

// TestWhatDoesNotWork has an agent offered packages that must not replace it.
func TestWhatDoesNotWork(t *testing.T) {
	good := pack(t, programName, program(t))
	foreign := bytes.Clone(program(t))
	binary.LittleEndian.PutUint16(foreign[18:], 8) // e_machine: MIPS
	tests := []struct {
		name     string
		content  []byte
		answer   http.HandlerFunc // instead of the content
		behaves  string
		claims   string
		deadline time.Duration
		says     string
		passes   bool
	}{
		{name: "cut off", answer: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "99999999")
			_, _ = w.Write(good[:100000])
			panic(http.ErrAbortHandler)
		}, says: "the controller sent 100000 of ", passes: true},
		{name: "too short", answer: func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(good[:100000]) },
			says: "the controller sent 100000 of ", passes: true},
		{name: "too long", answer: func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write(good)
			_, _ = w.Write([]byte("x"))
		}, says: "the controller sent more than ", passes: true},
		{name: "wrong checksum", answer: func(w http.ResponseWriter, _ *http.Request) {
			wrong := bytes.Clone(good)
			wrong[len(wrong)/2]++
			_, _ = w.Write(wrong)
		}, says: "it has the SHA-256 ", passes: true},
		{name: "gone", answer: http.NotFound, says: "the controller answered 404", passes: true},
		{name: "redirected", answer: func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/other", http.StatusFound) },
			says: "the controller answered 302", passes: true},
		{name: "no archive", content: []byte("hello"), says: "its package is no gzip'd archive"},
		{name: "no program", content: pack(t, "bin/provisionerd", program(t)), says: "its package has no program provisionerd at its root"},
		{name: "a script", content: pack(t, programName, []byte("#!/bin/sh\necho provisionerd 2.0.1\n")), says: "none that Linux could run"},
		{name: "other architecture", content: pack(t, programName, foreign), says: "its program is for the architecture EM_MIPS"},
		{name: "other version", claims: "2.0.7", says: "its program says that it is version 2.0.7"},
		{name: "crashes", behaves: "crash", says: "it ended (exit status 2) before it had logged in: panic: something is nil"},
		{name: "never logs in", behaves: "hang", deadline: 10 * time.Second, says: "it did not log in within 10s: trying again: permission denied"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Setenv(behaviour, test.behaves)
			t.Setenv(behaviour+"_VERSION", test.claims)
			s, dir := newSite(t), lay(t)
			content := test.content
			if content == nil {
				content = good
			}
			s.offer(named("2.0.1"), content)
			s.answers(test.answer)
			a := start(t, s, dir, func(c *Config) {
				if test.deadline > 0 {
					c.Deadline = test.deadline
				}
			})
			p, err := a.consider(s)
			if err != nil || !strings.HasPrefix(p.text, "cannot upgrade to 2.0.1: ") || !strings.Contains(p.text, test.says) || p.passes != test.passes {
				t.Fatalf("consider = %+v, %v, want %q, passing: %v", p, err, test.says, test.passes)
			}
			if _, err := os.Stat(a.files.version(named("2.0.1"))); err == nil {
				t.Error("it is still there")
			}
			if part, _ := filepath.Glob(filepath.Join(dir, "*"+partSuffix)); len(part) > 0 {
				t.Errorf("%v are left", part)
			}

			// Later, and after a new start, what passes works, and what is bad is not
			// even fetched; the next version works.
			t.Setenv(behaviour, "")
			t.Setenv(behaviour+"_VERSION", "")
			s.answers(nil)
			again := start(t, s, dir, nil)
			if err := again.Begin(); err != nil {
				t.Fatal(err)
			}
			fetched := s.count()
			q, err := again.consider(s)
			if test.passes {
				if !errors.Is(err, worker.ErrRestart) {
					t.Errorf("when it is well again: %+v, %v", q, err)
				}
				return
			}
			if q != p || s.count() != fetched {
				t.Errorf("the second time: %+v after %d fetches, %v, want %+v without any", q, s.count()-fetched, err, p)
			}
			s.offer(named("2.0.2"), good)
			if q, err := again.consider(s); !errors.Is(err, worker.ErrRestart) {
				t.Errorf("the next version: %+v, %v", q, err)
			}
			again.wantCurrent(named("2.0.2"))
		})
	}
}

func TestGoingBackHasToBeAskedFor(t *testing.T) {
	s, dir := newSite(t), lay(t)
	s.offer(named("1.9.0"), pack(t, programName, program(t)))
	a := start(t, s, dir, nil)
	if p, err := a.consider(s); err != nil || p != (problem{}) || s.count() != 0 {
		t.Fatalf("an older version: %+v, %v, %d fetches", p, err, s.count())
	}
	s.mu.Lock()
	s.desired.Downgrade = true
	s.mu.Unlock()
	if _, err := a.consider(s); !errors.Is(err, worker.ErrRestart) {
		t.Fatal(err)
	}
	a.wantCurrent(named("1.9.0"))
}

func TestNothingSuitsOrIsThere(t *testing.T) {
	s, dir := newSite(t), lay(t)
	a := start(t, s, dir, nil)
	s.offer("2.0.1-noble-"+architecture(), pack(t, programName, program(t)))
	p, err := a.consider(s)
	if err != nil || p.text != "cannot upgrade to 2.0.1: no agent binary "+named("2.0.1")+" has been uploaded; trying again" || !p.passes {
		t.Errorf("for another series: %+v, %v", p, err)
	}
	elsewhere := start(t, s, dir, func(c *Config) { c.Dir = t.TempDir() })
	if p, err := elsewhere.consider(s); err != nil || !strings.Contains(p.text, "was not installed in") || p.passes {
		t.Errorf("an agent of a package: %+v, %v", p, err)
	}
	if err := elsewhere.Begin(); err != nil {
		t.Errorf("an agent of a package: Begin() = %v", err)
	}
}

// switched returns an agent that has just been replaced by 2.0.1.
func replaced(t *testing.T, s *site, dir string, change func(*Config)) *agent {
	t.Helper()
	s.offer(named("2.0.1"), pack(t, programName, program(t)))
	if _, err := start(t, s, dir, nil).consider(s); !errors.Is(err, worker.ErrRestart) {
		t.Fatal(err)
	}
	return start(t, s, dir, change)
}

// wantBack fails unless the machine has gone back for good.
func wantBack(t *testing.T, s *site, dir, why string) {
	t.Helper()
	old := start(t, s, dir, nil)
	old.wantCurrent(named("2.0.0"))
	if err := old.Begin(); err != nil || old.unsure {
		t.Errorf("the old version: Begin() = %v, unsure: %v", err, old.unsure)
	}
	if p, err := old.consider(s); err != nil || p.passes || !strings.Contains(p.text, why) {
		t.Errorf("the old version says %+v, %v, want %q", p, err, why)
	}
}

func TestANewVersionThatKeepsStartingGoesBack(t *testing.T) {
	s, dir := newSite(t), lay(t)
	replaced(t, s, dir, nil)
	for range maxStarts {
		if err := start(t, s, dir, nil).Begin(); err != nil {
			t.Fatal(err)
		}
	}
	if err := start(t, s, dir, nil).Begin(); !errors.Is(err, worker.ErrRestart) {
		t.Fatalf("the fourth start: %v, want to go back", err)
	}
	wantBack(t, s, dir, "it was started 3 times and never logged in")
}

func TestANewVersionThatDoesNotLogInGoesBack(t *testing.T) {
	s, dir := newSite(t), lay(t)
	next := replaced(t, s, dir, func(c *Config) { c.Deadline = 10 * time.Millisecond })
	if err := next.Begin(); err != nil {
		t.Fatal(err)
	}
	killed := make(chan struct{})
	release := next.Guard(func() { close(killed) })
	defer release()
	<-killed
	next.LoggedIn() // too late: it is ending
	if err := next.Expired(); !errors.Is(err, worker.ErrRestart) {
		t.Fatalf("Expired() = %v, want to go back", err)
	}
	wantBack(t, s, dir, "it did not log in within 10ms after it had taken over")
}

func TestAProvenVersionStays(t *testing.T) {
	s, dir := newSite(t), lay(t)
	next := replaced(t, s, dir, func(c *Config) { c.Deadline = time.Nanosecond })
	if err := next.Begin(); err != nil {
		t.Fatal(err)
	}
	next.LoggedIn()
	release := next.Guard(func() { t.Error("killed") })
	defer release()
	if err := next.Expired(); err != nil {
		t.Errorf("Expired() = %v", err)
	}
	next.wantCurrent(named("2.0.1"))
}

func TestRubbishInTheRecordIsNoRecord(t *testing.T) {
	path := filepath.Join(t.TempDir(), recordName)
	if err := os.WriteFile(path, []byte(`{"version": "2.0`), 0o644); err != nil {
		t.Fatal(err)
	}
	if r := readRecord(path); r.Version != "" || r.Phase != "" {
		t.Errorf("record = %+v, want an empty one", r)
	}
}

func TestOnlyTheLastRefusalsAreKept(t *testing.T) {
	var r record
	for i := range maxRefused + 5 {
		r.refuse(strings.Repeat("x", i+1), "no")
	}
	r.refuse(strings.Repeat("x", maxRefused), "again")
	if len(r.Refused) != maxRefused || r.reason("x") != "" || r.reason(strings.Repeat("x", maxRefused)) != "again" {
		t.Errorf("%d refusals are kept: %+v", len(r.Refused), r)
	}
}

func TestNewRefusesHalfAConfig(t *testing.T) {
	if _, err := New(Config{Dir: "x", Version: "2.0.0"}); !errors.Is(err, errors.NotValid) {
		t.Errorf("New = %v, want NotValid", err)
	}
}
