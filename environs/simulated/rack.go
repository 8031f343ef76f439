package simulated

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/juju/errors"
	"github.com/juju/loggo"

	"github.com/slipway-project/slipway/core/instance"
	"github.com/slipway-project/slipway/core/network"
	"github.com/slipway-project/slipway/core/status"
	"github.com/slipway-project/slipway/environs"
	"github.com/slipway-project/slipway/internal/atomicfile"
)

var logger = loggo.GetLogger("slipway.environs.simulated")

// Options say what a Rack is like. The zero value is usable.
type Options struct {
	// DataDir is where instances are kept; empty means that they end with
	// the Rack. Only one process may have it open.
	DataDir string
	// Zones and Kinds are what there is; nil means DefaultZones and
	// DefaultKinds.
	Zones []environs.Zone
	Kinds []Kind
	// Behaviour is how the Rack behaves from the start; nil means as the last
	// SetBehaviour in DataDir said, else DefaultBehaviour.
	Behaviour *Behaviour
	// Agent is what instances run; nil means nothing.
	Agent AgentFunc
}

// Rack is a simulated data centre. Its methods may be called by many goroutines
// at once. It must be closed.
type Rack struct {
	dataDir string
	has     Description
	agents  *agents

	mu         sync.Mutex // held for no longer than a write to the journal
	closed     bool
	behaviour  Behaviour
	faults     []MachineFault // those that have times left
	instances  map[instance.ID]*machine
	owners     map[environs.Owner]*machine
	used       map[slot]int                         // how many of a kind are taken in a zone
	hosted     map[instance.ID]map[instance.ID]bool // containers, by host
	population map[modelKey]map[string]int          // instances by zone
	tries      map[string]int                       // by call and machine
	next       uint64                               // the number of the next instance
	journal    *journal                             // nil if nothing is kept
	epochs     map[modelKey]int64                   // the highest that was seen
}

// machine is an instance in the rack.
type machine struct {
	stored
	running bool // false while it is being started
}

// slot is where hardware is, and modelKey whose an instance is.
type (
	slot     struct{ zone, kind string }
	modelKey struct{ site, model string }
)

func keyOf(o environs.Owner) modelKey { return modelKey{o.ControllerUUID, o.ModelUUID} }

// NewRack returns a rack with the instances of its data directory, whose agents
// start again. It returns an error satisfying errors.AlreadyExists if another
// process has the directory open, and errors.NotValid if the options or what
// is in the directory are not.
func NewRack(o Options) (*Rack, error) {
	r := &Rack{
		dataDir: o.DataDir, has: Description{Zones: o.Zones, Kinds: o.Kinds}, agents: newAgents(o.Agent),
		instances: map[instance.ID]*machine{}, owners: map[environs.Owner]*machine{},
		used: map[slot]int{}, population: map[modelKey]map[string]int{}, tries: map[string]int{}, epochs: map[modelKey]int64{}, hosted: map[instance.ID]map[instance.ID]bool{}, next: 1,
	}
	if r.has.Zones == nil {
		r.has.Zones = DefaultZones()
	}
	if r.has.Kinds == nil {
		r.has.Kinds = DefaultKinds()
	}
	r.behaviour = DefaultBehaviour()
	if o.DataDir != "" {
		if err := r.load(); err != nil {
			r.agents.close()
			return nil, errors.Annotate(err, "cannot open rack")
		}
	}
	if o.Behaviour != nil {
		r.behaviour = o.Behaviour.clone()
	}
	if err := r.behaviour.Validate(); err != nil {
		r.Close()
		return nil, errors.Annotate(err, "cannot open rack")
	}
	for _, m := range r.instances {
		if r.adrift(m) {
			r.displace(m) // it was ending together with its host
			continue
		}
		r.boot(m)
	}
	return r, nil
}

// load reads the data directory.
func (r *Rack) load() error {
	j, instances, next, err := openJournal(r.dataDir)
	if err != nil {
		return err
	}
	r.journal, r.next = j, next
	for _, s := range instances {
		r.place(&machine{stored: *s, running: true})
	}
	data, err := os.ReadFile(r.behaviourFile())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		r.behaviour = Behaviour{}
		err = json.Unmarshal(data, &r.behaviour)
	}
	if err != nil {
		j.close()
		return errors.Annotatef(err, "cannot read behaviour")
	}
	return nil
}

// behaviourFile is where SetBehaviour keeps what it was told.
func (r *Rack) behaviourFile() string { return filepath.Join(r.dataDir, "behaviour.json") }

// StopAgents ends the agents of all instances and waits for them; none run from then
// on. Instances stay. It is for a process that is about to end the API server that
// its agents are connected to.
func (r *Rack) StopAgents() { r.agents.close() }

// Close ends all agents and waits for them. What the data directory holds stays
// there. It may be called more than once.
func (r *Rack) Close() {
	r.mu.Lock()
	already := r.closed
	r.closed = true
	r.mu.Unlock()
	r.agents.close()
	if r.journal != nil && !already {
		r.journal.close()
	}
}

// Describe returns what the rack has.
func (r *Rack) Describe(context.Context) (Description, error) { return r.has, nil }

// Behaviour returns how the rack behaves.
func (r *Rack) Behaviour(context.Context) (Behaviour, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.behaviour.clone(), nil
}

// SetBehaviour changes how the rack behaves from now on, and after it is opened
// again. It returns an error satisfying errors.NotValid if b makes no sense.
func (r *Rack) SetBehaviour(_ context.Context, b Behaviour) error {
	if err := b.Validate(); err != nil {
		return err
	}
	b = b.clone()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.dataDir != "" {
		err := atomicfile.WriteFunc(r.behaviourFile(), 0o600, func(w io.Writer) error { return json.NewEncoder(w).Encode(b) })
		if err != nil {
			return errors.Annotate(err, "cannot keep behaviour")
		}
	}
	r.behaviour = b
	return nil
}

// AddFault makes the next starts of one machine fail. Faults are forgotten when
// the rack is closed.
func (r *Rack) AddFault(_ context.Context, f MachineFault) error {
	if err := f.Validate(); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.faults = append(r.faults, f)
	return nil
}

// throw decides how long a call about one machine takes and what goes wrong.
// The caller holds r.mu.
func (r *Rack) throw(call Call, o environs.Owner) throw {
	key := o.ModelUUID + ":" + o.MachineID
	try := r.tries[string(call)+key]
	r.tries[string(call)+key]++
	delay, fault := r.behaviour.throw(call, key, try)
	return throw{delay: delay, fault: fault}
}

// place puts a machine where it is to be. The caller holds r.mu, or nobody
// else has r.
func (r *Rack) place(m *machine) {
	r.instances[m.ID] = m
	r.owners[m.Owner] = m
	if m.Host != "" {
		if r.hosted[m.Host] == nil {
			r.hosted[m.Host] = map[instance.ID]bool{}
		}
		r.hosted[m.Host][m.ID] = true
		return
	}
	r.used[slot{m.Zone, m.Kind}]++
	key := keyOf(m.Owner)
	if r.population[key] == nil {
		r.population[key] = map[string]int{}
	}
	r.population[key][m.Zone]++
}

// displace undoes place. It reports false if that was done before.
func (r *Rack) displace(m *machine) bool {
	if r.instances[m.ID] != m {
		return false
	}
	delete(r.instances, m.ID)
	delete(r.owners, m.Owner)
	if m.Host != "" {
		if delete(r.hosted[m.Host], m.ID); len(r.hosted[m.Host]) == 0 {
			delete(r.hosted, m.Host)
		}
		return true
	}
	r.used[slot{m.Zone, m.Kind}]--
	r.population[keyOf(m.Owner)][m.Zone]--
	return true
}

// boot starts the agent of a machine. The caller holds r.mu, or nobody else has
// r.
func (r *Rack) boot(m *machine) {
	a := m.Agent
	a.Addresses = m.addresses()
	a.Host = &Host{rack: r, id: m.ID, key: keyOf(m.Owner)}
	a.Trust = func(ca string) { r.trust(m, ca) }
	r.agents.start(m.ID, r.throw(CallBoot, m.Owner).delay, a)
}

// trust has the agent of a machine trust other authorities at its next start.
func (r *Rack) trust(m *machine, ca string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.instances[m.ID] != m || !m.running {
		return // it has been stopped
	}
	m.Agent.CACert = ca
	if err := r.keep(record{Started: &m.stored}); err != nil {
		logger.Warningf("cannot keep whom the agent of machine-%s trusts: %v", m.Agent.MachineID, err)
	}
}

// addresses returns where an instance is: as it was told, or else one in 10.0.0.0/8, apart from the
// first 256, which gateways and the like have.
func (s *stored) addresses() []network.Address {
	if len(s.Addresses) > 0 {
		return s.Addresses
	}
	n := s.Number + 256
	return network.NewAddresses(fmt.Sprintf("10.%d.%d.%d", byte(n>>16), byte(n>>8), byte(n)))
}

// instance returns m as providers describe it.
func (r *Rack) instance(m *machine) environs.Instance {
	i := environs.Instance{
		ID: m.ID, Owner: m.Owner, Nonce: m.Agent.Nonce, Status: status.Running, Message: "running in " + m.Zone,
		Addresses: m.addresses(), Hardware: r.has.kind(m.Kind).characteristics(m.Zone), Volumes: m.Volumes,
	}
	// What is still being started is listed too, so that whoever stops it
	// ends the start.
	if !m.running {
		// Without a nonce nobody takes it for an instance to be recorded: its
		// start may still be given up.
		i.Status, i.Message, i.Nonce = status.Allocating, "being started in "+m.Zone, ""
	}
	return i
}

// ListRequest says which instances to list.
type ListRequest struct {
	ControllerUUID string `json:"controller-uuid"`
	ModelUUID      string `json:"model-uuid"`
	Epoch          int64  `json:"epoch,omitempty"` // as in StartRequest

	// Host is the machine whose direct containers to list; empty means the
	// instances that are no containers, and Everywhere all of them.
	Host instance.ID `json:"host,omitempty"`
}

// Everywhere stands for all hosts in a ListRequest.
const Everywhere instance.ID = "*"

// List returns the instances of one model, sorted by id.
func (r *Rack) List(ctx context.Context, req ListRequest) ([]environs.Instance, error) {
	r.mu.Lock()
	t := r.throw(CallList, environs.Owner{ModelUUID: req.ModelUUID})
	r.mu.Unlock()
	if err := t.before(ctx, "list of instances"); err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	key := modelKey{req.ControllerUUID, req.ModelUUID}
	if err := r.admit(key, req.Epoch); err != nil {
		return nil, err
	}
	var out []environs.Instance
	for _, m := range r.instances {
		if (m.Host == req.Host || req.Host == Everywhere) && keyOf(m.Owner) == key {
			out = append(out, r.instance(m))
		}
	}
	slices.SortFunc(out, func(a, b environs.Instance) int {
		return cmp.Compare(r.instances[a.ID].Number, r.instances[b.ID].Number)
	})
	return out, nil
}

// throw is what the dice said of one call.
type throw struct {
	delay   time.Duration
	fault   FaultKind // empty means that nothing goes wrong
	message string    // of the fault; empty means the usual
}

// before spends the call's time, and returns the error of a fault that comes
// before anything is done. What is the call, for messages.
func (t throw) before(ctx context.Context, what string) error {
	switch t.fault {
	case FaultBusy:
		return failure(FaultBusy, what, t.message)
	case FaultHang:
		<-ctx.Done()
		return errors.Annotatef(ctx.Err(), "%s: no answer", what)
	}
	if err := wait(ctx, t.delay); err != nil {
		return errors.Annotatef(err, "%s was given up", what)
	}
	switch t.fault {
	case FaultTransient, FaultPermanent:
		return failure(t.fault, what, t.message)
	}
	return nil
}

// after returns the error of a fault that comes when all is done.
func (t throw) after(what string) error {
	if t.fault == FaultAnswerLost {
		return failure(FaultAnswerLost, what, t.message)
	}
	return nil
}
