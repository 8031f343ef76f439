package site

import (
	"errors"
	"io"
	"net"
	"slices"
	"sync"
	"testing"

	"go.uber.org/goleak"
)

// All of 127.0.0.0/8 is this machine's.
const another = "127.0.0.2"

func TestListenersAcceptAsOne(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	l, err := listen("127.0.0.1:0", []string{another})
	if err != nil {
		t.Fatal(err)
	}
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	var clients sync.WaitGroup
	var mu sync.Mutex
	var got []string
	for _, host := range []string{another, "127.0.0.1"} {
		clients.Go(func() {
			conn, err := net.Dial("tcp", net.JoinHostPort(host, port))
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			text, err := io.ReadAll(conn)
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			got = append(got, string(text))
		})
	}
	for range 2 {
		conn, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		host, _, _ := net.SplitHostPort(conn.LocalAddr().String())
		_, _ = io.WriteString(conn, host) // what the client reads tells
		_ = conn.Close()
	}
	clients.Wait()
	slices.Sort(got)
	if want := []string{"127.0.0.1", another}; !slices.Equal(got, want) {
		t.Errorf("connections came in at %q, want %q", got, want)
	}
	if err := l.Close(); err != nil {
		t.Errorf("Close() = %v", err)
	}
	if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Accept() when closed = %v", err)
	}
	if err := l.Close(); err != nil {
		t.Errorf("Close() again = %v", err)
	}
}

func TestListenRefusesAddressesThatAreNotHere(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	for _, c := range []struct {
		first string
		also  []string
	}{
		{"203.0.113.1:0", nil}, {"127.0.0.1:0", []string{"203.0.113.1"}}, // of RFC 5737: nobody's
	} {
		if l, err := listen(c.first, c.also); err == nil {
			t.Errorf("listen(%q, %q) = %v, want an error", c.first, c.also, l.Addr())
		}
	}
}
