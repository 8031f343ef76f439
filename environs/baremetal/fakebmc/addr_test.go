package fakebmc_test

import (
	"net"
	"testing"
)

// tcpAddr returns s as an address.
func tcpAddr(t *testing.T, s string) *net.TCPAddr {
	t.Helper()
	a, err := net.ResolveTCPAddr("tcp", s)
	if err != nil {
		t.Fatal(err)
	}
	return a
}
