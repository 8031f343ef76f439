package testport_test

import (
	"errors"
	"net"
	"syscall"
	"testing"

	"github.com/slipway-project/slipway/internal/testport"
)

func TestRefusingRefusesAndIsNobodyElses(t *testing.T) {
	addr := testport.Refusing(t)
	if _, err := net.Dial("tcp", addr); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("Dial = %v, want refused", err)
	}
	if _, err := net.Listen("tcp", addr); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("Listen = %v, want that the port is taken", err)
	}
}

func TestFreeCanBeListenedOn(t *testing.T) {
	for range 2 { // a process, and the one after it
		seen := map[string]bool{}
		for _, addr := range testport.Free(t, 50) {
			if seen[addr] {
				t.Errorf("%s is given twice", addr)
			}
			seen[addr] = true
			l, err := net.Listen("tcp", addr)
			if err != nil {
				t.Fatal(err)
			}
			c, err := net.Dial("tcp", addr)
			if err != nil {
				t.Fatal(err)
			}
			c.Close()
			l.Close()
		}
	}
}
