package fakebmc

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/juju/errors"
)

// BootSource is where a machine starts from, by its Redfish name.
type BootSource string

// The boot sources. BootNone is a machine that found nothing to start.
const (
	BootNone BootSource = "None"
	BootHdd  BootSource = "Hdd"
	BootCd   BootSource = "Cd"
	BootPxe  BootSource = "Pxe"
	BootHTTP BootSource = "UefiHttp"
)

// Boot is one start of a machine.
type Boot struct {
	Source BootSource
	URL    string // of the virtual CD, or of UEFI HTTP boot
	Mode   string // "UEFI" or "Legacy"
	Number int    // how many boots the system had before
}

// Machine is what a system's power button works on. Calls come one at a time.
type Machine interface {
	// PowerOn starts the machine, without waiting for anything. The context ends
	// when it is to be off. off is called at most once, from another goroutine, if
	// the machine goes off by itself; restart is set if it means to start again.
	PowerOn(ctx context.Context, s *System, boot Boot, off func(restart bool)) error
	// PowerOff stops it. If hard is not set, the machine's operating system is
	// asked; the answer says how that goes on.
	PowerOff(hard bool) SoftOff
}

// SecureBooter is a Machine whose firmware can say whether it starts only what is
// signed. The BMC of any other Machine knows nothing of Secure Boot.
type SecureBooter interface {
	SecureBoot() bool
}

// SoftOff is how a machine takes the wish to shut down.
type SoftOff int

// The ways to take it.
const (
	SoftOffIgnored SoftOff = iota // nothing will happen
	SoftOffObeyed                 // it will be off after Delays.SoftOff
	SoftOffAsked                  // off is called if it obeys
)

// Memory is a Machine that exists in memory only.
type Memory struct {
	// OnBoot, if set, is what the machine runs: it is called at every boot, in its
	// own goroutine, and should return when ctx is done.
	OnBoot func(ctx context.Context, s *System, boot Boot) End
	// Signed machines start only what is signed, as their BMC says.
	Signed bool
	// Deaf machines do not turn off when asked.
	Deaf bool
}

// End is how a program leaves its machine.
type End int

// The ways to leave.
const (
	Stays    End = iota // on, with nothing running
	GoesOff             // off
	Restarts            // off, and on again
)

// PowerOn is described by Machine.
func (m Memory) PowerOn(ctx context.Context, s *System, boot Boot, off func(restart bool)) error {
	if m.OnBoot != nil {
		s.bmc.run(func(context.Context) {
			if end := m.OnBoot(ctx, s, boot); end != Stays {
				off(end == Restarts)
			}
		})
	}
	return nil
}

// SecureBoot is described by SecureBooter.
func (m Memory) SecureBoot() bool { return m.Signed }

// PowerOff is described by Machine.
func (m Memory) PowerOff(bool) SoftOff {
	if m.Deaf {
		return SoftOffIgnored
	}
	return SoftOffObeyed
}

// System is one machine behind a BMC.
type System struct {
	bmc     *BMC
	n       int // in the BMC
	number  int // in the rack
	id      string
	machine Machine
	details inventory

	mu       sync.Mutex
	power    powerState
	pending  context.CancelFunc // ends the transition under way
	runs     context.CancelFunc // ends the machine's run
	override override
	cd       medium
	floppy   medium
	disk     string
	boots    []Boot
	commands []string
	revision int // for the ETag
	overlap  bool
	bios     doc
}

// powerState is Redfish's PowerState.
type powerState string

const (
	powerOff      powerState = "Off"
	powerOn       powerState = "On"
	poweringOn    powerState = "PoweringOn"
	poweringOff   powerState = "PoweringOff"
	enabledOnce              = "Once"
	enabledAlways            = "Continuous"
	disabled                 = "Disabled"
)

// override is where the machine is told to boot from.
type override struct{ target, enabled, mode, uri string }

// medium is what is in a virtual drive.
type medium struct {
	image          string
	writeProtected bool
}

// newSystem returns machine n of the BMC.
func newSystem(b *BMC, n int) *System {
	id := b.vendor.SystemID
	if b.config.Systems > 1 {
		id = fmt.Sprintf("%s-%d", id, n)
		if b.vendor.SystemID == "1" {
			id = fmt.Sprint(n + 1)
		}
	}
	s := &System{bmc: b, n: n, number: b.config.FirstSystem + n, id: id, machine: Memory{}, power: powerOff, revision: 1,
		override: override{target: "None", enabled: disabled, mode: "UEFI"}, bios: doc{"BootMode": "Uefi", "ProcVirtualization": "Enabled"}}
	if b.config.Machine != nil {
		s.machine = b.config.Machine(n)
	}
	s.details = inventoryOf(s.number)
	return s
}

// Path returns the system's resource path.
func (s *System) Path() string { return root + "/Systems/" + s.id }

// Number returns the machine's number in its rack.
func (s *System) Number() int { return s.number }

// MAC returns the address of the machine's first network interface.
func (s *System) MAC() string { return s.details.nics[0].mac }

// PoweredOn reports whether the machine is on, or about to be off.
func (s *System) PoweredOn() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.power == powerOn || s.power == poweringOff
}

// Disk returns what is on the machine's disk, as SetDisk put it there.
func (s *System) Disk() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.disk
}

// SetDisk puts something on the machine's disk; a machine with something on its
// disk boots from it. Empty: wiped.
func (s *System) SetDisk(content string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.disk = content
}

// Boots returns the machine's boots so far.
func (s *System) Boots() []Boot {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Boot(nil), s.boots...)
}

// Media returns the URL of what is in the virtual CD drive.
func (s *System) Media() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cd.image
}

// Commands returns the reset types that were accepted, in order.
func (s *System) Commands() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.commands...)
}

// Overlapped reports whether a power command ever came while another was under
// way.
func (s *System) Overlapped() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.overlap
}

// Reset does what a Redfish Reset of that type does. The error satisfies
// errors.NotSupported for an unknown type and errors.NotValid for one that a
// strict BMC refuses in the present state.
func (s *System) Reset(kind string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	strict, isOff := s.bmc.vendor.StrictPower, s.power == powerOff
	if kind == "GracefulShutdown" && s.bmc.vendor.NoGraceful || !resetKnown(kind) {
		return errors.NotSupportedf("reset type %q", kind)
	}
	turnsOn := kind == "On" || kind == "ForceOn"
	if strict && (turnsOn && s.power == powerOn || !turnsOn && isOff) {
		return errors.NotValidf("reset %s of a machine that is %s", kind, s.power)
	}
	if s.power == poweringOn || s.power == poweringOff {
		s.overlap = true
	}
	s.commands = append(s.commands, kind)
	if s.pending != nil {
		s.pending()
		s.pending = nil
	}
	switch kind {
	case "On", "ForceOn":
		if s.power != powerOn {
			s.transition(poweringOn, s.bmc.config.Delays.PowerOn, s.boot)
		}
	case "ForceOff", "PushPowerButton":
		if !isOff {
			s.transition(poweringOff, s.bmc.config.Delays.PowerOff, s.off)
		}
	case "GracefulShutdown":
		if !isOff && s.machine.PowerOff(false) == SoftOffObeyed {
			s.transition(poweringOff, s.bmc.config.Delays.SoftOff, s.off)
		}
	default: // restarts
		s.transition(poweringOff, s.bmc.config.Delays.PowerOff, func() {
			s.off()
			s.transition(poweringOn, s.bmc.config.Delays.PowerOn, s.boot)
		})
	}
	return nil
}

// resetTypes returns the reset types that the BMC lists.
func (b *BMC) resetTypes() []string {
	if b.vendor.NoGraceful {
		return []string{"On", "ForceOff", "ForceRestart", "PowerCycle"}
	}
	return []string{"On", "ForceOff", "GracefulShutdown", "GracefulRestart", "ForceRestart", "PowerCycle"}
}

// resetKnown reports whether kind is a reset type.
func resetKnown(kind string) bool {
	switch kind {
	case "On", "ForceOn", "ForceOff", "PushPowerButton", "GracefulShutdown", "GracefulRestart", "ForceRestart", "PowerCycle":
		return true
	}
	return false
}

// transition goes to state at once and calls then after d. The caller holds mu,
// and so has then.
func (s *System) transition(state powerState, d time.Duration, then func()) {
	s.power = state
	s.revision++
	if d <= 0 {
		then()
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.pending = cancel
	s.bmc.run(func(closing context.Context) {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-ctx.Done():
			return
		case <-closing.Done():
			return
		case <-timer.C:
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if ctx.Err() == nil { // no other command came in between
			cancel()
			s.pending = nil
			then()
		}
	})
}

// off is the moment the machine goes off. The caller holds mu.
func (s *System) off() {
	if s.runs != nil {
		s.runs()
		s.runs = nil
	}
	s.machine.PowerOff(true)
	s.power = powerOff
	s.revision++
	s.bmc.announce(s.Path(), "The system has been powered off.")
}

// boot is the moment the machine comes on. The caller holds mu.
func (s *System) boot() {
	boot := s.nextBoot()
	s.boots = append(s.boots, boot)
	ctx, cancel := context.WithCancel(s.bmc.tomb.Context(nil))
	s.runs = cancel
	s.power = powerOn
	s.revision++
	number := len(s.boots)
	wentOff := func(restart bool) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if len(s.boots) != number || s.power == powerOff || ctx.Err() != nil {
			return
		}
		s.off()
		if restart {
			s.transition(poweringOn, s.bmc.config.Delays.PowerOn, s.boot)
		}
	}
	if err := s.machine.PowerOn(ctx, s, boot, wentOff); err != nil {
		logger.Errorf("system %s does not start: %v", s.id, err)
		s.off()
		return
	}
	s.bmc.announce(s.Path(), "The system has been powered on.")
}

// nextBoot returns what the machine starts from now, and uses a one-time override
// up.
func (s *System) nextBoot() Boot {
	boot := Boot{Source: BootNone, Mode: s.override.mode, Number: len(s.boots)}
	wants, uri := s.override.target, s.override.uri
	if s.override.enabled == disabled {
		wants = "None"
	}
	if s.override.enabled == enabledOnce {
		s.override = override{target: "None", enabled: disabled, mode: s.override.mode}
	}
	switch {
	case (wants == "Cd" || wants == "UsbCd") && s.cd.image != "":
		boot.Source, boot.URL = BootCd, s.cd.image
	case wants == string(BootHTTP) && uri != "":
		boot.Source, boot.URL = BootHTTP, uri
	case wants == string(BootPxe):
		boot.Source = BootPxe
	case s.disk != "":
		boot.Source = BootHdd
	case s.cd.image != "":
		boot.Source, boot.URL = BootCd, s.cd.image
	}
	return boot
}

// close ends the machine's run.
func (s *System) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pending != nil {
		s.pending()
	}
	if s.runs != nil {
		s.runs()
	}
	s.machine.PowerOff(true)
}
