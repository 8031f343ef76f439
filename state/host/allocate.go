package host

import (
	"context"
	"slices"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/core/constraints"
	"github.com/slipway-project/slipway/core/kind"
	"github.com/slipway-project/slipway/core/life"
	metal3v1alpha1 "github.com/slipway-project/slipway/environs/baremetal/metal3/v1alpha1"
	"github.com/slipway-project/slipway/state"
	"github.com/slipway-project/slipway/store"
)

// ErrNoMatch says that no host can be given to a machine; its text counts what
// stands against each.
const ErrNoMatch = errors.ConstError("no host matches")

// Request says what host a machine is to get, and what becomes of it. The zero
// value is usable: any host, which is left as it is.
type Request struct {
	Nonce       string // that the machine is started with
	Constraints constraints.Value
	Name        string   // the only host that will do; empty: any
	Zones       []string // that will do; nil: any
	// Apart are the hosts whose zones to keep away from, as far as can be; none
	// means those of the model.
	Apart []string
	Image *metal3v1alpha1.Image // to write; nil: none
	Data  Data                  // for the machine's first boot
}

// Want is what a machine wants.
type Want struct {
	MachineID string
	Request
}

// Given is what a machine got.
type Given struct {
	Host    Host
	Existed bool  // it had the host already
	Err     error // why it got none; starts with "cannot give machine"
}

const (
	// batch is how many machines are given hosts in one batch of the store.
	batch = 100
	// patience is how often all is read anew, without any machine getting a host,
	// because somebody else was faster.
	patience = 40
)

// Allocate gives machines of a model free hosts that meet what they want, and returns
// for each which, in the same order. Hosts and machines are read once and matched in
// memory, each machine in its turn, and written in batches; what somebody else has
// changed meanwhile is read and matched again, without the rest. What a machine gets of
// equal hosts depends on nothing but its and their names.
//
// A machine that has a host already keeps it as it is if the nonce is the same; else the
// error satisfies errors.AlreadyExists. Others satisfy ErrNoMatch if there is no such
// host, errors.NotFound for a machine that is gone, kind.Dead for a dead one, and
// kind.LeaseDenied if st is behind a fence that is closed.
func (hs *Hosts) Allocate(ctx context.Context, st *state.State, wants []Want) []Given {
	a := &allocation{hosts: hs, st: st, wants: wants, given: make([]Given, len(wants)), failed: map[string]error{}}
	todo := make([]int, len(wants))
	for i := range todo {
		todo[i] = i
	}
	// Whoever may not write is not told of hosts either.
	err := st.SetHosts(ctx, nil, func() ([]store.Op, error) { return nil, nil })
	for idle := 0; err == nil && len(todo) > 0; {
		var again []int
		if again, err = a.round(ctx, todo); len(again) == len(todo) {
			if idle++; idle == patience {
				err = kind.Contention
			}
		}
		todo = again
	}
	for _, i := range todo {
		a.given[i].Err = err
	}
	for i := range a.given {
		a.given[i].Err = errors.Annotatef(a.given[i].Err, "cannot give machine %s a host", wants[i].MachineID)
	}
	return a.given
}

// allocation is one call of Allocate.
type allocation struct {
	hosts *Hosts
	st    *state.State
	wants []Want
	given []Given
	// failed are the machines whose host could not be written, and why: who names one again is
	// told the same, instead of having it tried for each time.
	failed map[string]error
}

// choice is a host that was chosen for a machine, neither of which is written yet.
type choice struct {
	want    int // its place in allocation.wants
	machine *state.Machine
	host    *pair
	dataRev store.Rev
}

// round reads all there is, and gives hosts to those of todo that it can. It returns
// those which have to be looked at again because something changed meanwhile: all of
// them beside an error.
func (a *allocation) round(ctx context.Context, todo []int) (again []int, err error) {
	ids := make([]string, len(todo))
	for n, i := range todo {
		ids[n] = a.wants[i].MachineID
	}
	machines, err := a.st.Machines().GetAll(ctx, ids)
	if err != nil {
		return todo, errors.Trace(err)
	}
	pairs, err := a.hosts.all(ctx)
	if err != nil {
		return todo, errors.Trace(err)
	}
	choices, refused, again := a.match(ctx, newMatcher(pairs, a.st.ModelUUID()), todo, machines)
	if err := ctx.Err(); err != nil {
		return todo, errors.Trace(err)
	}
	if err := a.readData(ctx, choices); err != nil {
		return todo, errors.Trace(err)
	}
	taken := len(again)
	for part := range slices.Chunk(choices, batch) {
		again = append(again, a.commit(ctx, part)...)
	}
	if len(again) > taken { // a host may be free that one was refused for
		again = append(again, refused...)
	}
	slices.Sort(again)
	return again, nil
}

// match chooses hosts in memory. Those of todo that are in neither result are settled;
// those refused are, unless a choice comes to nothing; a machine that is named again after
// a host was chosen for it is to be looked at again. It stops when ctx is done: many machines
// and hosts take their time.
func (a *allocation) match(ctx context.Context, m *matcher, todo []int, machines []*state.Machine) (choices []*choice, refused, again []int) {
	chosen := make(map[string]bool, len(todo))
	for n, i := range todo {
		if ctx.Err() != nil {
			break
		}
		machine, want := machines[n], a.wants[i]
		if chosen[want.MachineID] {
			again = append(again, i)
			continue
		}
		a.given[i] = Given{}
		if err := a.failed[want.MachineID]; err != nil {
			a.given[i].Err = err
			continue
		}
		if machine == nil {
			a.given[i].Err = errors.NotFoundf("machine %s", want.MachineID)
			continue
		}
		mine := Consumer{ModelUUID: m.modelUUID, MachineID: want.MachineID, Nonce: want.Nonce}
		if p := m.held(machine.Host(), mine); p != nil {
			a.given[i] = has(p, mine)
			continue
		}
		if machine.Life() == life.Dead {
			a.given[i].Err = kind.Dead
			continue
		}
		p, err := m.choose(want)
		if err != nil {
			a.given[i].Err = err
			refused = append(refused, i)
			continue
		}
		m.take(p, mine)
		chosen[want.MachineID] = true
		choices = append(choices, &choice{want: i, machine: machine, host: p})
	}
	return choices, refused, again
}

// has says that a machine has a host already.
func has(p *pair, by Consumer) Given {
	if p.host.Consumer.Nonce != by.Nonce {
		return Given{Err: errors.AlreadyExistsf("host %s for machine %s, with another nonce,", p.name, by.MachineID)}
	}
	return Given{Host: p.public(), Existed: true}
}

// readData notes at which revisions the data of chosen hosts is.
func (a *allocation) readData(ctx context.Context, choices []*choice) error {
	if len(choices) == 0 {
		return nil
	}
	keys := make([]store.Key, len(choices))
	for n, c := range choices {
		keys[n] = a.hosts.dataKey(c.host.name)
	}
	docs, err := a.hosts.docs.Get(ctx, keys)
	if err != nil {
		return errors.Trace(err)
	}
	for n, d := range docs {
		choices[n].dataRev = d.Rev
	}
	return nil
}

// commit writes choices in one batch. What has changed since it was read is left out,
// and returned.
func (a *allocation) commit(ctx context.Context, choices []*choice) (again []int) {
	for len(choices) > 0 {
		given := make([]state.NewHost, len(choices))
		for n, c := range choices {
			given[n] = state.NewHost{Machine: c.machine, Host: c.host.name}
		}
		err := a.st.SetHosts(ctx, given, func() ([]store.Op, error) { return a.give(choices) })
		if errors.Is(err, store.ErrConflict) {
			var fresh []*choice
			if fresh, err = a.unchanged(ctx, choices); err == nil {
				if len(fresh) == len(choices) {
					fresh = nil // it has changed back and forth
				}
				for _, c := range choices {
					if !slices.Contains(fresh, c) {
						again = append(again, c.want)
					}
				}
				choices = fresh
				continue
			}
		}
		for _, c := range choices {
			if err != nil {
				a.given[c.want].Err, a.failed[c.machine.Id()] = err, err
				continue
			}
			a.given[c.want].Host = c.host.public()
		}
		return again
	}
	return again
}

// unchanged returns those choices whose machine and host are as they were read.
func (a *allocation) unchanged(ctx context.Context, choices []*choice) ([]*choice, error) {
	ids := make([]string, len(choices))
	keys := make([]store.Key, 0, 3*len(choices))
	for n, c := range choices {
		ids[n] = c.machine.Id()
		keys = append(keys, a.hosts.hostKey(c.host.name), a.hosts.statusKey(c.host.name), a.hosts.dataKey(c.host.name))
	}
	machines, err := a.st.Machines().GetAll(ctx, ids)
	if err != nil {
		return nil, errors.Trace(err)
	}
	docs, err := a.hosts.docs.Get(ctx, keys)
	if err != nil {
		return nil, errors.Trace(err)
	}
	var fresh []*choice
	for n, c := range choices {
		if c.machine.Same(machines[n]) && docs[3*n].Rev == c.host.hostRev && docs[3*n+1].Rev == c.host.statusRev && docs[3*n+2].Rev == c.dataRev {
			fresh = append(fresh, c)
		}
	}
	return fresh, nil
}

// give returns the operations that make hosts somebody's.
func (a *allocation) give(choices []*choice) ([]store.Op, error) {
	var ops []store.Op
	for _, c := range choices {
		p, q := c.host, a.wants[c.want]
		if q.Image != nil {
			p.host.Spec.Image, p.host.Spec.Online = q.Image, true
		}
		op, err := writeOp(a.hosts.hostKey(p.name), p.hostRev, p.host)
		if err != nil {
			return nil, err
		}
		// Its manager must not have begun anything with it meanwhile.
		ops = append(ops, op, store.Assert(a.hosts.statusKey(p.name), p.statusRev))
		if q.Data == (Data{}) {
			continue
		}
		if op, err = a.hosts.sealData(p, c.dataRev, q.Data); err != nil {
			return nil, err
		}
		ops = append(ops, op)
	}
	return ops, nil
}
