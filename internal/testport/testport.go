// Package testport gives tests the ports of loopback that they have to know before
// anything listens there. A port that was free a moment ago is not such a one: the
// kernel gives it to the next who asks for any.
package testport

import (
	"fmt"
	"math/rand/v2"
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
// kernel gives to nobody who asks for any, and until the test ends no other call of
// Free returns them, in this process or another.
func Free(t testing.TB, n int) []string {
	t.Helper()
	low, high := ephemeral()
	var addrs []string
	for range 1000 {
		port := 10000 + rand.IntN(55000)
		if port >= low && port <= high {
			continue
		}
		if !hold(t, port) {
			continue // somebody else's
		}
		if addrs = append(addrs, fmt.Sprintf("127.0.0.1:%d", port)); len(addrs) == n {
			return addrs
		}
	}
	t.Fatalf("of %d free ports only %d were found", n, len(addrs))
	return nil
}

// hold keeps a port from other calls of hold until the test ends, and from nobody who
// listens there as servers do, with SO_REUSEADDR. It reports whether the port was free.
func hold(t testing.TB, port int) bool {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Close(fd) })
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return false
	}
	// Those who come later have to say the same of theirs, which hold does not before it binds.
	if err := syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1); err != nil {
		t.Fatal(err)
	}
	return true
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
