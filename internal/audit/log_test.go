package audit_test

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/apiserver"
	"github.com/slipway-project/slipway/internal/audit"
)

var at = time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)

func open(t *testing.T, path string) *audit.Log {
	t.Helper()
	l, err := audit.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func finish(t *testing.T, l *audit.Log) {
	t.Helper()
	l.Kill()
	if err := l.Wait(); err != nil {
		t.Errorf("Wait = %v", err)
	}
}

// lines reads a log.
func lines(t *testing.T, path string) []map[string]any {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var out []map[string]any
	for s := bufio.NewScanner(f); s.Scan(); {
		var r map[string]any
		if err := json.Unmarshal(s.Bytes(), &r); err != nil {
			t.Fatalf("line %q: %v", s.Text(), err)
		}
		out = append(out, r)
	}
	return out
}

func write(name string) apiserver.Call {
	return apiserver.Call{Facade: "Client", Version: 1, Method: "DestroyMachines", At: at, Writes: true,
		Entities: []apiserver.Entity{{Name: name}}}
}

func TestLogHasWhoDidWhat(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	if err := os.WriteFile(path, []byte("{}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	l := open(t, path)
	from := apiserver.Origin{Who: "user-bob", Model: "m-1", Remote: "192.0.2.1"}
	l.LoggedIn(apiserver.Login{Origin: from, At: at, Purpose: "slipway"})
	l.LoggedIn(apiserver.Login{Origin: apiserver.Origin{Remote: "192.0.2.2"}, At: at, Code: "unauthorized access"})
	l.Called(apiserver.Call{Origin: from, Facade: "Client", Version: 1, Method: "FullStatus", At: at})
	l.Called(apiserver.Call{
		Origin: from, Facade: "Client", Version: 1, Method: "DestroyMachines", At: at, Took: 1500 * time.Microsecond, Writes: true, More: 2,
		Entities: []apiserver.Entity{{Name: "1"}, {Name: "<2>", Code: "not found"}},
	})
	finish(t, l)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want := `{}
{"time":"2026-01-02T03:04:05.000000006Z","event":"login","who":"user-bob","model":"m-1","from":"192.0.2.1","purpose":"slipway","outcome":"ok"}
{"time":"2026-01-02T03:04:05.000000006Z","event":"login","from":"192.0.2.2","outcome":"unauthorized access"}
{"time":"2026-01-02T03:04:05.000000006Z","event":"call","who":"user-bob","model":"m-1","from":"192.0.2.1","method":"Client.DestroyMachines","version":1,"entities":[{"name":"1"},{"name":"<2>","outcome":"not found"}],"more":2,"outcome":"ok","took-ms":1.5}
`
	if string(text) != want {
		t.Errorf("log is\n%s\nwant\n%s", text, want)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode = %v, %v, want 0600", info.Mode(), err)
	}
}

func TestLogIsReopened(t *testing.T) {
	dir := t.TempDir()
	path, old := filepath.Join(dir, "audit.log"), filepath.Join(dir, "audit.log.1")
	l := open(t, path)
	l.Called(write("before"))
	eventually(t, func() bool { return len(lines(t, path)) == 1 })
	if err := os.Rename(path, old); err != nil {
		t.Fatal(err)
	}
	l.Reopen()
	eventually(t, func() bool { _, err := os.Stat(path); return err == nil })
	l.Called(write("after"))
	finish(t, l)
	if a, b := len(lines(t, old)), len(lines(t, path)); a != 1 || b != 1 {
		t.Errorf("%d lines in the old file and %d in the new one, want one each", a, b)
	}
}

// eventually waits until something is so.
func eventually(t *testing.T, so func() bool) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !so() {
		if time.Now().After(deadline) {
			t.Fatal("not so in time")
		}
		<-tick.C
	}
}

func TestOpenRefusesWhatIsNoFile(t *testing.T) {
	if _, err := audit.Open(t.TempDir()); !errors.Is(err, errors.NotValid) {
		t.Errorf("Open of a folder = %v, want not valid", err)
	}
	if _, err := audit.Open(filepath.Join(t.TempDir(), "missing", "log")); err == nil {
		t.Error("Open in a folder that is not there succeeds")
	}
}

// TestNothingIsLostSilently has the file go away under the log for longer than
// there is room.
func TestNothingIsLostSilently(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(dir, "sub", "audit.log")
		if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		l := open(t, path)
		if err := os.RemoveAll(filepath.Dir(path)); err != nil {
			t.Fatal(err)
		}
		l.Reopen()
		synctest.Wait()
		if l.Failing() == nil {
			t.Error("the log does not fail although its folder is gone")
		}
		const all = 20000
		start := time.Now()
		for i := range all {
			l.Called(write(strconv.Itoa(i)))
		}
		if waited := time.Since(start); waited != 0 {
			t.Errorf("calls waited %v for a log that fails", waited)
		}
		if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		<-time.After(2 * time.Second) // of fake time: until the next try
		synctest.Wait()
		if err := l.Failing(); err != nil {
			t.Errorf("the log still fails: %v", err)
		}
		finish(t, l)
		kept, lost := 0, 0
		for i, r := range lines(t, path) {
			if r["event"] == "lost" {
				lost += int(r["lost"].(float64))
				continue
			}
			kept++
			if name := r["entities"].([]any)[0].(map[string]any)["name"]; name != strconv.Itoa(i) && lost == 0 {
				t.Fatalf("line %d is about %v", i, name)
			}
		}
		if kept+lost != all || lost == 0 || kept < 8192 {
			t.Errorf("%d records kept and %d told to be lost, want %d together", kept, lost, all)
		}
	})
}

func TestWaitTellsOfWhatWasNeverWritten(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "sub", "audit.log")
	if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	l := open(t, path)
	if err := os.RemoveAll(filepath.Dir(path)); err != nil {
		t.Fatal(err)
	}
	l.Reopen()
	eventually(t, func() bool { return l.Failing() != nil })
	for range 3 {
		l.Called(write("x"))
	}
	l.Kill()
	if err := l.Wait(); err == nil || !strings.Contains(err.Error(), "3 records are lost") {
		t.Errorf("Wait = %v, want the number of lost records", err)
	}
}
