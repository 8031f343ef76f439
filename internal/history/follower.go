package history

import (
	"maps"
	"slices"
	"testing"

	"github.com/slipway-project/slipway/core/life"
)

// rank orders what a machine goes through; a machine that was never heard of is 0.
var rank = map[life.Value]int{life.Alive: 1, life.Dying: 2, life.Dead: 3}

// gone is the rank of a machine that has been removed.
const gone = 4

// Lives returns the lives of machines, by id; one that is not there is gone.
type Lives func(ids []string) (map[string]life.Value, error)

// Follower reads the events of a watcher of machines' lives, or of several one
// after the other when connections break. For each event it looks at the machines
// that are named, as a worker does. Lives must go forward, across watchers too;
// a machine must not be named more often than it changed; and what the follower
// knows in the end must be how things are.
type Follower struct {
	t     testing.TB
	known map[string]int // the last rank of each machine
	named map[string]int // how often the present watcher has named each
	first bool           // the next event is a watcher's first: it names all there are
}

// NewFollower returns a follower whose problems fail a test.
func NewFollower(t testing.TB) *Follower {
	return &Follower{t: t, known: map[string]int{}, named: map[string]int{}}
}

// Begin says that a new watcher follows, whose first event comes next.
func (f *Follower) Begin() {
	f.count()
	f.named = map[string]int{}
	f.first = true
}

// Take takes one event. It returns the error of lives: the event was then not
// taken, and its watcher must not be used any more.
func (f *Follower) Take(ids []string, lives Lives) error {
	look := ids
	if f.first { // what it leaves out must be on its way out
		look = slices.Concat(ids, slices.Collect(maps.Keys(f.known)))
	}
	now, err := lives(look)
	if err != nil {
		return err
	}
	for _, id := range look {
		r := gone
		if l, there := now[id]; there {
			r = rank[l]
		}
		if r < f.known[id] {
			f.t.Errorf("the life of machine %s went backwards, from %d to %d", id, f.known[id], r)
		}
		if f.first && r < rank[life.Dead] && !slices.Contains(ids, id) {
			f.t.Errorf("machine %s is %s, and a new watcher does not name it", id, now[id])
		}
		f.known[id] = r
	}
	for _, id := range ids {
		f.named[id]++
	}
	f.first = false
	return nil
}

// Reached reports whether a machine is known to have come as far as a life.
func (f *Follower) Reached(id string, l life.Value) bool { return f.known[id] >= rank[l] }

// count checks how often machines were named.
func (f *Follower) count() {
	for id, n := range f.named {
		if most := min(f.known[id], rank[life.Dead]); n > most {
			f.t.Errorf("machine %s was named %d times, and has changed %d times", id, n, most)
		}
	}
}

// End compares what the follower knows with how things are when everything has
// been read and nothing changes any more.
func (f *Follower) End(all map[string]life.Value) {
	f.count()
	for id, l := range all {
		if f.known[id] == 0 && l == life.Dead {
			continue // it came and died between two looks: that is no news
		}
		if f.known[id] != rank[l] {
			f.t.Errorf("machine %s is %s in the end, and the follower knows it as %d", id, l, f.known[id])
		}
	}
	for id, last := range f.known {
		if _, there := all[id]; !there && last < rank[life.Dead] { // the end of a dead machine is no news
			f.t.Errorf("machine %s is gone in the end, and the follower knows it as %d", id, last)
		}
	}
}
