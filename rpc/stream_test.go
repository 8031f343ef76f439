package rpc_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/slipway-project/slipway/rpc"
)

// streams serves streams, each with a function.
func streams(t *testing.T, each func(*rpc.Stream)) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s, err := rpc.AcceptStream(w, r)
		if err != nil {
			return // it has been answered
		}
		defer s.Close()
		each(s)
	}))
	t.Cleanup(server.Close)
	return "ws" + strings.TrimPrefix(server.URL, "http")
}

type number struct {
	N int `json:"n"`
}

func TestStreamCarriesValuesBothWays(t *testing.T) {
	ended := make(chan error, 1)
	url := streams(t, func(s *rpc.Stream) {
		for {
			var v number
			if err := s.Receive(&v); err != nil {
				ended <- err
				return
			}
			v.N *= 2
			if err := s.Send(v); err != nil {
				t.Error(err)
			}
		}
	})
	s, err := rpc.DialStream(t.Context(), rpc.DialConfig{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		var got number
		if err := s.Send(number{i}); err != nil {
			t.Fatal(err)
		}
		if err := s.Receive(&got); err != nil || got.N != 2*i {
			t.Errorf("received %d, %v, want %d", got.N, err, 2*i)
		}
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if err := <-ended; err != io.EOF {
		t.Errorf("the server's Receive = %v, want EOF", err)
	}
	if err := s.Receive(nil); err != io.EOF {
		t.Errorf("Receive after Close = %v, want EOF", err)
	}
}

func TestStreamIsDrainedUntilItsEnd(t *testing.T) {
	gone := make(chan struct{})
	url := streams(t, func(s *rpc.Stream) {
		s.Drain()
		close(gone)
	})
	s, err := rpc.DialStream(t.Context(), rpc.DialConfig{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Send(number{1}); err != nil {
		t.Fatal(err)
	}
	_ = s.Close()
	<-gone
}

func TestStreamBounds(t *testing.T) {
	failed := make(chan error, 1)
	url := streams(t, func(s *rpc.Stream) {
		var v any
		failed <- s.Receive(&v)
	})
	s, err := rpc.DialStream(t.Context(), rpc.DialConfig{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	_ = s.Send(strings.Repeat("x", 2<<20)) // may fail as soon as the server has had enough
	if err := <-failed; err == nil || err == io.EOF {
		t.Errorf("Receive of too much = %v, want an error", err)
	}
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	_, err = rpc.DialStream(t.Context(), rpc.DialConfig{URL: "ws" + strings.TrimPrefix(server.URL, "http")})
	if err == nil || !strings.Contains(err.Error(), "404") {
		t.Errorf("DialStream of something else = %v, want the status", err)
	}
}
