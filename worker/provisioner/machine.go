package provisioner

import (
	"context"

	"github.com/slipway-project/slipway/core/instance"
	"github.com/slipway-project/slipway/core/life"
)

// phase says what the task is doing about a machine.
type phase int

const (
	idle      phase = iota // nothing, until something changes
	resting                // a start failed: waiting for the next attempt
	checking               // asking the provider what an earlier attempt left
	clearing               // stopping what an earlier attempt left
	queued                 // waiting for a place among those being started
	starting               // the provider is starting its instance
	recording              // telling the controller of its instance
	ending                 // it is dead: asking, stopping, removing
)

// String returns the phase's name, for the log.
func (p phase) String() string {
	return [...]string{"idle", "resting", "checking", "clearing", "queued", "starting", "recording", "ending"}[p]
}

// machine is what the task knows of one machine.
type machine struct {
	id       string
	life     life.Value
	gone     bool        // its record has been removed
	pending  bool        // its status asks for a start
	instance instance.ID // as recorded; empty means none

	phase phase
	turn  int // grows with each change of phase, so that what was arranged for an earlier one is ignored

	// clear says that the provider has been asked since the last attempt, and
	// had nothing of this machine.
	clear    bool
	failures int                // attempts in a row that failed, at whatever it is now
	cancel   context.CancelFunc // gives up the start under way; nil if there is none
	shown    int                // the place in the queue that its status shows; 0 means none
	standing string             // what its status was made to say of its instance; see task.show
}

// over reports whether the machine's time is over.
func (m *machine) over() bool { return m.gone || m.life == life.Dead }

// wanted reports whether the machine should be started.
func (m *machine) wanted() bool {
	return !m.gone && m.life == life.Alive && m.instance == "" && m.pending
}

// busy reports whether something is under way whose end must be awaited.
func (m *machine) busy() bool {
	return m.phase == starting || m.phase == recording || m.phase == clearing || m.phase == ending
}

// enter puts the machine into a phase.
func (m *machine) enter(p phase) {
	m.phase = p
	m.turn++
	if p != queued {
		m.shown = 0
	}
}
