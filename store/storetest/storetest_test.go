package storetest_test

import (
	"context"
	"maps"
	"testing"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/store"
	"github.com/slipway-project/slipway/store/storetest"
)

func TestMemoryConformance(t *testing.T) {
	storetest.RunConformance(t, func(t *testing.T) storetest.Subject {
		disk := storetest.NewDisk()
		return storetest.Subject{Open: func(t *testing.T, o storetest.Options) store.Store {
			s, err := disk.Open(o)
			if err != nil {
				t.Fatal(err)
			}
			return s
		}}
	})
}

var (
	things = []store.Collection{{Name: "things"}}
	key    = store.Key{Collection: "things", ID: "1"}
)

// callAll makes every call of a store and returns the errors by name.
func callAll(ctx context.Context, s store.Store) map[string]error {
	errs := make(map[string]error)
	_, errs["Get"] = s.Get(ctx, key)
	_, errs["GetAll"] = s.GetAll(ctx, []store.Key{key})
	_, errs["List"] = s.List(ctx, store.Query{Collection: "things"})
	_, errs["Changes"] = s.Changes(ctx, "")
	errs["Apply"] = s.Apply(ctx, []store.Op{store.Insert(key, nil, nil)})
	return errs
}

func TestFailingFailsEveryCall(t *testing.T) {
	broken := errors.New("disk on fire")
	s := storetest.Failing(broken)
	for name, err := range callAll(t.Context(), s) {
		if !errors.Is(err, broken) {
			t.Errorf("%s = %v, want %v", name, err, broken)
		}
	}
	if err := s.Close(); err != nil {
		t.Errorf("Close() = %v, want nil", err)
	}
}

func TestTapFailsCallsBeforeTheStoreSeesThem(t *testing.T) {
	tap := storetest.NewTap(storetest.New(t, things))
	broken := errors.New("broken")
	tap.SetBefore(func(_ context.Context, c storetest.Call) error {
		if c.Method == "Apply" && c.Keys[0] != key {
			t.Errorf("the tap sees keys %v, want %v", c.Keys, key)
		}
		return broken
	})
	for name, err := range callAll(t.Context(), tap) {
		if !errors.Is(err, broken) {
			t.Errorf("%s = %v, want %v", name, err, broken)
		}
	}
	want := map[string]int{"Get": 1, "GetAll": 1, "List": 1, "Changes": 1, "Apply": 1}
	if got := tap.Counts(); !maps.Equal(got, want) {
		t.Errorf("Counts() = %v, want %v", got, want)
	}
	tap.Reset()
	if got := tap.Counts(); len(got) != 0 {
		t.Errorf("Counts() after Reset = %v, want none", got)
	}
	if _, err := tap.Store.Get(t.Context(), key); !errors.Is(err, errors.NotFound) {
		t.Errorf("the store has seen the batch: Get = %v, want not found", err)
	}
}

func TestTapLosesAnswers(t *testing.T) {
	tap := storetest.NewTap(storetest.New(t, things))
	feed, err := tap.Changes(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer feed.Close()
	lost := errors.New("answer lost")
	tap.SetAfter(func(context.Context, storetest.Call) error { return lost })
	if err := tap.Apply(t.Context(), []store.Op{store.Insert(key, nil, nil)}); !errors.Is(err, lost) {
		t.Errorf("Apply = %v, want %v", err, lost)
	}
	if _, err := feed.Next(t.Context()); !errors.Is(err, lost) {
		t.Errorf("Next = %v, want %v", err, lost)
	}
	if _, err := tap.Store.Get(t.Context(), key); err != nil {
		t.Errorf("the store has not seen the batch: Get = %v", err)
	}
	if n := tap.Counts()["Next"]; n != 1 {
		t.Errorf("Next was counted %d times, want once", n)
	}
}

func TestOpenRefusesBadCollections(t *testing.T) {
	if _, err := storetest.NewDisk().Open(storetest.Options{Collections: []store.Collection{{}}}); !errors.Is(err, errors.NotValid) {
		t.Errorf("Open with a nameless collection = %v, want not valid", err)
	}
}
