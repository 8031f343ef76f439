package mongo_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/juju/errors"

	"github.com/slipway-project/slipway/store"
	"github.com/slipway-project/slipway/store/mongo"
	"github.com/slipway-project/slipway/store/mongo/mongotest"
)

// cells are the documents of the history; "" stands for a missing one.
type cells [3]string

var cellKeys = []store.Key{key("0"), claim("1"), key("2")}

// step is what a client did: read all cells, or apply a batch that relies on
// some of them and changes them.
type step struct {
	read   bool
	uses   [3]bool
	before cells
	after  cells // like before where the batch only asserts
}

// outcome is what came back.
type outcome struct {
	saw      cells
	conflict bool
	unknown  bool // the call ended with its context: it may have taken effect, or may yet
}

var cellModel = porcupine.Model{
	Init: func() any { return cells{} },
	Step: func(state, input, output any) (bool, any) {
		now, in, out := state.(cells), input.(step), output.(outcome)
		if in.read {
			return out.unknown || out.saw == now, now
		}
		holds, next := true, now
		for i, used := range in.uses {
			if used {
				holds = holds && now[i] == in.before[i]
				next[i] = in.after[i]
			}
		}
		switch {
		case out.unknown && !holds:
			return true, now
		case out.conflict:
			return !holds, now
		}
		return holds, next
	},
	DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v -> %+v", input, output) },
}

// TestLinearizable records what clients of three openings of a store see while
// connections are cut and primaries change, and looks for an order of one at a
// time that explains all of it. SLIPWAY_TEST_SEED repeats a run's choices.
func TestLinearizable(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	if s, err := strconv.ParseUint(os.Getenv("SLIPWAY_TEST_SEED"), 10, 64); err == nil {
		seed = s
	}
	t.Logf("SLIPWAY_TEST_SEED=%d", seed)
	server := newDouble(t, mongotest.Config{Members: 3})
	const openings, clients, rounds = 3, 2, 80
	var mu sync.Mutex
	var history []porcupine.Operation
	began := time.Now()
	var wg sync.WaitGroup
	for o := range openings {
		s := open(t, mongo.Config{URL: server.URL("slipway")})
		for c := range clients {
			id := o*clients + c
			wg.Go(func() {
				rng := rand.New(rand.NewPCG(seed, uint64(id)))
				for n := range rounds {
					for _, op := range client(s, rng, fmt.Sprintf("%d.%d", id, n)) {
						op.ClientId = id
						op.Call, op.Return = op.Call-began.UnixNano(), op.Return-began.UnixNano()
						mu.Lock()
						history = append(history, op)
						mu.Unlock()
					}
				}
			})
		}
	}
	done := make(chan struct{})
	go func() {
		wg.Wait()
		close(done)
	}()
	server.Harm(rand.New(rand.NewPCG(seed, 99)), done)
	<-done
	unknown := 0
	for i, op := range history {
		if op.Output.(outcome).unknown { // it may take effect at any later time
			history[i].Return = time.Hour.Nanoseconds()
			history[i].ClientId = 1000 + i // its client went on meanwhile
			unknown++
		}
	}
	t.Logf("%d operations, %d of unknown outcome, in %v", len(history), unknown, time.Since(began))
	if res := porcupine.CheckOperationsTimeout(cellModel, history, 10*time.Second); res == porcupine.Illegal {
		t.Errorf("no order of %d operations explains what was seen; SLIPWAY_TEST_SEED=%d", len(history), seed)
	} else if res == porcupine.Unknown {
		t.Logf("the check was not finished in 10 s")
	}
}

// client reads all cells and applies a batch that builds on them, and returns
// both with their times.
func client(s store.Store, rng *rand.Rand, value string) []porcupine.Operation {
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(20+rng.IntN(2000))*time.Millisecond)
	defer cancel()
	call := time.Now().UnixNano()
	docs, err := s.GetAll(ctx, cellKeys)
	var saw cells
	for i, d := range docs {
		saw[i] = string(d.Data)
	}
	ops := []porcupine.Operation{{Input: step{read: true}, Call: call, Output: outcome{saw: saw, unknown: err != nil}, Return: time.Now().UnixNano()}}
	if err != nil {
		return ops
	}
	in := step{before: saw, after: saw}
	var batch []store.Op
	for i, d := range docs {
		if rng.IntN(3) == 0 {
			continue
		}
		in.uses[i] = true
		switch what := rng.IntN(4); {
		case d.Rev == 0 && what == 0:
			batch = append(batch, store.AssertMissing(d.Key))
		case d.Rev == 0:
			in.after[i] = value
			batch = append(batch, store.Insert(d.Key, []byte(value), nil))
		case what == 0:
			batch = append(batch, store.Assert(d.Key, d.Rev))
		case what == 1:
			in.after[i] = ""
			batch = append(batch, store.Remove(d.Key, d.Rev))
		default:
			in.after[i] = value
			batch = append(batch, store.Replace(d.Key, d.Rev, []byte(value), nil))
		}
	}
	if len(batch) == 0 {
		return ops
	}
	call = time.Now().UnixNano()
	err = s.Apply(ctx, batch)
	out := outcome{conflict: errors.Is(err, store.ErrConflict)}
	out.unknown = err != nil && !out.conflict
	return append(ops, porcupine.Operation{Input: in, Call: call, Output: out, Return: time.Now().UnixNano()})
}
