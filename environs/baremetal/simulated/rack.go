package simulated

import (
	"context"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/juju/errors"
	"github.com/juju/loggo"

	"github.com/slipway-project/slipway/environs/baremetal/bmc"
	metal3v1alpha1 "github.com/slipway-project/slipway/environs/baremetal/metal3/v1alpha1"
	"github.com/slipway-project/slipway/environs/baremetal/provisioner"
)

var logger = loggo.GetLogger("slipway.environs.baremetal.simulated")

// Op is an operation on a machine.
type Op string

// The operations.
const (
	OpRegister    Op = "register"
	OpInspect     Op = "inspect"
	OpAdopt       Op = "adopt"
	OpProvision   Op = "provision"
	OpDeprovision Op = "deprovision"
	OpDelete      Op = "delete"
	OpPower       Op = "power"
)

// Options describe a rack. The zero value is usable: everything succeeds at once.
type Options struct {
	// Seed makes racks differ in hardware and faults.
	Seed uint64
	// Delays is how long each operation takes; what is missing takes no time.
	Delays map[Op]time.Duration
	// FaultRate is the share, from 0 to 1, of operations that meet a fault.
	FaultRate float64
	// Credentials are what every BMC accepts; without a password, anything.
	Credentials bmc.Credentials
	// Boot is what a machine does that is on and has an image, given the user data
	// that it was provisioned with: it runs until ctx is done, when the machine is
	// off or wiped. Nil means nothing. What runs ends with Rack.Close; a rack that keeps
	// nothing knows no user data of machines that carry an image from before it.
	Boot func(ctx context.Context, address bmc.Address, userData string)
}

// Rack is a room full of simulated machines. Its methods may be called from any
// goroutine.
type Rack struct {
	options Options
	dir     string         // where machines are kept; empty: nowhere
	running sync.WaitGroup // machines that were booted

	mu       sync.Mutex
	closed   bool
	machines map[string]*machine // by bmc.Address.Key
}

// New returns a rack whose machines end with it; see Open.
func New(o Options) *Rack {
	return &Rack{options: o, machines: make(map[string]*machine)}
}

// machine is one simulated machine; what the back end knows of it is lost by
// Rack.Forget, the rest is as lasting as the rack.
type machine struct {
	power      bool
	image      string // URL of what is on its disk
	writes     int    // how often its disk was written
	unreached  bool   // the BMC does not answer
	tries      map[Op]int
	registered bool
	adopted    bool
	task       *task
	failed     string // URL of the image that was tried last, in vain
	failure    string // and why
	userData   string // that it was provisioned with
	stop       func() // ends what runs on it; nil: nothing does
}

// halt ends what runs on the machine. The caller holds the rack's mu.
func (m *machine) halt() {
	if m.stop != nil {
		m.stop()
		m.stop = nil
	}
}

// boot has a machine run its image, if it is on and has one, and keeps what it is like.
// The caller holds mu.
func (r *Rack) boot(address bmc.Address, m *machine) {
	m.halt()
	r.keep(address, m)
	if r.options.Boot == nil || r.closed || !m.power || m.image == "" {
		return
	}
	// Machines live as long as the rack, which ends them.
	ctx, cancel := context.WithCancel(context.Background())
	m.stop = cancel
	userData := m.userData
	r.running.Go(func() { r.options.Boot(ctx, address, userData) })
}

// Close ends what runs on the machines, and waits for it.
func (r *Rack) Close() {
	r.mu.Lock()
	r.closed = true
	for _, m := range r.machines {
		m.halt()
	}
	r.mu.Unlock()
	r.running.Wait()
}

// task is an operation under way.
type task struct {
	op    Op
	what  string // the image's URL; "on" or "off"
	until time.Time
	fails string // the verdict at the end; empty: success
}

// Machine is what a simulated machine is like at a moment.
type Machine struct {
	PoweredOn  bool
	Image      string // URL of what is on its disk; empty: nothing
	Writes     int    // how often an image was written or wiped
	Registered bool
	Busy       Op // the operation under way; empty: none
}

// Machine returns what the machine with that BMC address is like; the zero Machine
// if nobody has spoken to it.
func (r *Rack) Machine(address bmc.Address) Machine {
	r.mu.Lock()
	defer r.mu.Unlock()
	m, ok := r.machines[address.Key()]
	if !ok {
		return Machine{}
	}
	out := Machine{PoweredOn: m.power, Image: m.image, Writes: m.writes, Registered: m.registered}
	if m.task != nil {
		out.Busy = m.task.op
	}
	return out
}

// at returns the machine with that key, which it makes if need be. The caller
// holds mu.
func (r *Rack) at(key string) *machine {
	m, ok := r.machines[key]
	if !ok {
		m = &machine{tries: make(map[Op]int)}
		r.machines[key] = m
	}
	return m
}

// SetPower presses a machine's power button, behind the back end's back.
func (r *Rack) SetPower(address bmc.Address, on bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := r.at(address.Key())
	m.power = on
	r.boot(address, m)
}

// SetReachable unplugs a machine's BMC, or plugs it in again.
func (r *Rack) SetReachable(address bmc.Address, reachable bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.at(address.Key()).unreached = !reachable
}

// Forget loses all that the back end knows, as when its database is lost: no
// host is registered and nothing is under way. The machines stay as they are.
func (r *Rack) Forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, m := range r.machines {
		m.registered, m.adopted, m.task, m.failed, m.failure = false, false, nil, "", ""
	}
}

// Factory returns the rack's provisioner.Factory.
func (r *Rack) Factory() provisioner.Factory {
	return func(host *metal3v1alpha1.BareMetalHost, creds bmc.Credentials, publish provisioner.EventPublisher) (provisioner.Provisioner, error) {
		address, err := bmc.Parse(host.Spec.BMC.Address)
		if err != nil {
			return nil, errors.Trace(err)
		}
		return &hostProvisioner{rack: r, host: host, address: address, creds: creds, publish: publish}, nil
	}
}

// unreachable reports whether an image cannot be fetched.
func unreachable(image string) bool {
	u, err := url.Parse(image)
	return err != nil || u.Hostname() == "invalid" || strings.HasSuffix(u.Hostname(), ".invalid")
}
