package state

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/core/base"
	"github.com/slipway-project/slipway/core/constraints"
	"github.com/slipway-project/slipway/core/container"
	"github.com/slipway-project/slipway/core/hardware"
	"github.com/slipway-project/slipway/core/instance"
	"github.com/slipway-project/slipway/core/job"
	"github.com/slipway-project/slipway/core/life"
	"github.com/slipway-project/slipway/core/network"
	"github.com/slipway-project/slipway/core/status"
	"github.com/slipway-project/slipway/environs/config"
	"github.com/slipway-project/slipway/store"
)

// MachineSpec says what machine to add.
type MachineSpec struct {
	Series      string            // required
	Base        base.Base         // zero if only a series is known
	Jobs        []job.Job         // at least one
	Constraints constraints.Value // merged with the model's; its container key is dropped
	Placement   string            // in the provider's words; empty means anywhere
	Group       string            // distribution group; empty means none
	Disks       []Disks           // volumes to make with it; not for a container

	// ContainerType asks for a container: in the machine Parent, or, if Parent
	// is empty, in a new machine made for it from this same spec.
	ContainerType container.Type
	Parent        string

	// InstanceID and Nonce are of an instance that runs already; both or none,
	// and not for a container.
	InstanceID instance.ID
	Nonce      string
	Hardware   hardware.Characteristics
	Addresses  []network.Address // of the provider

	worker string // the name of a further worker identity
	hash   string // of the agent's password, for a worker
}

// AddResult is the machine added for one spec, or why there is none. For a
// container in a new machine it is the container.
type AddResult struct {
	Machine *Machine
	Err     error
}

// addChunk is how many specs at most go into one batch.
const addChunk = 500

// Add adds a machine for each spec, and returns one result for each in the same
// order. The specs that are fine are added though others are not. Up to 500
// specs are one batch, which takes all its ids at once.
//
// A result's error starts with "cannot add a new machine: ". It satisfies
// errors.NotFound for a parent that is missing, errors.NotValid for a bad
// spec, and ErrModelNotAlive. Add itself fails only when the store does.
func (ms *Machines) Add(ctx context.Context, specs []MachineSpec) ([]AddResult, error) {
	results := make([]AddResult, 0, len(specs))
	for chunk := range slices.Chunk(specs, addChunk) {
		part, err := ms.addChunk(ctx, chunk)
		if err != nil {
			return nil, errors.Annotate(err, "cannot add machines")
		}
		results = append(results, part...)
	}
	for i := range results {
		if err := results[i].Err; err != nil {
			results[i].Err = errors.Annotate(err, "cannot add a new machine")
		}
	}
	return results, nil
}

func (ms *Machines) addChunk(ctx context.Context, specs []MachineSpec) ([]AddResult, error) {
	prechecked := make([]error, len(specs))
	for i, spec := range specs {
		prechecked[i] = ms.precheck(ctx, spec)
	}
	// All additions need the same counter: here they wait for one another
	// instead of starting over. Other controllers may still come between.
	select {
	case ms.st.c.adding <- struct{}{}:
		defer func() { <-ms.st.c.adding }()
	case <-ctx.Done():
		return nil, errors.Trace(ctx.Err())
	}
	var results []AddResult
	err := ms.st.run(ctx, func(int) ([]store.Op, error) {
		results = make([]AddResult, len(specs))
		a, err := ms.newAdder(ctx, specs)
		if err != nil {
			return nil, errors.Trace(err)
		}
		for i, spec := range specs {
			if err := prechecked[i]; err != nil {
				results[i].Err = err
				continue
			}
			results[i].Machine, results[i].Err = a.add(spec)
		}
		return a.ops()
	})
	return results, errors.Trace(err)
}

// precheck checks what can be said of a spec by itself, and asks the
// provider.
func (ms *Machines) precheck(ctx context.Context, spec MachineSpec) error {
	if err := spec.check(ms.st.IsControllerModel()); err != nil {
		return err
	}
	if ms.st.c.policy == nil || spec.InstanceID != "" || spec.ContainerType != "" && spec.Parent != "" {
		return nil
	}
	return ms.st.c.policy.PrecheckMachine(ctx, ms.st, spec)
}

// maxPlace bounds what a machine's placement and group may be, in bytes: its status repeats them.
const maxPlace = 1024

func (s *MachineSpec) check(controllerModel bool) error {
	switch {
	case len(s.Placement) > maxPlace:
		return typedf(errors.NotValid, "placement of %d bytes (at most %d)", len(s.Placement), maxPlace)
	case len(s.Group) > maxPlace:
		return typedf(errors.NotValid, "group of %d bytes (at most %d)", len(s.Group), maxPlace)
	case s.Series == "":
		return typedf(errors.NotValid, "no series specified")
	case s.InstanceID != "" && s.Nonce == "":
		return typedf(errors.NotValid, "cannot add a machine with an instance id and no nonce")
	case s.InstanceID == "" && s.Nonce != "":
		return typedf(errors.NotValid, "cannot specify a nonce without an instance id")
	case s.Parent != "" && s.ContainerType == "":
		return typedf(errors.NotValid, "no container type specified")
	case s.ContainerType != "" && s.InstanceID != "":
		return typedf(errors.NotValid, "cannot specify instance id for a new container")
	case s.ContainerType == container.None:
		return typedf(errors.NotValid, "%q is not a valid container type", s.ContainerType)
	}
	if err := s.checkDisks(); err != nil {
		return err
	}
	if err := job.Check(s.Jobs); err != nil {
		return err
	}
	if slices.Contains(s.Jobs, job.ManageModel) && (!controllerModel || s.ContainerType != "") {
		return typedf(errors.NotValid, "controller jobs specified but not allowed")
	}
	return nil
}

// adder gathers the documents of one batch of additions, so that each is
// written once however many specs touch it.
type adder struct {
	st        *State
	model     store.Key
	modelRev  store.Rev
	modelDoc  *modelDoc
	validator *constraints.Validator
	now       time.Time
	counters  map[string]*counter // by name
	hosts     map[string]*Machine // parents, by id; nil for a missing one
	added     []*Machine
	pools     *poolsDoc // nil if there are none, or no disks are wanted
	poolsRev  store.Rev
	pooled    bool            // volumes were added to a pool
	source    string          // of volumes whose pool nobody names; empty means the provider's own
	claimed   bool            // the name of the worker to add is taken
	touched   map[string]bool // ids of hosts that were there before and get a container
}

// counter is a document that holds the next number of a series of ids.
type counter struct {
	Next int `json:"next"`

	rev  store.Rev
	took bool
}

func (c *counter) take() int {
	n := c.Next
	c.Next++
	c.took = true
	return n
}

// containerCounter returns the name of the counter of a host's containers.
func containerCounter(parent string, t container.Type) string {
	return "container:" + parent + "/" + string(t)
}

const (
	machineCounter = "machine"
	volumeCounter  = "volume"
)

func (a *adder) volumeID() string { return strconv.Itoa(a.counters[volumeCounter].take()) }

// newAdder reads everything that the specs may need, as one snapshot.
func (ms *Machines) newAdder(ctx context.Context, specs []MachineSpec) (*adder, error) {
	st := ms.st
	a := &adder{st: st, model: siteKey(modelsC, st.modelUUID), now: st.c.now(),
		counters: map[string]*counter{machineCounter: {}, volumeCounter: {}}, hosts: map[string]*Machine{}, touched: map[string]bool{}}
	keys := []store.Key{a.model, st.key(countersC, machineCounter), st.key(countersC, volumeCounter)}
	if slices.ContainsFunc(specs, func(s MachineSpec) bool { return len(s.Disks) > 0 }) {
		keys = append(keys, st.key(extrasC, poolsID), st.key(configsC, configID))
	}
	for _, s := range specs {
		if s.worker != "" {
			keys = append(keys, workerClaim(s.worker))
		}
		if s.Parent == "" || s.ContainerType == "" {
			continue
		}
		if _, seen := a.hosts[s.Parent]; !seen {
			a.hosts[s.Parent] = nil
			keys = append(keys, st.key(machinesC, s.Parent))
		}
		name := containerCounter(s.Parent, s.ContainerType)
		if a.counters[name] == nil {
			a.counters[name] = &counter{}
			keys = append(keys, st.key(countersC, name))
		}
	}
	docs, err := st.c.store.GetAll(ctx, keys)
	if err != nil {
		return nil, errors.Trace(err)
	}
	for _, d := range docs {
		if err := a.read(d); err != nil {
			return nil, errors.Trace(err)
		}
	}
	a.validator, err = st.validator(ctx)
	return a, errors.Trace(err)
}

// read takes up one document of the snapshot.
func (a *adder) read(d store.Doc) error {
	if d.Rev == 0 {
		return nil
	}
	_, id := splitID(d.ID)
	switch d.Collection {
	case modelsC:
		m, err := decode[modelDoc](d)
		if err != nil {
			return err
		}
		a.modelDoc, a.modelRev = m, d.Rev
	case countersC:
		c, err := decode[counter](d)
		if err != nil {
			return err
		}
		c.rev = d.Rev
		a.counters[id] = c
	case extrasC:
		p, err := decode[poolsDoc](d)
		if err != nil {
			return err
		}
		a.pools, a.poolsRev = p, d.Rev
	case configsC:
		c, err := decode[configDoc](d)
		if err != nil {
			return err
		}
		a.source = config.Attrs(c.Attrs).String(config.StorageBlockSource)
	case claimsC:
		a.claimed = true
	case machinesC:
		m, err := a.st.decodeMachine(d)
		if err != nil {
			return err
		}
		a.hosts[id] = m
	}
	return nil
}

// add makes the documents of one spec.
func (a *adder) add(spec MachineSpec) (*Machine, error) {
	if a.modelDoc == nil || a.modelDoc.Life != life.Alive {
		return nil, typedf(ErrModelNotAlive, "model %q is no longer alive", a.st.modelName)
	}
	cons, err := a.validator.Merge(a.modelDoc.Constraints, spec.Constraints)
	if err != nil {
		return nil, err
	}
	if a.claimed {
		return nil, errors.AlreadyExistsf("worker %q", spec.worker)
	}
	cons.Container = nil
	spec.Constraints = cons
	if spec.ContainerType == "" {
		return a.insert(strconv.Itoa(a.counters[machineCounter].take()), spec), nil
	}
	if spec.Parent == "" {
		host := spec
		host.ContainerType = ""
		spec.Placement = ""
		m := a.insert(strconv.Itoa(a.counters[machineCounter].take()), host)
		a.hosts[m.id] = m
		return a.addContainer(m, spec), nil
	}
	host := a.hosts[spec.Parent]
	if host == nil {
		return nil, errors.NotFoundf("machine %s", spec.Parent)
	}
	if host.doc.ContainersKnown && !slices.Contains(host.doc.ContainerTypes, spec.ContainerType) {
		return nil, typedf(errors.NotValid, "machine %s cannot host %s containers", host.id, spec.ContainerType)
	}
	a.touched[host.id] = true
	return a.addContainer(host, spec), nil
}

func (a *adder) addContainer(host *Machine, spec MachineSpec) *Machine {
	name := containerCounter(host.id, spec.ContainerType)
	if a.counters[name] == nil {
		a.counters[name] = &counter{}
	}
	m := a.insert(fmt.Sprintf("%s/%s/%d", host.id, spec.ContainerType, a.counters[name].take()), spec)
	doc := *host.doc
	doc.Containers = append(slices.Clip(doc.Containers), m.id)
	host.doc = &doc
	return m
}

func (a *adder) insert(id string, spec MachineSpec) *Machine {
	pending := statusDoc{Status: status.Pending, Since: a.now}
	d := &machineDoc{
		Life: life.Alive, Created: a.now, Series: spec.Series, Base: spec.Base, Jobs: slices.Clone(spec.Jobs),
		Constraints: spec.Constraints, Placement: spec.Placement, Group: spec.Group,
		Status: pending, InstanceStatus: pending, Worker: spec.worker, PasswordHash: spec.hash,
		Volumes: a.volumes(spec.Disks),
	}
	if spec.InstanceID != "" {
		d.Instance = &instanceDoc{ID: spec.InstanceID, Nonce: spec.Nonce, Hardware: spec.Hardware}
		d.setAddresses(spec.Addresses, nil)
	}
	m := &Machine{st: a.st, id: id, doc: d}
	a.added = append(a.added, m)
	return m
}

// ops returns the batch; none if no spec was fine.
func (a *adder) ops() ([]store.Op, error) {
	if len(a.added) == 0 {
		return nil, nil
	}
	ops := []store.Op{store.Assert(a.model, a.modelRev)}
	put := func(op store.Op, err error) error {
		ops = append(ops, op)
		return err
	}
	for name, c := range a.counters {
		if !c.took {
			continue
		}
		if err := put(writeOp(a.st.key(countersC, name), c.rev, c, nil)); err != nil {
			return nil, err
		}
	}
	if a.pooled {
		a.pools.Users++
		if err := put(writeOp(a.st.key(extrasC, poolsID), a.poolsRev, a.pools, nil)); err != nil {
			return nil, err
		}
	}
	for id := range a.touched {
		host := a.hosts[id]
		if err := put(a.st.machineOp(id, host.rev, host.doc)); err != nil {
			return nil, err
		}
	}
	for _, m := range a.added {
		if err := put(a.st.machineOp(m.id, 0, m.doc)); err != nil {
			return nil, err
		}
		if m.doc.Worker == "" {
			continue
		}
		if err := put(insertOp(workerClaim(m.doc.Worker), claimDoc{Holder: m.id}, nil)); err != nil {
			return nil, err
		}
	}
	return ops, nil
}

// validator returns what the model's provider accepts as constraints.
func (st *State) validator(ctx context.Context) (*constraints.Validator, error) {
	if st.c.policy == nil {
		return &constraints.Validator{}, nil
	}
	v, err := st.c.policy.ConstraintsValidator(ctx, st)
	return v, errors.Annotate(err, "cannot get constraints validator")
}
