package history

import (
	"fmt"

	"github.com/anishathalye/porcupine"

	"github.com/slipway-project/slipway/core/life"
)

// Machines is what machines should do, one deed at a time, that are each as first
// in the beginning. The model's state is what read sees.
func Machines(first Seen) porcupine.Model {
	return porcupine.Model{
		Partition:         byMachine,
		Init:              func() any { return first },
		Step:              func(now, in, out any) (bool, any) { return step(now.(Seen), in.(Deed), out.(Seen)) },
		DescribeOperation: Describe,
	}
}

// Describe prints a deed and what came back of it.
func Describe(input, output any) string { return fmt.Sprintf("%+v: %+v", input, output) }

// byMachine splits a history: machines have nothing to do with one another.
func byMachine(history []porcupine.Operation) [][]porcupine.Operation {
	parts := map[string][]porcupine.Operation{}
	for _, op := range history {
		m := op.Input.(Deed).Machine
		parts[m] = append(parts[m], op)
	}
	var out [][]porcupine.Operation
	for _, p := range parts {
		out = append(out, p)
	}
	return out
}

// step reports whether a deed can have had this outcome with the machine as it is
// now, and returns how the machine is afterwards.
func step(now Seen, in Deed, out Seen) (bool, Seen) {
	if in.What == "read" {
		return out.Unknown || now == out, now
	}
	if out.Refusal == Contention || out.Refusal == Denied {
		return true, now
	}
	next, want := effect(now, in)
	switch {
	case out.Unknown || out.Refusal == want:
		return true, next
	case now.Life == "" && in.What != "add":
		// Who looks for the machine first finds that it is gone, whatever the deed.
		return out.Refusal == NotFound, now
	}
	return false, now
}

// effect returns how a machine is after a deed, or why it is refused.
func effect(now Seen, in Deed) (Seen, Refusal) {
	next := now
	switch in.What {
	case "add":
		if now != (Seen{}) {
			return now, "added twice"
		}
		next.Life = life.Alive
	case "status":
		if now.Life == "" {
			return now, NotFound
		}
		next.Message = in.Message
	case "record":
		switch {
		case now.Life != life.Alive:
			return now, NotAlive
		case now.Instance != "":
			return now, AlreadySet
		}
		next.Instance = in.Instance
	case "destroy":
		if now.Life == life.Alive {
			next.Life = life.Dying
		}
	case "kill":
		if now.Life != "" {
			next.Life = life.Dead
		}
	case "remove":
		switch now.Life {
		case "":
		case life.Dead:
			next = Seen{}
		default:
			return now, NotDead
		}
	}
	return next, ""
}
