//go:build e2e

package install_test

import (
	"encoding/binary"
	"io"
	"net"
	"sync"
	"testing"
)

// vlanID is the VLAN that a trunk carries.
const vlanID = 7

// trunk is a switch between the port of a virtual machine and the emulator's own network:
// frames of the VLAN come from the machine with its tag and go on without, and what comes back
// gets the tag again. Untagged frames pass as they are, as on a port with a native VLAN.
// QEMU makes both connections anew at each of its starts, the network's first.
type trunk struct {
	network, port net.Listener

	mu   sync.Mutex
	runs []*traffic // one for each start of the machine
}

// traffic is what the machine sent since a start.
type traffic struct {
	tagged, untagged int // frames of IPv4 and ARP
}

func newTrunk(t *testing.T) *trunk {
	t.Helper()
	s := &trunk{}
	for _, l := range []*net.Listener{&s.network, &s.port} {
		var err error
		if *l, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = (*l).Close() })
	}
	go s.serve()
	return s
}

// args are what QEMU needs so that its port "trunk" is behind the switch.
func (s *trunk) args() []string {
	return []string{
		"-netdev", "hubport,id=hub-in,hubid=1,netdev=n0",
		"-netdev", "socket,id=up,connect=" + s.network.Addr().String(), "-netdev", "hubport,id=hub-out,hubid=1,netdev=up",
		"-netdev", "socket,id=trunk,connect=" + s.port.Addr().String(),
	}
}

// serve takes the connections of each start.
func (s *trunk) serve() {
	for {
		network, err := s.network.Accept()
		if err != nil {
			return
		}
		port, err := s.port.Accept()
		if err != nil {
			_ = network.Close()
			return
		}
		run := &traffic{}
		s.mu.Lock()
		s.runs = append(s.runs, run)
		s.mu.Unlock()
		go s.pass(port, network, run.fromMachine)
		go s.pass(network, port, run.toMachine)
	}
}

// pass passes frames on until one side ends. QEMU has each follow its length in four bytes.
func (s *trunk) pass(from, to net.Conn, change func([]byte) []byte) {
	defer from.Close()
	defer to.Close()
	for {
		var size [4]byte
		if _, err := io.ReadFull(from, size[:]); err != nil {
			return
		}
		frame := make([]byte, binary.BigEndian.Uint32(size[:])&0xffff)
		if _, err := io.ReadFull(from, frame); err != nil {
			return
		}
		if len(frame) >= 18 {
			s.mu.Lock()
			frame = change(frame)
			s.mu.Unlock()
		}
		if _, err := to.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(frame))), frame...)); err != nil {
			return
		}
	}
}

// fromMachine takes the tag off (IEEE 802.1Q).
func (r *traffic) fromMachine(frame []byte) []byte {
	switch binary.BigEndian.Uint16(frame[12:]) {
	case 0x8100:
		if binary.BigEndian.Uint16(frame[14:])&0xfff == vlanID {
			r.tagged++
			return append(frame[:12:12], frame[16:]...)
		}
	case 0x0800, 0x0806:
		r.untagged++
	}
	return frame
}

// toMachine puts the tag on for a machine that uses it.
func (r *traffic) toMachine(frame []byte) []byte {
	if r.tagged == 0 {
		return frame
	}
	out := append(frame[:12:12], 0x81, 0, 0, vlanID)
	return append(out, frame[12:]...)
}

// sent returns what the machine sent in those of its runs in which it sent anything.
func (s *trunk) sent() []traffic {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []traffic
	for _, r := range s.runs {
		if r.tagged+r.untagged > 0 {
			out = append(out, *r)
		}
	}
	return out
}
