package rpc_test

import (
	"testing"

	"github.com/slipway-project/slipway/rpc"
)

// BenchmarkCall measures a call there and back, client included.
func BenchmarkCall(b *testing.B) {
	s := newServer(b, rpc.ConnConfig{})
	c := s.dial(b)
	r := rpc.Request{Type: "Test", Version: 2, Method: "Echo"}
	b.ReportAllocs()
	for b.Loop() {
		var got echo
		if err := c.Call(b.Context(), r, echo{"hello"}, &got); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkServe measures the server alone as far as it can: the peer writes a
// frame made once, and reads into a buffer it keeps.
func BenchmarkServe(b *testing.B) {
	s := newServer(b, rpc.ConnConfig{})
	ws := s.raw(b)
	frame := []byte(`{"request-id":1,"type":"Test","version":2,"request":"Echo","params":{"the-text":"hello"}}`)
	var buf [512]byte
	b.ReportAllocs()
	for b.Loop() {
		if err := ws.WriteMessage(1, frame); err != nil {
			b.Fatal(err)
		}
		_, r, err := ws.NextReader()
		if err != nil {
			b.Fatal(err)
		}
		for err == nil {
			_, err = r.Read(buf[:])
		}
	}
}
