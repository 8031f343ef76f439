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
	seen := map[string]bool{}
	for range 12 { // so many that some would be given twice if nobody held them
		for _, addr := range testport.Free(t, 50) {
			if seen[addr] {
				t.Fatalf("%s is given twice", addr)
			}
			seen[addr] = true
		}
	}
	for addr := range seen {
		for range 2 { // a process, and the one after it
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
