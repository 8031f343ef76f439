package storecrash_test

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/slipway-project/slipway/internal/e2e/storecrash"
	"github.com/slipway-project/slipway/store"
)

// The environment variables that make this test binary another process, with
// the data directory as their value.
const (
	writerDir = "STORECRASH_WRITER_DIR"
	fullDir   = "STORECRASH_FULL_DIR"
)

// soakRounds is how many rounds SOAK=1 asks for.
const soakRounds = 1000

func TestMain(m *testing.M) {
	if dir := os.Getenv(writerDir); dir != "" {
		fmt.Fprintln(os.Stderr, storecrash.Write(context.Background(), dir, os.Stdout))
		os.Exit(1)
	}
	if dir := os.Getenv(fullDir); dir != "" {
		if err := storecrash.WriteUntilFull(context.Background(), dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// rounds returns how often to crash; SOAK multiplies a thousand.
func rounds(t *testing.T) int {
	t.Helper()
	text := os.Getenv("SOAK")
	if text == "" {
		return defaultRounds
	}
	scale, err := strconv.ParseFloat(text, 64)
	if err != nil || scale <= 0 {
		t.Fatalf("SOAK = %q, want a number above 0", text)
	}
	return max(1, int(scale*soakRounds))
}

// TestKilledWritersLoseNothing crashes writers again and again: most rounds go
// on with the store of the round before, every eighth begins a new one, and half
// of those are killed while they open it.
func TestKilledWritersLoseNothing(t *testing.T) {
	total, inFlight, acked := rounds(t), 0, 0
	var checker *storecrash.Checker
	for round := range total {
		if round%8 == 0 {
			checker = &storecrash.Checker{Dir: filepath.Join(t.TempDir(), "data")}
		}
		after := rand.IntN(300)
		if round%16 == 8 {
			after = whileOpening
		}
		r := crash(t, checker.Dir, after)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		err := checker.Check(ctx, r.reports)
		cancel()
		if err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		if r.inFlight() {
			inFlight++
		}
		acked += r.acks
	}
	t.Logf("%d kills, %d with a batch in flight, %d batches acknowledged, none lost", total, inFlight, acked)
	if inFlight*2 < total {
		t.Errorf("only %d of %d kills had a batch in flight, want at least half", inFlight, total)
	}
}

// run is what a writer process said until it was killed.
type run struct {
	reports storecrash.Reports
	acks    int
}

// inFlight reports whether a batch was tried and not acknowledged.
func (r run) inFlight() bool {
	for _, w := range r.reports {
		if w.Tried > w.Acked {
			return true
		}
	}
	return false
}

// whileOpening asks for a kill at about the time when the store is opened.
const whileOpening = -1

// crash starts a writer process and kills it at a random moment after so many
// acknowledged batches.
func crash(t *testing.T, dir string, after int) run {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), writerDir+"="+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	const hangs = 3 * time.Minute // without an acknowledgement
	due := time.AfterFunc(hangs, func() { cmd.Process.Kill() })
	defer due.Stop()
	if after == whileOpening {
		due.Reset(rand.N(30 * time.Millisecond))
	}
	r, err := follow(bufio.NewScanner(out), func(acks int) {
		switch {
		case acks == after:
			due.Reset(rand.N(3 * time.Millisecond))
		case acks < after:
			due.Reset(hangs)
		}
	})
	if err != nil {
		cmd.Process.Kill()
		t.Errorf("a writer said: %v", err)
	}
	cmd.Wait()
	if s, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || s.Signal() != syscall.SIGKILL {
		t.Fatalf("the writer ended by itself: %v", cmd.ProcessState)
	}
	if r.acks < after {
		t.Fatalf("the writer hung after %d batches", r.acks)
	}
	return r
}

// follow reads a writer's lines to their end and calls seen with the number of
// acknowledged batches, at first 0.
func follow(lines *bufio.Scanner, seen func(acks int)) (run, error) {
	var r run
	seen(0)
	for lines.Scan() {
		var verb string
		var writer, n int
		if _, err := fmt.Sscan(lines.Text(), &verb, &writer, &n); err != nil {
			return r, fmt.Errorf("%q: %w", lines.Text(), err)
		}
		report := &r.reports[writer]
		switch {
		case verb == "try":
			report.Tried = n
		case verb == "ack" && report.Tried == n:
			report.Acked = n
			r.acks++
			seen(r.acks)
		default:
			return r, fmt.Errorf("%q after a try of %d", lines.Text(), report.Tried)
		}
	}
	return r, lines.Err()
}

// TestCheckerSeesALoss makes sure that the checks can fail.
func TestCheckerSeesALoss(t *testing.T) {
	dir := t.TempDir()
	checker := &storecrash.Checker{Dir: dir}
	r := crash(t, dir, 200)
	writer := 0
	for w, report := range r.reports {
		if report.Acked > r.reports[writer].Acked {
			writer = w
		}
	}
	if err := checker.Check(t.Context(), r.reports); err != nil {
		t.Fatal(err)
	}
	claimed := r.reports
	claimed[writer].Acked, claimed[writer].Tried = claimed[writer].Acked+5, claimed[writer].Tried+5
	if err := checker.Check(t.Context(), claimed); err == nil {
		t.Error("an acknowledged batch that is not there was not seen")
	}
	s, err := storecrash.Open(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	doc, err := s.Get(t.Context(), store.Key{Collection: "docs", ID: fmt.Sprintf("state-%d-1", writer)})
	if err != nil {
		t.Fatal(err)
	}
	half := store.Replace(doc.Key, doc.Rev, []byte("1234567"), map[string]string{"writer": strconv.Itoa(writer)})
	if err := s.Apply(t.Context(), []store.Op{half}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := checker.Check(t.Context(), r.reports); err == nil {
		t.Error("half a batch was not seen")
	}
}

func TestAFullDiskIsSurvived(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0]) // a process of its own, because the limit is for all of it
	cmd.Env = append(os.Environ(), fullDir+"="+t.TempDir())
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}
