// Package watcher is the one contract for streams of changes.
//
// A watcher's first event is there at once and describes what is; each later
// event says that something changed since. Events that nobody has read yet
// are merged into one, so a slow reader sees fewer events and never holds up
// anyone else.
package watcher

// Watcher is something that runs until it is killed or fails.
type Watcher interface {
	// Kill asks the watcher to stop, and returns at once.
	Kill()
	// Wait returns when the watcher has stopped: nil after Kill, else the
	// reason.
	Wait() error
}

// NotifyWatcher says that something changed, and not what. Its channel is
// closed when the watcher has stopped.
type NotifyWatcher interface {
	Watcher
	Changes() <-chan struct{}
}

// StringsWatcher says which things changed, each named once an event. The
// first event names everything there is, and may be empty; later ones are not.
// Its channel is closed when the watcher has stopped.
type StringsWatcher interface {
	Watcher
	Changes() <-chan []string
}

// Waker is a watcher whose reader need not wait in a goroutine of its own.
type Waker interface {
	Watcher

	// WhenReady has wake called once, as soon as the channel may have something
	// for a reader or is closed: at once if that is so already. It may be called
	// before WhenReady returns, and while the watcher is locked, so it must
	// neither wait nor call the watcher. The reader has to look again: another one
	// may have been faster.
	WhenReady(wake func())
}
