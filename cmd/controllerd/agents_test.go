package main

import (
	"net"
	"testing"
)

func TestAgentsFindTheirOwnServer(t *testing.T) {
	known, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer known.Close()
	own, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	var o ownServer
	for _, want := range []string{known.Addr().String(), own.Addr().String()} {
		conn, err := o.dial(t.Context(), "tcp", known.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if got := conn.RemoteAddr().String(); got != want {
			t.Errorf("an agent connects to %s, want %s", got, want)
		}
		_ = conn.Close()
		o.listens(own.Addr().String())
	}
}
