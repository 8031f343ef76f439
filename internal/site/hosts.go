package site

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/api/agentfile"
	"github.com/slipway-project/slipway/environs/baremetal/bmc"
	"github.com/slipway-project/slipway/environs/baremetal/ironic"
	"github.com/slipway-project/slipway/environs/baremetal/provisioner"
	"github.com/slipway-project/slipway/environs/baremetal/redfish"
	"github.com/slipway-project/slipway/environs/baremetal/simulated"
	"github.com/slipway-project/slipway/worker/hostkeeper"
	"github.com/slipway-project/slipway/worker/hostmanager"
	"github.com/slipway-project/slipway/worker/installs"
)

// HostsOptions say how to care for bare-metal hosts.
type HostsOptions struct {
	AgentFile string        // the identity to log in with; required
	Lease     time.Duration // for how long the hosts are claimed; 0 means lease.DefaultDuration
	// Ironic drives all hosts that are not simulated, if its Endpoint is set.
	// Otherwise BMCs that speak Redfish are driven by ourselves, and no others.
	Ironic ironic.Config
	// CallLimit is longer than any call of a back end takes, and half of how long a
	// host is left alone by a new process that the last one was at work on; 0 means
	// Patience.
	CallLimit time.Duration
	// Patience is how long a BMC may take for anything, such as to switch its machine on; 0
	// means 2 minutes. What Redfish leaves open follows from it.
	Patience time.Duration
	// Slots is how many hosts may write images at one time; 0 means 20.
	Slots int
	// Simulated describes the rack of hosts with addresses simulated://NAME, and
	// SimulatedDir is where it is kept; empty: it ends with the process.
	Simulated    simulated.Options
	SimulatedDir string
	// Silence is how long an installer may be silent before its machine is started
	// again; 0 means 2 minutes.
	Silence time.Duration
	// Boot is how long a machine may take from the order of a boot to the installer's
	// first report; 0 means 30 minutes.
	Boot time.Duration
	// Redfish says how patient we are with BMCs that speak Redfish. An Installer there is
	// used in place of the controller's.
	Redfish redfish.Options
}

// HostKeeper is a running host keeper with its back ends.
type HostKeeper struct {
	*hostkeeper.Keeper
	closing sync.Once
	close   func()
	rack    *simulated.Rack
}

// closeTimeout bounds how long the sessions of BMCs are being ended.
const closeTimeout = 5 * time.Second

// StartHosts cares for the hosts of the site, whenever no other process does.
func StartHosts(o HostsOptions) (*HostKeeper, error) {
	agent, err := agentfile.Read(o.AgentFile)
	if err != nil {
		return nil, errors.Trace(err)
	}
	rack, err := openRack(o)
	if err != nil {
		return nil, errors.Trace(err)
	}
	k := &HostKeeper{rack: rack}
	var metal func(context.Context) provisioner.Factory
	var installer *installs.Installer
	callLimit := cmp.Or(o.CallLimit, o.Patience)
	if o.Ironic.Endpoint != "" {
		backend, err := ironic.New(o.Ironic)
		if err != nil {
			rack.Close()
			return nil, errors.Trace(err)
		}
		metal, k.close = backend.Factory, backend.Close
		callLimit = o.CallLimit // Ironic has limits of its own
	} else {
		options := patient(o.Redfish, o.Patience)
		options.SilenceTimeout, options.BootTimeout = cmp.Or(options.SilenceTimeout, o.Silence), cmp.Or(options.BootTimeout, o.Boot)
		if options.Installer == nil {
			installer = installs.New()
			options.Installer = installer
		}
		backend := redfish.New(options)
		metal = backend.Factory
		k.close = func() {
			ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
			defer cancel()
			backend.Close(ctx)
		}
	}
	k.Keeper, err = hostkeeper.New(hostkeeper.Config{
		Info: agent.Info(), Lease: o.Lease, CallLimit: callLimit, Slots: o.Slots, Installer: installer,
		Factory: func(ctx context.Context) provisioner.Factory {
			own := map[bmc.Family]provisioner.Factory{bmc.FamilySimulated: rack.Factory()}
			if o.Ironic.Endpoint != "" {
				return hostmanager.ByFamily(own, metal(ctx))
			}
			own[bmc.FamilyRedfish] = metal(ctx)
			return hostmanager.ByFamily(own, nil)
		},
	})
	if err != nil {
		k.close()
		rack.Close()
		return nil, errors.Trace(err)
	}
	return k, nil
}

// openRack returns the rack of simulated hosts.
func openRack(o HostsOptions) (*simulated.Rack, error) {
	if o.SimulatedDir == "" {
		return simulated.New(o.Simulated), nil
	}
	return simulated.Open(o.SimulatedDir, o.Simulated)
}

// patient fills in what follows from how long a BMC may take; 0 leaves the usual.
func patient(o redfish.Options, limit time.Duration) redfish.Options {
	o.RequestTimeout = cmp.Or(o.RequestTimeout, limit/4)
	o.CallTimeout = cmp.Or(o.CallTimeout, limit*3/4)
	o.Poll = cmp.Or(o.Poll, limit/24)
	o.PowerTimeout = cmp.Or(o.PowerTimeout, limit)
	o.SoftOffTimeout = cmp.Or(o.SoftOffTimeout, limit*3/2)
	return o
}

// Wait returns when the keeper has stopped and its back ends are closed.
func (k *HostKeeper) Wait() error {
	err := k.Keeper.Wait()
	k.closing.Do(func() {
		k.close()
		k.rack.Close()
	})
	return err
}
