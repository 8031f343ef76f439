package simulated

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"math/rand/v2"

	"github.com/slipway-project/slipway/environs/baremetal/bmc"
	metal3v1alpha1 "github.com/slipway-project/slipway/environs/baremetal/metal3/v1alpha1"
)

// Fault is what goes wrong with one operation on one machine.
type Fault struct {
	// Times is how many tries in a row meet it; 0: no fault; Always: every one.
	Times int
	// Verdict is whether the operation ends with an ErrorMessage; otherwise the
	// call returns an error, as if the network had failed.
	Verdict bool
}

// Always as a Fault's Times is a fault that does not go away.
const Always = 1 << 30

// Lasting reports whether no number of tries helps.
func (f Fault) Lasting() bool { return f.Times >= Always }

// random returns a source of numbers that follow from the seed, the machine and
// the purpose alone.
func (r *Rack) random(key, purpose string) *rand.Rand {
	h := fnv.New64a()
	var seed [8]byte
	binary.LittleEndian.PutUint64(seed[:], r.options.Seed)
	_, _ = h.Write(seed[:])
	_, _ = h.Write([]byte(key + "\x00" + purpose))
	return rand.New(rand.NewPCG(h.Sum64(), r.options.Seed))
}

// Fault returns what will go wrong when op is done to the machine at address.
// Half of the faults are of the network and pass after one to three tries, a
// third are verdicts that pass after one or two, and the rest are verdicts that
// never pass. Removal, adoption and deprovisioning meet only the first sort, so
// that every machine can be got rid of.
func (r *Rack) Fault(address bmc.Address, op Op) Fault {
	rnd := r.random(address.Key(), "fault "+string(op))
	if rnd.Float64() >= r.options.FaultRate {
		return Fault{}
	}
	kind, passing := rnd.IntN(6), Fault{Times: 1 + rnd.IntN(3)}
	switch {
	case kind < 3 || op == OpDelete || op == OpDeprovision || op == OpAdopt:
		return passing
	case kind < 5:
		return Fault{Times: 1 + passing.Times%2, Verdict: true}
	default:
		return Fault{Times: Always, Verdict: true}
	}
}

// Hardware returns what the machine at address is made of.
func (r *Rack) Hardware(address bmc.Address) *metal3v1alpha1.HardwareDetails {
	rnd := r.random(address.Key(), "hardware")
	d := &metal3v1alpha1.HardwareDetails{
		SystemVendor: metal3v1alpha1.HardwareSystemVendor{Manufacturer: "Simulated", ProductName: "Rack machine", SerialNumber: fmt.Sprintf("SIM%08X", rnd.Uint32())},
		Firmware:     metal3v1alpha1.Firmware{BIOS: metal3v1alpha1.BIOS{Date: "2026-01-01", Vendor: "Simulated", Version: "1.0"}},
		RAMMebibytes: 16384 << rnd.IntN(4),
		CPU:          metal3v1alpha1.CPU{Arch: "x86_64", Model: "Simulated CPU", ClockMegahertz: 2400, Count: 4 << rnd.IntN(4)},
		Hostname:     address.Host,
	}
	for i := range 2 {
		mac := rnd.Uint32()
		d.NIC = append(d.NIC, metal3v1alpha1.NIC{
			Name: fmt.Sprintf("eth%d", i), Model: "0x1af4 0x1000", SpeedGbps: 10, PXE: i == 0,
			MAC: fmt.Sprintf("02:%02x:%02x:%02x:%02x:%02x", i, byte(mac>>24), byte(mac>>16), byte(mac>>8), byte(mac)),
		})
	}
	for i := range 1 + rnd.IntN(3) {
		d.Storage = append(d.Storage, metal3v1alpha1.Storage{
			Name: "/dev/sd" + string(rune('a'+i)), SizeBytes: 100 << (30 + rnd.IntN(3)), Rotational: i > 0,
			Vendor: "Simulated", Model: "Disk", SerialNumber: fmt.Sprintf("D%08X", rnd.Uint32()), HCTL: fmt.Sprintf("0:0:%d:0", i),
		})
	}
	return d
}
