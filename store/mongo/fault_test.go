package mongo_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/store"
	"github.com/slipway-project/slipway/store/mongo"
	"github.com/slipway-project/slipway/store/mongo/bson"
	"github.com/slipway-project/slipway/store/mongo/mongotest"
)

func key(format string, args ...any) store.Key {
	return store.Key{Collection: "machines", ID: fmt.Sprintf(format, args...)}
}

func claim(format string, args ...any) store.Key {
	return store.Key{Collection: "claims", ID: fmt.Sprintf(format, args...)}
}

// deadline is a context that fails the test rather than hang it.
func deadline(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func apply(t testing.TB, s store.Store, ops ...store.Op) {
	t.Helper()
	if err := s.Apply(deadline(t), ops); err != nil {
		t.Fatalf("Apply = %v, want nil", err)
	}
}

func rev(t testing.TB, s store.Store, k store.Key) store.Rev {
	t.Helper()
	docs, err := s.GetAll(deadline(t), []store.Key{k})
	if err != nil {
		t.Fatal(err)
	}
	return docs[0].Rev
}

func feed(t testing.TB, s store.Store, after store.Position) store.Feed {
	t.Helper()
	f, err := s.Changes(deadline(t), after)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func read(t testing.TB, f store.Feed, n int) []store.Change {
	t.Helper()
	var all []store.Change
	for len(all) < n {
		cs, err := f.Next(deadline(t))
		if err != nil {
			t.Fatalf("Next = %v after %d changes, want %d", err, len(all), n)
		}
		all = append(all, cs...)
	}
	if len(all) > n {
		t.Fatalf("%d changes, want %d: %v", len(all), n, all)
	}
	return all
}

// TestWritesSurviveFaults lets each fault strike each kind of batch, and checks
// that the batch is applied once: the feed has each of its changes once.
func TestWritesSurviveFaults(t *testing.T) {
	faults := map[string]mongotest.Fault{
		"first update, cut before":        {Command: "update", Effect: mongotest.CutBefore},
		"first update, cut after":         {Command: "update", Effect: mongotest.CutAfter},
		"first update, cut after, twice":  {Command: "update", Effect: mongotest.CutAfter, Times: 2},
		"first update, election":          {Command: "update", Effect: mongotest.StepDown},
		"first update, shutdown":          {Command: "update", Effect: mongotest.Fail, Code: 91},
		"first update, write conflict":    {Command: "update", Effect: mongotest.Fail, Code: 112, Times: 5},
		"second update, cut before":       {Command: "update", Skip: 1, Effect: mongotest.CutBefore},
		"second update, cut after":        {Command: "update", Skip: 1, Effect: mongotest.CutAfter},
		"second update, election":         {Command: "update", Skip: 1, Effect: mongotest.StepDown},
		"second update, stepped down":     {Command: "update", Skip: 1, Effect: mongotest.Fail, Code: 189},
		"commit, cut before":              {Command: "commitTransaction", Effect: mongotest.CutBefore},
		"commit, cut after":               {Command: "commitTransaction", Effect: mongotest.CutAfter},
		"commit, cut after, three times":  {Command: "commitTransaction", Effect: mongotest.CutAfter, Times: 3},
		"commit, election":                {Command: "commitTransaction", Effect: mongotest.StepDown},
		"commit, interrupted":             {Command: "commitTransaction", Effect: mongotest.Fail, Code: 11602},
		"find, cut before":                {Command: "find", Effect: mongotest.CutBefore},
		"find, election":                  {Command: "find", Effect: mongotest.StepDown},
		"find, no longer primary":         {Command: "find", Effect: mongotest.Fail, Code: 13435},
		"find, snapshot too old":          {Command: "find", Effect: mongotest.Fail, Code: 239},
		"stream, cut before":              {Command: "getMore", Effect: mongotest.CutBefore, Times: 3},
		"stream, cut after":               {Command: "getMore", Effect: mongotest.CutAfter, Times: 3},
		"stream, cursor not found":        {Command: "getMore", Effect: mongotest.Fail, Code: 43},
		"stream, cut at opening it again": {Command: "aggregate", Effect: mongotest.CutBefore},
		"anything, cut after":             {Effect: mongotest.CutAfter, Times: 4},
	}
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := newDouble(t, mongotest.Config{Members: 3})
			s := open(t, mongo.Config{URL: server.URL("slipway")})
			a, b, c := key("a"), key("b"), claim("c")
			apply(t, s, store.Insert(a, []byte("1"), nil), store.Insert(b, []byte("1"), nil))
			f := feed(t, s, "")
			// A batch of several documents.
			revA, revB := rev(t, s, a), rev(t, s, b)
			server.Inject(fault)
			apply(t, s, store.Replace(a, revA, []byte("2"), nil), store.Insert(c, []byte("2"), nil), store.Remove(b, revB))
			got := read(t, f, 3)
			if got[0].Key != a || got[1].Key != c || got[2].Key != b || !got[2].Removed || got[2].Rev != revB+1 {
				t.Errorf("changes of the first batch: %+v", got)
			}
			// Batches of one, of each kind.
			server.Inject(fault)
			apply(t, s, store.Replace(a, rev(t, s, a), []byte("3"), nil))
			server.Inject(fault)
			apply(t, s, store.Insert(b, []byte("3"), nil))
			server.Inject(fault)
			apply(t, s, store.Remove(c, rev(t, s, c)))
			server.Inject(fault)
			apply(t, s, store.Assert(a, rev(t, s, a)))
			got = read(t, f, 3)
			if got[0].Key != a || got[1].Key != b || got[2].Key != c || !got[2].Removed {
				t.Errorf("changes of single writes: %+v", got)
			}
			if got[0].Rev != rev(t, s, a) || got[1].Rev != rev(t, s, b) {
				t.Errorf("the documents are at %d and %d, the feed has %+v", rev(t, s, a), rev(t, s, b), got)
			}
			page, err := s.List(deadline(t), store.Query{Collection: "machines"})
			if err != nil || len(page.Docs) != 2 {
				t.Errorf("List = %d documents, %v, want 2", len(page.Docs), err)
			}
		})
	}
}

// TestAnElectionOfASingleMember is the harder case: for a while there is no
// primary at all.
func TestAnElectionOfASingleMember(t *testing.T) {
	server := newDouble(t, mongotest.Config{})
	s := open(t, mongo.Config{URL: server.URL("slipway")})
	f := feed(t, s, "")
	apply(t, s, store.Insert(key("a"), []byte("1"), nil))
	server.StepDown()
	apply(t, s, store.Insert(key("b"), []byte("1"), nil), store.Insert(claim("b"), []byte("1"), nil))
	read(t, f, 3)
}

func TestWriteConflictStorm(t *testing.T) {
	server := newDouble(t, mongotest.Config{Members: 3})
	const stores, writers, rounds = 3, 4, 15
	first := open(t, mongo.Config{URL: server.URL("slipway")})
	apply(t, first, store.Insert(key("x"), []byte("0"), nil), store.Insert(claim("x"), []byte("0"), nil))
	ctx := deadline(t)
	var wg sync.WaitGroup
	for i := range stores {
		s := first
		if i > 0 { // each process takes turns only with itself
			s = open(t, mongo.Config{URL: server.URL("slipway")})
		}
		for w := range writers {
			wg.Go(func() {
				for n := 0; n < rounds; {
					docs, err := s.GetAll(ctx, []store.Key{key("x"), claim("x")})
					if err != nil {
						t.Error(err)
						return
					}
					err = s.Apply(ctx, []store.Op{
						store.Replace(key("x"), docs[0].Rev, increment(docs[0].Data), nil),
						store.Replace(claim("x"), docs[1].Rev, increment(docs[1].Data), nil),
						store.Insert(key("%d-%d-%d", i, w, n), nil, nil),
					})
					if err == nil {
						n++
					} else if !errors.Is(err, store.ErrConflict) {
						t.Error(err)
						return
					}
				}
			})
		}
	}
	wg.Wait()
	docs, err := first.GetAll(ctx, []store.Key{key("x"), claim("x")})
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprint(stores * writers * rounds)
	if string(docs[0].Data) != want || string(docs[1].Data) != want {
		t.Errorf("counters are at %s and %s, want %s", docs[0].Data, docs[1].Data, want)
	}
}

func increment(data []byte) []byte {
	var n int
	fmt.Sscan(string(data), &n)
	return fmt.Append(nil, n+1)
}

// TestAssertionsAreProtected tries to get two batches applied of which each
// relies on what the other one changes.
func TestAssertionsAreProtected(t *testing.T) {
	server := newDouble(t, mongotest.Config{})
	one := open(t, mongo.Config{URL: server.URL("slipway")})
	two := open(t, mongo.Config{URL: server.URL("slipway")})
	ctx := deadline(t)
	race := func(a, b []store.Op) int {
		errs := make([]error, 2)
		var wg sync.WaitGroup
		wg.Go(func() { errs[0] = one.Apply(ctx, a) })
		wg.Go(func() { errs[1] = two.Apply(ctx, b) })
		wg.Wait()
		won := 0
		for _, err := range errs {
			if err == nil {
				won++
			} else if !errors.Is(err, store.ErrConflict) {
				t.Fatal(err)
			}
		}
		return won
	}
	for round := range 60 {
		x, y := key("x%d", round), claim("y%d", round)
		apply(t, one, store.Insert(x, nil, nil), store.Insert(y, nil, nil))
		rx, ry := rev(t, one, x), rev(t, one, y)
		won := race(
			[]store.Op{store.Assert(x, rx), store.Replace(y, ry, []byte("1"), nil)},
			[]store.Op{store.Assert(y, ry), store.Replace(x, rx, []byte("1"), nil)})
		if won != 1 {
			t.Fatalf("round %d: %d batches were applied, want 1", round, won)
		}
		p, q := key("p%d", round), claim("q%d", round)
		won = race(
			[]store.Op{store.AssertMissing(p), store.Insert(q, nil, nil)},
			[]store.Op{store.AssertMissing(q), store.Insert(p, nil, nil)})
		if won != 1 {
			t.Fatalf("round %d: %d batches that assert absence were applied, want 1", round, won)
		}
	}
}

// TestFeedHasNoGapUnderFaults reads a feed while connections are cut, cursors
// are lost and primaries change.
func TestFeedHasNoGapUnderFaults(t *testing.T) {
	server := newDouble(t, mongotest.Config{Members: 3})
	s := open(t, mongo.Config{URL: server.URL("slipway")})
	reader := open(t, mongo.Config{URL: server.URL("slipway")})
	f := feed(t, reader, "")
	const writes = 120
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() {
		for i := range writes {
			switch i % 30 {
			case 7:
				server.CutConnections()
			case 15:
				server.DropCursors()
			case 22:
				server.StepDown()
			}
			if err := s.Apply(deadline(t), []store.Op{store.Insert(key("%03d", i), nil, nil)}); err != nil {
				t.Errorf("Apply = %v", err)
			}
		}
	})
	for i, c := range read(t, f, writes) {
		if c.Key != key("%03d", i) {
			t.Fatalf("change %d is of %v", i, c.Key)
		}
	}
}

func TestFeedThatCannotBeResumed(t *testing.T) {
	server := newDouble(t, mongotest.Config{})
	s := open(t, mongo.Config{URL: server.URL("slipway")})
	f := feed(t, s, "")
	apply(t, s, store.Insert(key("a"), nil, nil))
	position := read(t, f, 1)[0].Position
	apply(t, s, store.Insert(key("b"), nil, nil))
	server.DropHistory()
	server.CutConnections()
	if cs, err := f.Next(deadline(t)); !errors.Is(err, store.ErrHistoryLost) {
		t.Errorf("Next = %v, %v, want history lost", cs, err)
	}
	if _, err := f.Next(deadline(t)); !errors.Is(err, store.ErrHistoryLost) {
		t.Errorf("Next again = %v, want history lost", err)
	}
	if _, err := s.Changes(deadline(t), position); !errors.Is(err, store.ErrHistoryLost) {
		t.Errorf("Changes = %v, want history lost", err)
	}
	if _, err := s.Changes(deadline(t), position[:len(position)-6]); !errors.Is(err, errors.NotValid) {
		t.Errorf("Changes of a damaged position = %v, want not valid", err)
	}
}

func TestADroppedDatabaseLosesHistory(t *testing.T) {
	server := newDouble(t, mongotest.Config{})
	s := open(t, mongo.Config{URL: server.URL("slipway")})
	f := feed(t, s, "")
	dropDatabase(t, server, "slipway")
	if cs, err := f.Next(deadline(t)); !errors.Is(err, store.ErrHistoryLost) {
		t.Errorf("Next = %v, %v, want history lost", cs, err)
	}
}

// TestEveryCommandHasATimeLimit watches all that a store sends.
func TestEveryCommandHasATimeLimit(t *testing.T) {
	var mu sync.Mutex
	without := map[string]bool{}
	seen := map[string]bool{}
	server := newDouble(t, mongotest.Config{WireVersion: 8, Observe: func(cmd bson.D) {
		mu.Lock()
		defer mu.Unlock()
		seen[cmd[0].K] = true
		if _, ok := cmd.Get("maxTimeMS"); !ok {
			without[cmd[0].K] = true
		}
	}})
	s, err := mongo.Open(t.Context(), mongo.Config{URL: server.URL("slipway"), Collections: collections})
	if err != nil {
		t.Fatal(err)
	}
	f, err := s.Changes(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	apply(t, s, store.Insert(key("a"), nil, nil))
	apply(t, s, store.Insert(key("b"), nil, nil), store.Insert(claim("b"), nil, nil))
	read(t, f, 3)
	rev(t, s, key("a"))
	if _, err := s.GetAll(t.Context(), []store.Key{key("a"), claim("b")}); err != nil {
		t.Fatal(err)
	}
	if err := s.Sweep(t.Context(), time.Now()); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	for _, quiet := range []string{"isMaster", "ismaster", "ping", "saslStart", "saslContinue", "logout"} { // the driver's own
		delete(without, quiet)
	}
	if len(without) > 0 {
		t.Errorf("commands without maxTimeMS: %v", without)
	}
	for _, want := range []string{"find", "update", "delete", "findAndModify", "createIndexes", "commitTransaction", "aggregate", "getMore", "endSessions"} {
		if !seen[want] {
			t.Errorf("no %s was seen", want)
		}
	}
}

func TestDeadlineWithoutAServer(t *testing.T) {
	server := newDouble(t, mongotest.Config{})
	s := open(t, mongo.Config{URL: server.URL("slipway")})
	apply(t, s, store.Insert(key("a"), nil, nil))
	if err := server.Close(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	start := time.Now()
	for name, err := range map[string]error{
		"Apply of one": s.Apply(ctx, []store.Op{store.Insert(key("b"), nil, nil)}),
		"Apply of two": s.Apply(ctx, []store.Op{store.Insert(key("b"), nil, nil), store.Insert(key("c"), nil, nil)}),
	} {
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s = %v, want deadline exceeded", name, err)
		}
	}
	if d := time.Since(start); d > 30*time.Second {
		t.Errorf("calls with a deadline of 0.3 s took %v", d)
	}
	ctx, cancel = context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	if _, err := s.Get(ctx, key("a")); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "cannot get machines") {
		t.Errorf("Get = %v, want deadline exceeded, and what was tried", err)
	}
}

func TestCloseReleasesCallsThatHang(t *testing.T) {
	server := newDouble(t, mongotest.Config{})
	s, err := mongo.Open(t.Context(), mongo.Config{URL: server.URL("slipway"), Collections: collections})
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Close(); err != nil {
		t.Fatal(err)
	}
	result := make(chan error, 1)
	go func() {
		_, err := s.Get(context.Background(), key("a"))
		result <- err
	}()
	if err := s.Close(); err != nil {
		t.Errorf("Close = %v", err)
	}
	if err := <-result; !errors.Is(err, store.ErrClosed) {
		t.Errorf("Get = %v, want closed", err)
	}
}

// TestIdleConnectionsThatWereCut checks that no call meets a dead connection of
// the pool, however many there are.
func TestIdleConnectionsThatWereCut(t *testing.T) {
	server := newDouble(t, mongotest.Config{})
	s := open(t, mongo.Config{URL: server.URL("slipway")})
	for round := range 3 {
		var wg sync.WaitGroup
		for i := range 30 {
			wg.Go(func() { apply(t, s, store.Insert(key("%d-%d", round, i), nil, nil)) })
		}
		wg.Wait()
		server.CutConnections()
	}
}

// TestProcessesShareAStore lets three openings of one store write, remove and
// insert the same few documents, and checks the promises about revisions on
// what a feed of each has seen.
func TestProcessesShareAStore(t *testing.T) {
	server := newDouble(t, mongotest.Config{Members: 3})
	const openings, writes = 3, 80
	ctx := deadline(t)
	var stores []*mongo.Store
	var feeds []store.Feed
	for range openings {
		s := open(t, mongo.Config{URL: server.URL("slipway")})
		stores, feeds = append(stores, s), append(feeds, feed(t, s, ""))
	}
	var wg sync.WaitGroup
	for i, s := range stores {
		wg.Go(func() {
			for n := 0; n < writes; {
				k := key("%d", (n+i)%4)
				docs, err := s.GetAll(ctx, []store.Key{k})
				if err != nil {
					t.Error(err)
					return
				}
				op := store.Insert(k, fmt.Append(nil, i), nil)
				switch at := docs[0].Rev; {
				case at != 0 && n%3 == 0:
					op = store.Remove(k, at)
				case at != 0:
					op = store.Replace(k, at, fmt.Append(nil, i), nil)
				}
				if err := s.Apply(ctx, []store.Op{op}); err == nil {
					n++
				} else if !errors.Is(err, store.ErrConflict) {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	var all [][]store.Change
	for _, f := range feeds {
		all = append(all, read(t, f, openings*writes))
	}
	last := map[store.Key]store.Rev{}
	for i, c := range all[0] {
		if c.Rev <= last[c.Key] {
			t.Errorf("change %d: %+v follows revision %d", i, c, last[c.Key])
		}
		last[c.Key] = c.Rev
	}
	for i := 1; i < openings; i++ {
		if !slices.Equal(all[i], all[0]) {
			t.Errorf("feeds 0 and %d differ", i)
		}
	}
}
