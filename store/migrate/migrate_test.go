package migrate_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/store"
	"github.com/slipway-project/slipway/store/migrate"
	"github.com/slipway-project/slipway/store/storetest"
)

var (
	collections = []store.Collection{{Name: "site"}, {Name: "machines", Indexes: []string{"parity"}}}
	siteKey     = store.Key{Collection: "site", ID: "_:controller"}
	markKey     = store.Key{Collection: "site", ID: "_:migration"}
)

func machine(n int) store.Key {
	return store.Key{Collection: "machines", ID: fmt.Sprintf("m:%03d", n)}
}

// index indexes a document by whether its number is even.
func index(d store.Doc) (map[string]string, error) {
	if d.Collection != "machines" {
		return nil, nil
	}
	n, err := strconv.Atoi(string(d.Data))
	return map[string]string{"parity": strconv.Itoa(n % 2)}, err
}

// put writes a document over what is there; a nil content removes it.
func put(ctx context.Context, s store.Store, key store.Key, data []byte) error {
	return store.Run(ctx, s, func(int) ([]store.Op, error) {
		docs, err := s.GetAll(ctx, []store.Key{key})
		if err != nil {
			return nil, err
		}
		d := store.Doc{Key: key, Data: data}
		values, err := index(d)
		switch {
		case data == nil && docs[0].Rev == 0:
			return nil, nil
		case data == nil:
			return []store.Op{store.Remove(key, docs[0].Rev)}, nil
		case err != nil:
			return nil, err
		case docs[0].Rev == 0:
			return []store.Op{store.Insert(key, data, values)}, nil
		}
		return []store.Op{store.Replace(key, docs[0].Rev, data, values)}, nil
	})
}

// source returns a store that is a site with documents.
func source(t *testing.T, documents int) store.Store {
	t.Helper()
	s := storetest.New(t, collections)
	must(t, put(t.Context(), s, siteKey, []byte("{}")))
	for n := range documents {
		must(t, put(t.Context(), s, machine(n), []byte(strconv.Itoa(n))))
	}
	return s
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func config(from, to store.Store) migrate.Config {
	return migrate.Config{From: from, To: to, Collections: collections, Index: index, Last: siteKey, Mark: markKey,
		Fence: func(context.Context) error { return nil }}
}

// contents returns every document of a store, and of the machines also what the
// index finds.
func contents(t *testing.T, s store.Store) map[string]string {
	t.Helper()
	all := map[string]string{}
	list := func(q store.Query, prefix string) {
		page, err := s.List(t.Context(), q)
		must(t, err)
		for _, d := range page.Docs {
			all[prefix+d.Collection+" "+d.ID] = string(d.Data)
		}
	}
	list(store.Query{Collection: "site"}, "")
	list(store.Query{Collection: "machines"}, "")
	for _, parity := range []string{"0", "1"} {
		list(store.Query{Collection: "machines", Index: "parity", Value: parity}, parity+" ")
	}
	return all
}

func wantSame(t *testing.T, from, to store.Store) {
	t.Helper()
	want, got := contents(t, from), contents(t, to)
	for key, value := range want {
		if got[key] != value {
			t.Errorf("%s is %q in the target, want %q", key, got[key], value)
		}
	}
	if len(got) != len(want) {
		t.Errorf("the target has %d entries, want %d", len(got), len(want))
	}
}

func TestEverythingIsCopied(t *testing.T) {
	from, to := source(t, 733), storetest.New(t, collections)
	r, err := migrate.Run(t.Context(), config(from, to))
	must(t, err)
	wantSame(t, from, to)
	if r.Documents != 734 || r.Repaired != 0 {
		t.Errorf("Run = %+v, want 734 documents and nothing to repair", r)
	}
}

func TestWritesMeanwhileAreCopied(t *testing.T) {
	from, to := source(t, 300), storetest.New(t, collections)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var wg sync.WaitGroup
	wrote := make(chan struct{}, 1)
	for range 4 {
		wg.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				var data []byte
				if rand.N(4) > 0 {
					data = []byte(strconv.Itoa(n))
				}
				if err := put(t.Context(), from, machine(rand.N(400)), data); err != nil {
					t.Error(err)
					return
				}
				select {
				case wrote <- struct{}{}:
				default:
				}
			}
		})
	}
	c := config(from, to)
	c.Fence = func(context.Context) error {
		for range 200 { // the copy is there; writes go on
			<-wrote
		}
		stop()
		wg.Wait()
		return nil
	}
	r, err := migrate.Run(t.Context(), c)
	must(t, err)
	wantSame(t, from, to)
	if r.Changes == 0 && r.Repaired == 0 {
		t.Errorf("Run = %+v, want changes: nothing was tested", r)
	}
}

// TestWhatIsInterruptedIsBegunAnew fails the target at every call in turn.
func TestWhatIsInterruptedIsBegunAnew(t *testing.T) {
	from := source(t, 250)
	to := storetest.New(t, collections)
	before := contents(t, from)
	for _, after := range []int{1, 2, 3, 4} {
		ctx, cancel := context.WithCancel(t.Context())
		failing := &failAfter{Store: to, left: after, fail: cancel}
		if _, err := migrate.Run(ctx, config(from, failing)); err == nil {
			t.Fatalf("a migration whose target failed after %d batches went well", after)
		}
		cancel()
		if _, err := to.Get(t.Context(), siteKey); !errors.Is(err, errors.NotFound) {
			t.Errorf("a target that is not whole is a site: %v", err)
		}
		must(t, put(t.Context(), from, machine(after), nil)) // what is in the target may be gone now
	}
	if _, err := migrate.Run(t.Context(), config(from, to)); err != nil {
		t.Fatal(err)
	}
	wantSame(t, from, to)
	for key, value := range contents(t, from) {
		if before[key] != value {
			t.Errorf("the source's %s has changed from %q to %q", key, before[key], value)
		}
	}
}

// failAfter is a store whose writes fail after some.
type failAfter struct {
	store.Store
	left int
	fail func()
}

func (f *failAfter) Apply(ctx context.Context, ops []store.Op) error {
	if f.left--; f.left < 0 {
		f.fail()
		return errors.New("no more")
	}
	return f.Store.Apply(ctx, ops)
}

func TestTargetsWithASiteAreRefused(t *testing.T) {
	from, to := source(t, 3), source(t, 5)
	before := contents(t, to)
	if _, err := migrate.Run(t.Context(), config(from, to)); !errors.Is(err, errors.AlreadyExists) {
		t.Errorf("Run into a site = %v, want already exists", err)
	}
	if after := contents(t, to); len(after) != len(before) {
		t.Errorf("a refused migration changed the target: %v", after)
	}
}

func TestASourceThatGoesOnIsBusy(t *testing.T) {
	from, to := source(t, 10), storetest.New(t, collections)
	c := config(&restless{Store: from}, to)
	if _, err := migrate.Run(t.Context(), c); !errors.Is(err, migrate.ErrBusy) {
		t.Errorf("Run = %v, want busy", err)
	}
	if _, err := to.Get(t.Context(), siteKey); !errors.Is(err, errors.NotFound) {
		t.Errorf("the target is a site: %v", err)
	}
}

// restless is a source in which a document changes with every page that is
// read, and tells of no change.
type restless struct {
	store.Store
	n int
}

func (r *restless) List(ctx context.Context, q store.Query) (store.Page, error) {
	r.n++
	if err := put(ctx, r.Store, machine(1), []byte(strconv.Itoa(r.n))); err != nil {
		return store.Page{}, err
	}
	return r.Store.List(ctx, q)
}

func TestFailuresEndTheMigration(t *testing.T) {
	broken := errors.New("broken")
	for name, change := range map[string]func(*migrate.Config){
		"fence": func(c *migrate.Config) { c.Fence = func(context.Context) error { return broken } },
		"still": func(c *migrate.Config) { c.Still = func(context.Context) error { return broken } },
		"index": func(c *migrate.Config) {
			c.Index = func(store.Doc) (map[string]string, error) { return nil, broken }
		},
	} {
		to := storetest.New(t, collections)
		c := config(source(t, 3), to)
		change(&c)
		if _, err := migrate.Run(t.Context(), c); !errors.Is(err, broken) {
			t.Errorf("%s: Run = %v, want the failure", name, err)
		}
		if _, err := to.Get(t.Context(), siteKey); !errors.Is(err, errors.NotFound) {
			t.Errorf("%s: the target is a site: %v", name, err)
		}
	}
	empty := config(storetest.New(t, collections), storetest.New(t, collections))
	if _, err := migrate.Run(t.Context(), empty); !errors.Is(err, errors.NotFound) {
		t.Errorf("Run from nothing = %v, want not found", err)
	}
}
