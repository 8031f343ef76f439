package simulated

import (
	"fmt"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/environs/baremetal/bmc"
	metal3v1alpha1 "github.com/slipway-project/slipway/environs/baremetal/metal3/v1alpha1"
	"github.com/slipway-project/slipway/environs/baremetal/provisioner"
)

// ErrUnreachable is returned while a machine's BMC does not answer.
const ErrUnreachable = errors.ConstError("BMC does not answer")

// hostProvisioner is the provisioner.Provisioner of one machine.
type hostProvisioner struct {
	rack    *Rack
	host    *metal3v1alpha1.BareMetalHost
	address bmc.Address
	creds   bmc.Credentials
	publish provisioner.EventPublisher

	progress string // of what the last call found under way
}

var (
	_ provisioner.Provisioner    = (*hostProvisioner)(nil)
	_ provisioner.ProgressTeller = (*hostProvisioner)(nil)
)

// Progress is described by provisioner.ProgressTeller.
func (p *hostProvisioner) Progress() string { return p.progress }

// looks is how many times a long operation is looked at until it is done.
const looks = 10

// under returns the answer while a task is under way, of which so much is left.
func (p *hostProvisioner) under(t *task, left time.Duration) provisioner.Result {
	whole := p.rack.options.Delays[t.op]
	if t.op != OpProvision || whole < looks*time.Second {
		return provisioner.Again(left)
	}
	p.progress = fmt.Sprintf("writing image %d %%", max(0, whole-left)*looks/whole*(100/looks))
	return provisioner.Again(min(left, whole/looks))
}

// errWrongCredentials is the verdict of a BMC that refuses to let us in.
const errWrongCredentials = "the BMC refuses the user name or password; correct the host's credentials"

// with calls f with the machine, which answers and is registered.
func (p *hostProvisioner) with(f func(m *machine) (provisioner.Result, error)) (provisioner.Result, error) {
	p.rack.mu.Lock()
	defer p.rack.mu.Unlock()
	m := p.rack.at(p.address.Key())
	if m.unreached {
		return provisioner.Result{}, errors.Annotatef(ErrUnreachable, "cannot reach %s", p.address)
	}
	if !m.registered {
		return provisioner.Result{}, errors.Trace(provisioner.ErrNotRegistered)
	}
	return f(m)
}

// advance starts op, or looks how far it has come. It calls finish once, when op
// has succeeded.
func (p *hostProvisioner) advance(m *machine, op Op, what string, start func() error, finish func()) (provisioner.Result, error) {
	if t := m.task; t != nil && (t.op != op || t.what != what) {
		if left := time.Until(t.until); left > 0 && !t.givesWay(op) {
			return provisioner.Again(left), nil
		}
		logger.Debugf("%s: %s is given up for %s", p.address, t.op, op)
		m.task = nil
	}
	if m.task == nil {
		fault := p.rack.Fault(p.address, op)
		struck := m.tries[op] < fault.Times
		m.tries[op]++
		if struck && !fault.Verdict {
			return provisioner.Result{}, errors.Errorf("cannot %s %s: simulated fault of the network", op, p.address)
		}
		if start != nil {
			if err := start(); err != nil {
				return provisioner.Result{}, errors.Trace(err)
			}
		}
		m.task = &task{op: op, what: what, until: time.Now().Add(p.rack.options.Delays[op])}
		if struck {
			m.task.fails = "simulated fault of the hardware during " + string(op)
		} else if op == OpProvision && unreachable(what) {
			m.task.fails = "cannot fetch image " + what + ": no such host"
		}
	}
	if left := time.Until(m.task.until); left > 0 {
		return p.under(m.task, left), nil
	}
	t := m.task
	m.task = nil
	if t.fails != "" {
		return provisioner.Failed(t.fails), nil
	}
	finish()
	return provisioner.Result{}, nil
}

// givesWay reports whether the task may be broken off for op. A power command
// never is.
func (t *task) givesWay(op Op) bool {
	return op == OpDeprovision && t.op != OpPower || op == OpProvision && t.op == OpProvision
}

// ValidateManagementAccess is described by provisioner.Provisioner.
func (p *hostProvisioner) ValidateManagementAccess(credentialsChanged bool) (provisioner.Result, error) {
	p.rack.mu.Lock()
	defer p.rack.mu.Unlock()
	m := p.rack.at(p.address.Key())
	if m.unreached {
		return provisioner.Result{}, errors.Annotatef(ErrUnreachable, "cannot reach %s", p.address)
	}
	if want := p.rack.options.Credentials; want.Password != "" && p.creds != want {
		return provisioner.Failed(errWrongCredentials), nil
	}
	if m.registered {
		p.host.Status.Provisioning.ID = p.address.String()
		return provisioner.Result{}, nil
	}
	return p.advance(m, OpRegister, "", nil, func() {
		m.registered = true
		p.host.Status.Provisioning.ID = p.address.String()
		p.publish("Registered", "Registered new host")
	})
}

// InspectHardware is described by provisioner.Provisioner.
func (p *hostProvisioner) InspectHardware() (provisioner.Result, *metal3v1alpha1.HardwareDetails, error) {
	var details *metal3v1alpha1.HardwareDetails
	result, err := p.with(func(m *machine) (provisioner.Result, error) {
		start := func() error {
			p.publish("InspectionStarted", "Hardware inspection started")
			return nil
		}
		return p.advance(m, OpInspect, "", start, func() {
			details = p.rack.Hardware(p.address)
			p.publish("InspectionComplete", "Hardware inspection completed")
		})
	})
	return result, details, err
}

// UpdateHardwareState is described by provisioner.Provisioner.
func (p *hostProvisioner) UpdateHardwareState() (provisioner.Result, error) {
	return p.with(func(m *machine) (provisioner.Result, error) {
		changed := m.power != p.host.Status.PoweredOn
		p.host.Status.PoweredOn = m.power
		return provisioner.Result{Dirty: changed}, nil
	})
}

// Adopt is described by provisioner.Provisioner.
func (p *hostProvisioner) Adopt() (provisioner.Result, error) {
	return p.with(func(m *machine) (provisioner.Result, error) {
		if m.adopted {
			return provisioner.Result{}, nil
		}
		return p.advance(m, OpAdopt, "", nil, func() {
			m.adopted = true
			if m.image == "" { // a rack made anew believes the record
				m.image, m.power = p.host.Status.Provisioning.Image.URL, p.host.Status.PoweredOn
				p.rack.keep(p.address, m)
			}
		})
	})
}

// Provision is described by provisioner.Provisioner.
func (p *hostProvisioner) Provision(configData provisioner.HostConfigData) (provisioner.Result, error) {
	return p.with(func(m *machine) (provisioner.Result, error) {
		if !p.host.WantsImage() {
			return provisioner.Failed("the host has no image to provision"), nil
		}
		image := p.host.Spec.Image.URL
		if m.task == nil && m.adopted && m.image == image {
			return provisioner.Result{}, nil
		}
		if m.task == nil && m.failed == image && !provisioner.IsRetry(p.host, metal3v1alpha1.ProvisioningError) {
			return provisioner.Failed(m.failure), nil
		}
		start := func() error {
			userData, err := configData.UserData()
			if err != nil {
				return errors.Annotate(err, "cannot read user data")
			}
			if _, err := configData.NetworkData(); err != nil {
				return errors.Annotate(err, "cannot read network data")
			}
			m.failed, m.failure, m.userData = "", "", userData
			p.publish("ProvisioningStarted", "Image provisioning started for "+image)
			return nil
		}
		result, err := p.advance(m, OpProvision, image, start, func() {
			m.image, m.power, m.adopted = image, true, true
			m.writes++
			p.rack.boot(p.address, m)
			p.host.Status.PoweredOn = true
			p.publish("ProvisioningComplete", "Image provisioning completed for "+image)
		})
		if result.ErrorMessage != "" {
			m.failed, m.failure = image, result.ErrorMessage
		}
		return result, err
	})
}

// Deprovision is described by provisioner.Provisioner.
func (p *hostProvisioner) Deprovision() (provisioner.Result, error) {
	return p.with(func(m *machine) (provisioner.Result, error) {
		if m.task == nil && m.image == "" && m.failed == "" {
			return provisioner.Result{}, nil
		}
		start := func() error {
			p.publish("DeprovisioningStarted", "Image deprovisioning started")
			return nil
		}
		return p.advance(m, OpDeprovision, "", start, func() {
			m.image, m.power, m.adopted, m.failed, m.failure, m.userData = "", false, false, "", "", ""
			m.writes++
			p.rack.boot(p.address, m) // it is off
			p.host.Status.PoweredOn = false
			p.publish("DeprovisioningComplete", "Image deprovisioning completed")
		})
	})
}

// Delete is described by provisioner.Provisioner. A BMC that does not answer, and
// one that refuses us, do not hold it up.
func (p *hostProvisioner) Delete() (provisioner.Result, error) {
	p.rack.mu.Lock()
	defer p.rack.mu.Unlock()
	m := p.rack.at(p.address.Key())
	if !m.registered {
		m.task = nil
		return provisioner.Result{}, nil
	}
	if m.task != nil && m.task.op != OpDelete {
		logger.Debugf("%s: %s is given up for removal", p.address, m.task.op)
		m.task = nil
	}
	result, err := p.advance(m, OpDelete, "", nil, func() {
		m.registered, m.adopted, m.failed, m.failure = false, false, "", ""
	})
	if err == nil && result == (provisioner.Result{}) {
		return provisioner.Again(0), nil // the next call confirms it
	}
	return result, err
}

// PowerOn is described by provisioner.Provisioner.
func (p *hostProvisioner) PowerOn() (provisioner.Result, error) {
	return p.setPower(true, "PowerOn", "Host powered on")
}

// PowerOff is described by provisioner.Provisioner.
func (p *hostProvisioner) PowerOff() (provisioner.Result, error) {
	return p.setPower(false, "PowerOff", "Host soft powered off")
}

// setPower switches the machine on or off.
func (p *hostProvisioner) setPower(on bool, reason, message string) (provisioner.Result, error) {
	return p.with(func(m *machine) (provisioner.Result, error) {
		if m.power == on && (m.task == nil || m.task.op != OpPower) {
			p.host.Status.PoweredOn = on
			return provisioner.Result{}, nil
		}
		return p.advance(m, OpPower, reason, nil, func() {
			m.power = on
			p.rack.boot(p.address, m)
			p.host.Status.PoweredOn = on
			p.publish(reason, message)
		})
	})
}
