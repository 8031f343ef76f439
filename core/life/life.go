// Package life says where an entity stands between its creation and its end.
package life

// Value is the life of an entity. It only ever moves forward: alive, dying,
// dead, and then the entity is removed.
type Value string

// The lives of an entity.
const (
	Alive Value = "alive"
	Dying Value = "dying"
	Dead  Value = "dead"
)

// Valid reports whether v is one of the lives.
func (v Value) Valid() bool { return v.rank() > 0 }

// Before reports whether v is an earlier life than w.
func (v Value) Before(w Value) bool { return v.rank() < w.rank() }

func (v Value) rank() int {
	switch v {
	case Alive:
		return 1
	case Dying:
		return 2
	case Dead:
		return 3
	}
	return 0
}
