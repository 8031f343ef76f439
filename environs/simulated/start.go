package simulated

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/core/constraints"
	"github.com/slipway-project/slipway/core/instance"
	"github.com/slipway-project/slipway/core/kind"
	"github.com/slipway-project/slipway/core/network"
	"github.com/slipway-project/slipway/environs"
)

// StartRequest says what instance a Rack is to start.
type StartRequest struct {
	Owner       environs.Owner          `json:"owner"`
	Agent       Agent                   `json:"agent"` // its addresses are the rack's to give
	Base        string                  `json:"base"`
	Constraints constraints.Value       `json:"constraints"`
	Placement   string                  `json:"placement,omitempty"` // zone=NAME, fail=N or both with a comma
	Group       []instance.ID           `json:"group,omitempty"`     // to keep away from; empty means all of the model's
	Tags        map[string]string       `json:"tags,omitempty"`
	Volumes     []environs.VolumeParams `json:"volumes,omitempty"`   // to make with it
	Epoch       int64                   `json:"epoch,omitempty"`     // of the worker that asks; see Rack.admit
	Host        instance.ID             `json:"host,omitempty"`      // for a container: where; empty means no container
	Addresses   []network.Address       `json:"addresses,omitempty"` // for a container: that it is to have; empty means one of the rack's
}

// Validate returns an error satisfying errors.NotValid that names what is
// missing.
func (q StartRequest) Validate() error {
	if err := q.Owner.Validate(); err != nil {
		return err
	}
	switch {
	case q.Agent.Nonce == "":
		return errors.NotValidf("start of machine %s: missing machine nonce", q.Owner.MachineID)
	case q.Agent.MachineID != q.Owner.MachineID || q.Agent.ModelUUID != q.Owner.ModelUUID:
		return errors.NotValidf("start of machine %s: agent of another machine", q.Owner.MachineID)
	}
	return q.Constraints.Check()
}

// StartReply is the instance that a Rack started, or had started before.
type StartReply struct {
	Instance environs.Instance `json:"instance"`
	Existed  bool              `json:"existed,omitempty"`
}

// Start starts an instance, as environs.InstanceBroker says.
func (r *Rack) Start(ctx context.Context, q StartRequest) (StartReply, error) {
	if err := q.Validate(); err != nil {
		return StartReply{}, err
	}
	what := "start of machine " + q.Owner.MachineID
	m, t, err := r.reserve(q)
	if err != nil {
		return StartReply{}, err
	}
	if m == nil {
		return r.existing(q.Owner)
	}
	if err := t.before(ctx, what); err != nil {
		r.release(m)
		return StartReply{}, err
	}
	reply, err := r.commit(m, q.Epoch)
	if err != nil {
		return StartReply{}, err
	}
	return reply, t.after(what)
}

// admit refuses what a worker asks for whose place another has taken: its epoch is
// lower than one that was seen. What that one had under way is given up, so that
// nobody takes it for an instance. Nobody's epoch is 0, which is let through. The
// highest epochs are forgotten when the rack is closed. The caller holds r.mu.
func (r *Rack) admit(whose modelKey, epoch int64) error {
	if epoch == 0 {
		return nil
	}
	last := r.epochs[whose]
	if epoch < last {
		return errors.WithType(errors.Errorf("worker of epoch %d comes too late: epoch %d has been here", epoch, last), kind.LeaseDenied)
	}
	if epoch == last {
		return nil
	}
	r.epochs[whose] = epoch
	for _, m := range r.instances {
		if !m.running && m.Host == "" && keyOf(m.Owner) == whose {
			r.displace(m)
		}
	}
	return nil
}

// existing returns the instance that a machine has already.
func (r *Rack) existing(o environs.Owner) (StartReply, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := r.owners[o]
	if m == nil {
		return StartReply{}, errors.WithType(errors.Errorf("instance of machine %s was stopped meanwhile", o.MachineID), environs.ErrBusy)
	}
	return StartReply{Instance: r.instance(m), Existed: true}, nil
}

// reserve decides where the instance goes, and what becomes of the call, and
// records it as being started. It returns nil for a machine that has the
// instance already.
func (r *Rack) reserve(q StartRequest) (*machine, throw, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	id := q.Owner.MachineID
	if r.closed {
		return nil, throw{}, errors.WithType(errors.New("the rack is closed"), environs.ErrBusy)
	}
	if err := r.admit(keyOf(q.Owner), q.Epoch); err != nil {
		return nil, throw{}, err
	}
	if m := r.owners[q.Owner]; m != nil {
		switch {
		case m.Agent.Nonce != q.Agent.Nonce:
			return nil, throw{}, errors.AlreadyExistsf("instance %s for machine %s, with another nonce,", m.ID, id)
		case !m.running:
			return nil, throw{}, errors.WithType(errors.Errorf("machine %s is being started already", id), environs.ErrBusy)
		}
		return nil, throw{}, nil
	}
	zone, kind, t, err := r.where(q)
	if err != nil {
		return nil, throw{}, err
	}
	m := &machine{stored: stored{
		ID: instance.ID(fmt.Sprintf("sim-%d", r.next)), Number: r.next, Owner: q.Owner,
		Kind: kind, Zone: zone, Base: q.Base, Tags: maps.Clone(q.Tags), Agent: q.Agent, Host: q.Host, Volumes: makeVolumes(r.next, q.Volumes),
		Addresses: q.Addresses,
	}}
	r.next++
	r.place(m)
	return m, t, nil
}

// makeVolumes makes the volumes of the instance with a number. Any type of storage
// will do, with any settings.
func makeVolumes(instance uint64, wanted []environs.VolumeParams) []environs.Volume {
	var out []environs.Volume
	for i, v := range wanted {
		out = append(out, environs.Volume{
			ID: v.ID, VolumeID: fmt.Sprintf("sim-%d-vol-%d", instance, i), Size: v.Size, DeviceName: fmt.Sprintf("disk%d", i+1),
		})
	}
	return out
}

// throwStart is throw for a start, which may have been told to fail: fail is
// how many of the machine's starts do.
func (r *Rack) throwStart(o environs.Owner, fail int) throw {
	t := r.throw(CallStart, o)
	try := r.tries[string(CallStart)+o.ModelUUID+":"+o.MachineID]
	if try <= fail {
		t.fault, t.message = FaultTransient, fmt.Sprintf("simulated fault %d of %d: the power controller did not answer", try, fail)
		return t
	}
	i := slices.IndexFunc(r.faults, func(f MachineFault) bool {
		return f.MachineID == o.MachineID && (f.ModelUUID == "" || f.ModelUUID == o.ModelUUID)
	})
	if i < 0 {
		return t
	}
	f := &r.faults[i]
	t.fault, t.message = f.Kind, f.Message
	if t.fault == "" {
		t.fault = FaultTransient
	}
	if f.Times--; f.Times == 0 {
		r.faults = slices.Delete(r.faults, i, i+1)
	}
	return t
}

// room chooses the zone with the fewest of the group that has a machine free,
// and there the smallest kind that will do. The caller holds r.mu.
func (r *Rack) room(q StartRequest, only string, kinds []Kind, t throw) (zone, kind string, err error) {
	population := r.population[keyOf(q.Owner)]
	if len(q.Group) > 0 {
		population = map[string]int{}
		for _, id := range q.Group {
			if m := r.instances[id]; m != nil && keyOf(m.Owner) == keyOf(q.Owner) {
				population[m.Zone]++
			}
		}
	}
	var wanted []string
	if only != "" {
		wanted = []string{only}
	}
	zones := environs.SpreadZones(r.has.Zones, population, wanted)
	if t.fault == FaultZoneFull && len(zones) > 0 {
		zones = zones[1:]
	}
	for _, z := range zones {
		for _, k := range kinds {
			if r.used[slot{z, k.Name}] < k.PerZone {
				return z, k.Name, nil
			}
		}
	}
	// Room may come: the error says to try again, and what it is that lacks.
	names := make([]string, len(kinds))
	for i, k := range kinds {
		names[i] = k.Name
	}
	where := "no zone"
	if only != "" {
		where = "zone " + only + " has not one"
	} else {
		where += " has one"
	}
	return "", "", errors.WithType(errors.Errorf("start of machine %s: all machines that would do (%v) are in use: %s free",
		q.Owner.MachineID, names, where), environs.ErrZone)
}

// release forgets a machine whose start has failed, as if it had never been
// reserved; it may have been stopped meanwhile.
func (r *Rack) release(m *machine) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.displace(m)
}

// commit makes a machine run, for good: it is in the journal before anyone
// hears of it.
func (r *Rack) commit(m *machine, epoch int64) (StartReply, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.admit(keyOf(m.Owner), epoch); err != nil {
		r.displace(m)
		return StartReply{}, err
	}
	if r.instances[m.ID] != m || r.closed {
		r.displace(m)
		return StartReply{}, errors.Errorf("start of machine %s: it was stopped meanwhile", m.Owner.MachineID)
	}
	if err := r.keep(record{Started: &m.stored}); err != nil {
		r.displace(m)
		return StartReply{}, errors.Annotatef(err, "cannot keep instance of machine %s", m.Owner.MachineID)
	}
	m.running = true
	r.boot(m)
	return StartReply{Instance: r.instance(m)}, nil
}

// keep adds to the journal, if there is one, and now and then makes it short
// again. The caller holds r.mu.
func (r *Rack) keep(rec record) error {
	if r.journal == nil {
		return nil
	}
	if err := r.journal.add(rec); err != nil {
		return err
	}
	if !r.journal.bloated(len(r.instances)) {
		return nil
	}
	instances := make(map[instance.ID]*stored, len(r.instances))
	for id, m := range r.instances {
		starting := rec.Started != nil && rec.Started.ID == id
		if starting || m.running && rec.Stopped != id {
			instances[id] = &m.stored
		}
	}
	if err := r.journal.rewrite(instances, r.next); err != nil {
		logger.Warningf("cannot shorten the journal, which still holds: %v", err)
	}
	return nil
}

// StopRequest says which instances of a model to stop.
type StopRequest struct {
	ControllerUUID string        `json:"controller-uuid"`
	ModelUUID      string        `json:"model-uuid"`
	IDs            []instance.ID `json:"ids"`
	Epoch          int64         `json:"epoch,omitempty"` // as in StartRequest
	Host           instance.ID   `json:"host,omitempty"`  // likewise
}

// Stop stops instances, as environs.InstanceBroker says. All are stopped at
// the same time, so that it takes as long as the slowest.
func (r *Rack) Stop(ctx context.Context, q StopRequest) ([]error, error) {
	throws := make([]throw, len(q.IDs))
	var slowest throw
	r.mu.Lock()
	if err := r.admit(modelKey{q.ControllerUUID, q.ModelUUID}, q.Epoch); err != nil {
		r.mu.Unlock()
		return nil, err
	}
	for i, id := range q.IDs {
		if m := r.owned(q, id); m != nil {
			throws[i] = r.throw(CallStop, m.Owner)
			slowest.delay = max(slowest.delay, throws[i].delay)
		}
	}
	r.mu.Unlock()
	if err := slowest.before(ctx, "stop of instances"); err != nil {
		return nil, err
	}
	results := make([]error, len(q.IDs))
	hung := false
	r.mu.Lock()
	for i, id := range q.IDs {
		what := "stop of instance " + string(id)
		switch t := throws[i]; t.fault {
		case FaultHang:
			hung = true
		case FaultBusy, FaultTransient, FaultPermanent:
			results[i] = failure(t.fault, what, "")
		default:
			if results[i] = r.end(q, id); results[i] == nil {
				results[i] = t.after(what)
			}
		}
	}
	r.mu.Unlock()
	if hung {
		<-ctx.Done()
		for i, t := range throws {
			if t.fault == FaultHang {
				results[i] = errors.Annotatef(ctx.Err(), "stop of instance %s: no answer", q.IDs[i])
			}
		}
	}
	return results, nil
}

// owned returns the machine with an id if it is the model's, else nil. The
// caller holds r.mu.
func (r *Rack) owned(q StopRequest, id instance.ID) *machine {
	m := r.instances[id]
	if m == nil || m.Host != q.Host || keyOf(m.Owner) != (modelKey{q.ControllerUUID, q.ModelUUID}) {
		return nil
	}
	return m
}

// end stops one instance now. The caller holds r.mu.
func (r *Rack) end(q StopRequest, id instance.ID) error {
	m := r.owned(q, id)
	if m == nil {
		return nil
	}
	if r.closed {
		return errors.WithType(errors.New("the rack is closed"), environs.ErrBusy)
	}
	if err := r.admit(keyOf(m.Owner), q.Epoch); err != nil {
		return err
	}
	if m.running {
		if err := r.keep(record{Stopped: id}); err != nil {
			return errors.Annotatef(err, "cannot keep end of instance %s", id)
		}
	}
	r.displace(m)
	r.agents.stop(id)
	r.endHosted(id)
	return nil
}
