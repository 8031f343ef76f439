// Package testport gives tests the ports of loopback that they have to know before
// anything listens there. A port that was free a moment ago is not such a one: the
// kernel gives it to the next who asks for any.
package testport

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"syscall"
	"testing"
)

// Refusing returns an address, "127.0.0.1:port", that refuses connections until the
// test ends: a socket holds its port and does not listen.
func Refusing(t testing.TB) string {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Close(fd) })
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	name, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("127.0.0.1:%d", name.(*syscall.SockaddrInet4).Port)
}

// Free returns n addresses, "127.0.0.1:port", on which nobody listens, for processes
// that are to listen there, and again after a restart. Their ports are such as the
// kernel gives to nobody who asks for any.
func Free(t testing.TB, n int) []string {
	t.Helper()
	low, high := ephemeral()
	var addrs []string
	for range 1000 {
		port := 10000 + rand.IntN(55000)
		if port >= low && port <= high {
			continue
		}
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			continue // somebody else's
		}
		defer l.Close() // when all have been found, so that they differ
		if addrs = append(addrs, l.Addr().String()); len(addrs) == n {
			return addrs
		}
	}
	t.Fatalf("of %d free ports only %d were found", n, len(addrs))
	return nil
}

// ephemeral returns the first and the last port that the kernel gives to who asks for
// any; Linux's default where it does not say.
func ephemeral() (low, high int) {
	text, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if err == nil {
		_, err = fmt.Sscan(string(text), &low, &high)
	}
	if err != nil {
		return 32768, 60999
	}
	return low, high
}
