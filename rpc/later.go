package rpc

import "reflect"

// Pending is the result of a call that waits for something to happen. No
// goroutine waits for it: the reply goes out once it is there. It must be there
// soon after the Root of its connection is killed.
type Pending interface {
	// Poll returns what comes out of the call and true, or false if that is not
	// known yet. It does not wait. One goroutine at a time calls it, and none
	// after it has returned true. A nil result is encoded as an empty object.
	Poll() (result any, done bool, err error)

	// Ready has wake called once, as soon as Poll may return true; too early
	// does no harm. It may be called before Ready returns, and by a goroutine
	// that holds locks, since it neither waits nor calls back.
	Ready(wake func())
}

// Later is what a method returns that waits, in place of its result R. R is
// None for a method that has no result.
type Later[R any] struct{ Pending }

// None is the result of a Later that has none.
type None struct{}

var noneType = reflect.TypeFor[None]()

// later is a Later of any result.
type later interface {
	resultType() reflect.Type
	pending() Pending
}

func (Later[R]) resultType() reflect.Type { return reflect.TypeFor[R]() }

func (l Later[R]) pending() Pending { return l.Pending }
