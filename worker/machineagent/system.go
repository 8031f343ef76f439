package machineagent

import (
	"bufio"
	"context"
	"net"
	"os"
	"runtime"
	"strconv"
	"strings"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/core/arch"
	"github.com/slipway-project/slipway/core/hardware"
	"github.com/slipway-project/slipway/core/network"
)

// System is the machine that an agent runs on.
type System interface {
	// Addresses returns where the machine can be reached, the best first.
	Addresses() ([]network.Address, error)
	// Changes tells when addresses may have changed. The channel is closed once
	// ctx is done, or earlier if nothing can be told any more.
	Changes(ctx context.Context) <-chan struct{}
	// Hardware returns what the machine is like, as far as that is known.
	Hardware() hardware.Characteristics
	// Remove removes a file. One that is not there is fine.
	Remove(path string) error
}

// ThisMachine is the machine that the process runs on.
type ThisMachine struct{}

var _ System = ThisMachine{}

// Addresses implements System. Loopback and link-local addresses lead nowhere
// and are left out.
func (ThisMachine) Addresses() ([]network.Address, error) {
	found, err := net.InterfaceAddrs()
	if err != nil {
		return nil, errors.Trace(err)
	}
	out := []network.Address{}
	for _, a := range found {
		if n, ok := a.(*net.IPNet); ok && n.IP.IsGlobalUnicast() {
			out = append(out, network.NewAddress(n.IP.String()))
		}
	}
	network.Sort(out)
	return out, nil
}

// Hardware implements System.
func (ThisMachine) Hardware() hardware.Characteristics {
	cores := uint64(runtime.NumCPU())
	c := hardware.Characteristics{CPUCores: &cores}
	name := map[string]string{"386": arch.I386, "arm": arch.ARMHF, "ppc64le": arch.PPC64EL}[runtime.GOARCH]
	if name == "" {
		name = runtime.GOARCH
	}
	if arch.Valid(name) {
		c.Arch = &name
	}
	if text, err := os.ReadFile("/proc/meminfo"); err == nil {
		c.Mem = totalMemory(string(text))
	}
	return c
}

// totalMemory reads the line "MemTotal: N kB" of /proc/meminfo, in MiB; nil if
// it is not there. See proc(5).
func totalMemory(text string) *uint64 {
	for lines := bufio.NewScanner(strings.NewReader(text)); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) < 2 || fields[0] != "MemTotal:" {
			continue
		}
		if kib, err := strconv.ParseUint(fields[1], 10, 64); err == nil {
			mib := kib >> 10
			return &mib
		}
	}
	return nil
}

// Remove implements System.
func (ThisMachine) Remove(path string) error {
	err := os.Remove(path)
	if os.IsNotExist(err) {
		return nil
	}
	return errors.Trace(err)
}
