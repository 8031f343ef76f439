package mongo

// Inside the package: clocks and locks are not exported.

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/juju/errors"
	"pgregory.net/rapid"

	"github.com/slipway-project/slipway/store"
)

// TestRevisionsNeverRepeat lets several processes, which come and go, write,
// remove and insert a few documents, each knowing only what it has read.
func TestRevisionsNeverRepeat(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var openings, mark int64 // what the database keeps
		extend := func() (int64, error) {
			mark += reserve
			return mark, nil
		}
		open := func() *clock {
			openings++
			mark += reserve
			return &clock{opening: openings, last: mark - reserve, limit: mark}
		}
		processes := []*clock{open(), open()}
		now := map[int]store.Rev{}    // the living documents
		used := map[int][]store.Rev{} // all revisions of an id, in order
		use := func(id int, rev store.Rev) {
			for _, r := range used[id] {
				if r == rev {
					t.Fatalf("document %d has revision %d twice: %v", id, rev, used[id])
				}
			}
			used[id] = append(used[id], rev)
		}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			p := processes[rapid.IntRange(0, len(processes)-1).Draw(t, "process")]
			id := rapid.IntRange(0, 2).Draw(t, "document")
			switch rapid.SampledFrom([]string{"write", "write", "write", "remove", "open"}).Draw(t, "step") {
			case "write":
				old := now[id]
				p.observe(old)
				revs, err := p.next(1, extend)
				if err != nil {
					t.Fatal(err)
				}
				if revs[0] <= old {
					t.Fatalf("document %d goes from revision %d to %d", id, old, revs[0])
				}
				use(id, revs[0])
				now[id] = revs[0]
			case "remove":
				if old := now[id]; old != 0 {
					use(id, old+1)
					delete(now, id)
				}
			case "open": // a process that starts is ahead of all that was written
				c := open()
				for id, revs := range used {
					for _, r := range revs {
						if next := store.Rev((c.last + 1) << counterShift); next <= r {
							t.Fatalf("a new process begins at %d, document %d had %d", next, id, r)
						}
					}
				}
				processes = append(processes, c)
			}
		}
	})
}

func TestRevisionsPassTheStoredMarkOnlyWhenItIsRaised(t *testing.T) {
	c := &clock{opening: 1, last: 0, limit: 10}
	raised := 0
	extend := func() (int64, error) {
		raised++
		return 10 + int64(raised)*100, nil
	}
	for range 50 {
		if _, err := c.next(1, extend); err != nil {
			t.Fatal(err)
		}
		if c.last >= c.limit {
			t.Fatalf("counter %d with the mark at %d", c.last, c.limit)
		}
	}
	if raised != 1 {
		t.Errorf("the mark was raised %d times, want once", raised)
	}
	broken := errors.New("no database")
	if _, err := c.next(1000, func() (int64, error) { return 0, broken }); !errors.Is(err, broken) {
		t.Errorf("next = %v, want the failure to raise the mark", err)
	}
}

func ops(ids ...string) []store.Op {
	var out []store.Op
	for _, id := range ids {
		out = append(out, store.Insert(store.Key{Collection: "c", ID: id}, nil, nil))
	}
	return out
}

func TestLocksMakeBatchesTakeTurns(t *testing.T) {
	l := locks{held: map[store.Key]*lock{}}
	inside := map[string]bool{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, ids := range [][]string{{"a", "b"}, {"b", "a"}, {"b", "c"}, {"c", "a"}} {
		for range 50 {
			wg.Go(func() {
				release, err := l.acquire(context.Background(), ops(ids...))
				if err != nil {
					t.Error(err)
					return
				}
				defer release()
				enter := func(in bool) {
					mu.Lock()
					defer mu.Unlock()
					for _, id := range ids {
						if inside[id] == in {
							t.Errorf("two batches are inside with %s", id)
						}
						inside[id] = in
					}
				}
				enter(true)
				enter(false)
			})
		}
	}
	wg.Wait()
	if len(l.held) != 0 {
		t.Errorf("%d locks are left", len(l.held))
	}
}

func TestLocksAreGivenUpWithTheContext(t *testing.T) {
	l := locks{held: map[store.Key]*lock{}}
	release, err := l.acquire(context.Background(), ops("b"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := l.acquire(ctx, ops("a", "b")); !errors.Is(err, context.Canceled) {
		t.Errorf("acquire = %v, want cancelled", err)
	}
	release()
	release, err = l.acquire(context.Background(), ops("a", "b"))
	if err != nil {
		t.Fatal(err)
	}
	release()
	if len(l.held) != 0 {
		t.Errorf("%d locks are left", len(l.held))
	}
}

func TestCredentialsDoNotPrint(t *testing.T) {
	c := credentials{"ada", "lovelace"}
	for _, format := range []string{"%v", "%+v", "%#v", "%s"} {
		if got := fmt.Sprintf(format, c); strings.Contains(got, "lovelace") {
			t.Errorf("%s shows %s", format, got)
		}
	}
}

func TestRunsKeepTheOrderAndTheirBounds(t *testing.T) {
	var ws []write
	add := func(collection string, size int) {
		op := store.Insert(store.Key{Collection: collection, ID: fmt.Sprint(len(ws))}, make([]byte, size), nil)
		ws = append(ws, write{Op: op})
	}
	for _, c := range []string{"a", "a", "b", "a"} {
		add(c, 10)
	}
	for range 5 {
		add("c", 12<<20)
	}
	for range maxStatements + 1 {
		add("d", 0)
	}
	var got []string
	n := 0
	for _, run := range runs(ws) {
		got = append(got, fmt.Sprintf("%s%d", run[0].Collection, len(run)))
		for _, w := range run {
			if w.ID != fmt.Sprint(n) || w.Collection != run[0].Collection {
				t.Fatalf("operation %s of %s is at place %d", w.ID, w.Collection, n)
			}
			n++
		}
	}
	want := "a2 b1 a1 c2 c2 c1 d10000 d1"
	if s := strings.Join(got, " "); s != want || n != len(ws) {
		t.Errorf("runs = %s, want %s", s, want)
	}
}
