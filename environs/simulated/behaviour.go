package simulated

import (
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/environs"
)

// Call is a kind of thing that a Rack does.
type Call string

// The calls. Boot is the time from the start of an instance until its agent
// runs; it has delays but no faults.
const (
	CallStart Call = "start"
	CallStop  Call = "stop"
	CallList  Call = "list"
	CallBoot  Call = "boot"
)

// FaultKind is a way to fail.
type FaultKind string

// The kinds of fault.
const (
	FaultBusy       FaultKind = "busy"        // refused at once: try later
	FaultTransient  FaultKind = "transient"   // fails after its delay; the next try may not
	FaultPermanent  FaultKind = "permanent"   // fails after its delay, and says that it always will
	FaultZoneFull   FaultKind = "zone-full"   // the zone chosen first has no room
	FaultHang       FaultKind = "hang"        // no answer until the caller gives up
	FaultAnswerLost FaultKind = "answer-lost" // is done, and answers with an error
)

// faultKinds lists, for each call, the faults that it can have, in the order in
// which the dice decide.
var faultKinds = map[Call][]FaultKind{
	CallStart: {FaultBusy, FaultTransient, FaultPermanent, FaultZoneFull, FaultHang, FaultAnswerLost},
	CallStop:  {FaultBusy, FaultTransient, FaultPermanent, FaultHang, FaultAnswerLost},
	CallList:  {FaultBusy, FaultTransient, FaultHang},
	CallBoot:  nil,
}

// Behaviour says how slow and how faulty a Rack is. The zero Behaviour is
// instant and without fault.
type Behaviour struct {
	Seed   uint64                         `json:"seed"`
	Delays map[Call]Distribution          `json:"delays,omitempty"`
	Faults map[Call]map[FaultKind]float64 `json:"faults,omitempty"` // rates from 0 to 1
}

// DefaultBehaviour is without fault, and as slow as is good for people to
// watch.
func DefaultBehaviour() Behaviour {
	return Behaviour{Seed: 1, Delays: map[Call]Distribution{
		CallStart: {"normal", 2 * time.Second, 500 * time.Millisecond},
		CallStop:  {"fixed", 500 * time.Millisecond, 0},
		CallBoot:  {"uniform", time.Second, 3 * time.Second},
	}}
}

// Validate returns an error satisfying errors.NotValid that names the first
// call, kind or rate that makes no sense.
func (b Behaviour) Validate() error {
	for _, call := range slices.Sorted(maps.Keys(b.Delays)) {
		if _, ok := faultKinds[call]; !ok {
			return errors.NotValidf("call %q (want start, stop, list or boot)", call)
		}
	}
	for _, call := range slices.Sorted(maps.Keys(b.Faults)) {
		total := 0.0
		for _, kind := range slices.Sorted(maps.Keys(b.Faults[call])) {
			rate := b.Faults[call][kind]
			if !slices.Contains(faultKinds[call], kind) {
				return errors.NotValidf("fault %q of call %q (want one of %q)", kind, call, faultKinds[call])
			}
			if !(rate >= 0 && rate <= 1) {
				return errors.NotValidf("rate %v of fault %q (want 0 to 1)", rate, kind)
			}
			total += rate
		}
		if total > 1+1e-9 {
			return errors.NotValidf("rates of call %q: together %v, more than 1,", call, total)
		}
	}
	return nil
}

// clone returns a copy that shares nothing with b.
func (b Behaviour) clone() Behaviour {
	b.Delays = maps.Clone(b.Delays)
	faults := make(map[Call]map[FaultKind]float64, len(b.Faults))
	for call, rates := range b.Faults {
		faults[call] = maps.Clone(rates)
	}
	b.Faults = faults
	return b
}

// throw decides how long one call takes and which fault it has, if any. The
// same seed, call, key and try always give the same.
func (b Behaviour) throw(call Call, key string, try int) (time.Duration, FaultKind) {
	h := fnv.New64a()
	_, _ = h.Write([]byte(string(call) + "\x00" + key)) // cannot fail
	dice := rand.New(rand.NewPCG(b.Seed, h.Sum64()+uint64(try)*0x9e3779b97f4a7c15))
	delay := b.Delays[call].sample(dice)
	chance := dice.Float64()
	for _, kind := range faultKinds[call] {
		if chance -= b.Faults[call][kind]; chance < 0 {
			return delay, kind
		}
	}
	return delay, ""
}

// MachineFault makes the next starts of one machine fail.
type MachineFault struct {
	ModelUUID string    `json:"model-uuid,omitempty"` // empty means in any model
	MachineID string    `json:"machine-id"`
	Times     int       `json:"times"`          // at least 1
	Kind      FaultKind `json:"kind,omitempty"` // empty means transient
	Message   string    `json:"message,omitempty"`
}

// Validate returns an error satisfying errors.NotValid if f makes no sense.
func (f MachineFault) Validate() error {
	if f.MachineID == "" || f.Times < 1 {
		return errors.NotValidf("fault without a machine or a number of times")
	}
	if f.Kind != "" && !slices.Contains(faultKinds[CallStart], f.Kind) {
		return errors.NotValidf("fault %q (want one of %q)", f.Kind, faultKinds[CallStart])
	}
	return nil
}

// failure returns the error of a fault. What is the thing that failed, such as
// "start of machine 3".
func failure(kind FaultKind, what, message string) error {
	say := func(text string) error {
		if message != "" {
			text = message
		}
		return errors.Errorf("%s: %s", what, text)
	}
	switch kind {
	case FaultBusy:
		return errors.WithType(say("the rack is busy"), environs.ErrBusy)
	case FaultPermanent:
		return errors.WithType(say("the hardware is broken for good"), environs.ErrPermanent)
	case FaultZoneFull:
		return errors.WithType(say("the zone is full"), environs.ErrZone)
	case FaultAnswerLost:
		return say("the answer was lost")
	}
	return say("the power controller did not answer")
}
