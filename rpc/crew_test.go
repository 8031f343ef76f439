package rpc_test

import (
	"testing"

	"github.com/slipway-project/slipway/rpc"
)

func TestCrewWorksForManyConnections(t *testing.T) {
	crew := rpc.NewCrew()
	t.Cleanup(crew.Close) // after the server's
	s := newServer(t, rpc.ConnConfig{Crew: crew})
	for range 3 {
		c := s.dial(t)
		for range 10 {
			var got echo
			if err := c.Call(t.Context(), rpc.Request{Type: "Test", Version: 2, Method: "Echo"}, echo{"a"}, &got); err != nil || got.Text != "a" {
				t.Fatalf("Echo = %v, %v", got, err)
			}
		}
		if err := c.Call(t.Context(), rpc.Request{Type: "Test", Method: "Panic"}, nil, nil); err == nil {
			t.Error("a call that panicked succeeded")
		}
	}
}

func TestCrewRunsCallsConcurrently(t *testing.T) {
	const n = 200 // more than a crew keeps
	crew := rpc.NewCrew()
	t.Cleanup(crew.Close)
	s := newServer(t, rpc.ConnConfig{Crew: crew, MaxRequests: n})
	c := s.dial(t)
	done := make(chan error, n)
	for range n {
		go func() { done <- c.Call(t.Context(), rpc.Request{Type: "Test", Method: "Block"}, nil, nil) }()
	}
	for range n {
		await(t, "call", s.started)
	}
	s.once.Do(func() { close(s.stop) })
	for range n {
		if err := <-done; err != nil {
			t.Errorf("Block = %v", err)
		}
	}
}
