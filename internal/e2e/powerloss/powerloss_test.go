//go:build e2e

package powerloss_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slipway-project/slipway/internal/e2e/powerloss"
	"github.com/slipway-project/slipway/internal/e2e/storecrash"
)

const (
	plainRounds = 1
	soakRounds  = 20 // what SOAK=1 asks for

	bootLimit = 3 * time.Minute // from power-on until the end of a round: some 30 times what it takes
)

// rounds returns how often to take the power away; SOAK multiplies twenty.
func rounds(t *testing.T) int {
	t.Helper()
	text := os.Getenv("SOAK")
	if text == "" {
		return plainRounds
	}
	scale, err := strconv.ParseFloat(text, 64)
	if err != nil || scale <= 0 {
		t.Fatalf("SOAK = %q, want a number above 0", text)
	}
	return max(1, int(scale*soakRounds))
}

// boot is what a machine said in one boot.
type boot struct {
	mark    storecrash.Mark
	checked bool
	lost    string // what the check found missing
	reports storecrash.Reports
	acks    int
	gone    int      // sectors that the disk lost at the end
	ignored []string // lines of others, for a test that fails
}

// inFlight reports whether a batch was tried and not acknowledged.
func (b *boot) inFlight() bool {
	for _, w := range b.reports {
		if w.Tried > w.Acked {
			return true
		}
	}
	return false
}

// line takes in one line of the console.
func (b *boot) line(text string) error {
	text = strings.TrimRight(text, "\r\n")
	if mark, ok := strings.CutPrefix(text, powerloss.Checked); ok {
		b.checked = true
		return json.Unmarshal([]byte(mark), &b.mark)
	}
	if lost, ok := strings.CutPrefix(text, powerloss.Lost); ok {
		b.lost = lost
		return nil
	}
	var verb string
	var writer, n int
	if _, err := fmt.Sscan(text, &verb, &writer, &n); err != nil || writer < 0 || writer >= len(b.reports) {
		b.ignored = append(b.ignored, text)
		return nil
	}
	report := &b.reports[writer]
	switch {
	case verb == "try":
		report.Tried = n
	case verb == "ack" && report.Tried == n:
		report.Acked = n
		b.acks++
	default:
		return fmt.Errorf("%q after a try of %d", text, report.Tried)
	}
	return nil
}

// killer takes the power away from one machine.
type killer struct {
	cmd    *exec.Cmd
	out    io.Reader    // its console
	timer  *time.Timer  // ends a machine that hangs
	writes atomic.Int64 // to the disk until then; 0 while nothing is due
	timed  atomic.Bool  // whether the timer has ended it
}

// soon makes it happen: in one of three cases at a random time, else with a random
// write to the disk, which has not been flushed then. A machine that does not wait for its
// disk may not write for half a minute, so there it is always the time.
func (k *killer) soon(unsynced bool) {
	if unsynced || rand.IntN(3) == 0 {
		k.timer.Reset(rand.N(30 * time.Millisecond))
		return
	}
	k.writes.Store(1 + rand.Int64N(20))
}

// written is called for each write to the disk.
func (k *killer) written() {
	if k.writes.Load() > 0 && k.writes.Add(-1) == 0 {
		k.cmd.Process.Kill()
	}
}

// boot runs a machine until its check finds a loss, or takes its power away at a
// random moment after so many acknowledged batches, and with it what its disk
// has not been asked to keep: all of that, or about half of its sectors.
func (l *lab) boot(t *testing.T, d *powerloss.Disk, order powerloss.Order, after int) *boot {
	t.Helper()
	k, released := l.start(t, d, order)
	defer k.timer.Stop()
	b := &boot{}
	lines := bufio.NewReader(k.out)
	for {
		text, err := lines.ReadString('\n')
		if err != nil {
			break // a line that was cut off says nothing
		}
		before := b.acks
		if err := b.line(text); err != nil {
			k.cmd.Process.Kill()
			t.Errorf("the machine said: %v", err)
		}
		if b.acks != before && b.acks == after {
			k.soon(order.Unsynced)
		}
	}
	k.cmd.Wait() // killed, or switched off by itself: its words tell
	if err := <-released; err != nil {
		t.Errorf("disk: %v", err)
	}
	all := rand.IntN(3) == 0
	b.gone = d.Cut(func() bool { return !all && rand.IntN(2) == 0 })
	if b.lost == "" && (!b.checked || b.acks < after) {
		how := fmt.Sprintf("ended by itself (%v)", k.cmd.ProcessState)
		if k.timed.Load() {
			how = fmt.Sprintf("hung for %v, or was too slow,", bootLimit)
		}
		t.Fatalf("the machine %s after %d batches (checked: %v): %q", how, b.acks, b.checked, b.ignored)
	}
	t.Logf("%d batches acknowledged, in flight: %v, %d sectors of the disk's cache lost", b.acks, b.inFlight(), b.gone)
	return b
}

// start switches a machine on. The channel gives the outcome of its disk when it has
// let go of it.
func (l *lab) start(t *testing.T, d *powerloss.Disk, order powerloss.Order) (*killer, <-chan error) {
	t.Helper()
	k := &killer{}
	d.Written = k.written
	socket, released := l.serve(t, d)
	k.cmd = l.command(t, socket, order)
	k.cmd.Stderr = os.Stderr
	out, err := k.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := k.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	k.out, k.timer = out, time.AfterFunc(bootLimit, func() {
		k.timed.Store(true)
		k.cmd.Process.Kill()
	})
	return k, released
}

// TestLossOfPower needs QEMU and Debian's kernel.
func TestLossOfPower(t *testing.T) {
	l := newLab(t)
	t.Run("synchronized", l.losesNothing)
	t.Run("unsynchronized", l.losesBatches)
}

// losesNothing takes the power away again and again; each boot first checks what
// the one before left.
func (l *lab) losesNothing(t *testing.T) {
	d := l.newDisk(t)
	total, inFlight, acked, torn := rounds(t), 0, 0, 0
	var order powerloss.Order
	for round := range total + 1 { // the last one is there to check
		b := l.boot(t, d, order, 1+rand.IntN(150))
		if b.lost != "" {
			t.Fatalf("round %d: %s", round-1, b.lost)
		}
		order.Mark, order.Reports = b.mark, b.reports
		if round == total {
			break
		}
		if b.inFlight() {
			inFlight++
		}
		if b.gone > 0 {
			torn++
		}
		acked += b.acks
	}
	t.Logf("%d losses of power, %d with a batch in flight, %d with a part of the disk's cache, %d batches acknowledged, none lost", total, inFlight, torn, acked)
	if inFlight*2 < total {
		t.Errorf("only %d of %d losses had a batch in flight, want at least half", inFlight, total)
	}
}

// losesBatches makes sure that the power really goes: a store that does not wait for
// the disk loses what it acknowledged.
func (l *lab) losesBatches(t *testing.T) {
	d := l.newDisk(t)
	b := l.boot(t, d, powerloss.Order{Unsynced: true}, 150)
	after := l.boot(t, d, powerloss.Order{Mark: b.mark, Reports: b.reports}, 1)
	if after.lost == "" {
		t.Fatalf("%d batches were acknowledged with synchronous=OFF, and all outlived the loss of power", b.acks)
	}
	t.Logf("with synchronous=OFF: %s", after.lost)
}
