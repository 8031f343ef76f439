// Package history records what clients do to machines at once, and what watchers
// tell of it, and checks that it can be explained: the deeds by some order of one
// at a time, the watchers by never missing, repeating or going back. It knows
// nothing of how deeds are done, so that one set of rules holds for state on every
// store, and for controllers that are killed.
package history

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/slipway-project/slipway/core/instance"
	"github.com/slipway-project/slipway/core/life"
)

// Seed returns what a test that leaves things to chance starts from: the
// environment's SEED, or something new. It is printed.
func Seed(t testing.TB) uint64 {
	t.Helper()
	n, err := strconv.ParseUint(os.Getenv("SEED"), 10, 64)
	if err != nil {
		n = rand.Uint64()
	}
	t.Logf("SEED=%d", n)
	return n
}

// Deed is something that a client does to a machine: add, read, record (an
// instance), status, destroy, kill or remove. Tests may have deeds of their own.
type Deed struct {
	What     string
	Machine  string
	Instance instance.ID // of record
	Message  string      // of status
	Client   int         // for deeds of a test's own
}

// Refusal is why a deed was not done; empty means that it was.
type Refusal string

// The refusals that a deed may meet with. Any other cannot be explained.
const (
	NotFound   Refusal = "not found"
	NotAlive   Refusal = "not alive"
	AlreadySet Refusal = "already set"
	NotDead    Refusal = "not dead"
	Denied     Refusal = "lease denied" // nothing was done
	Contention Refusal = "contention"   // nothing was done: it gave up
)

// Seen is what came back of a deed. The zero Seen is a machine that is not there,
// or a deed that was done.
type Seen struct {
	Life     life.Value // of read; empty means that the machine is gone
	Instance instance.ID
	Message  string // of the status
	Refusal  Refusal
	Unknown  bool // the deed may have been done, or may yet be
}

// Any is something that a client may do to a machine that was added.
func Any(dice *rand.Rand, client int, machine string) *Deed {
	whats := []string{"read", "read", "read", "record", "record", "status", "status", "destroy", "kill", "remove"}
	unique := fmt.Sprintf("i-%d-%d", client, dice.Int())
	return &Deed{What: whats[dice.IntN(len(whats))], Machine: machine, Instance: instance.ID(unique), Message: unique}
}

// Recording says who does how much.
type Recording struct {
	Clients int
	Deeds   int // of each client; 0 means no limit
	Seed    uint64

	// Do chooses a client's next deed and returns what does it, which may complete
	// the deed. It returns nil when the client is to stop.
	Do func(dice *rand.Rand, client int) (*Deed, func() Seen)
}

// Record runs the clients at once and returns their history.
func Record(r Recording) []porcupine.Operation {
	var mu sync.Mutex
	var all []porcupine.Operation
	var wg sync.WaitGroup
	for c := range r.Clients {
		wg.Go(func() {
			dice := rand.New(rand.NewPCG(r.Seed, uint64(c)))
			for n := 0; r.Deeds == 0 || n < r.Deeds; n++ {
				d, act := r.Do(dice, c)
				if d == nil {
					return
				}
				op := porcupine.Operation{ClientId: c, Call: time.Now().UnixNano()}
				out := act()
				op.Return = time.Now().UnixNano()
				op.Input, op.Output = *d, out
				if out.Unknown && d.What == "read" {
					continue // which says nothing
				}
				mu.Lock()
				if out.Unknown { // its client goes on, and the deed may be done at any later time
					op.ClientId, op.Return = r.Clients+len(all), math.MaxInt64
				}
				all = append(all, op)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return all
}

// Explain looks for an order of one deed at a time that explains a history, and
// fails the test if there is none.
func Explain(t testing.TB, m porcupine.Model, history []porcupine.Operation) {
	t.Helper()
	const limit = 2 * time.Minute
	began := time.Now()
	switch porcupine.CheckOperationsTimeout(m, history, limit) {
	case porcupine.Illegal:
		t.Errorf("no order of %d deeds explains what was seen", len(history))
	case porcupine.Unknown:
		t.Errorf("no order of %d deeds was found in %v", len(history), limit)
	default:
		t.Logf("an order of %d deeds was found in %v", len(history), time.Since(began).Round(time.Millisecond))
	}
}
