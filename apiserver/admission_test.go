package apiserver

import (
	"crypto/tls"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/juju/errors"
)

// endless is a listener to which clients come without end.
type endless struct {
	net.Listener // nil: nothing else is called
	failure      error
}

func (e *endless) Accept() (net.Conn, error) {
	if e.failure != nil {
		return nil, e.failure
	}
	ours, theirs := net.Pipe()
	theirs.Close()
	return ours, nil
}

func (*endless) Close() error { return nil }

// accepted accepts without end, and tells of each connection.
func accepted(t *testing.T, a *admission) <-chan net.Conn {
	out := make(chan net.Conn, 100)
	go func() {
		defer close(out)
		for {
			conn, err := a.Accept()
			if err != nil {
				if !errors.Is(err, net.ErrClosed) {
					t.Errorf("cannot accept: %v", err)
				}
				return
			}
			out <- conn
		}
	}()
	return out
}

func TestNewcomersMakeRoomForOthers(t *testing.T) {
	for name, state := range map[string]http.ConnState{
		"asked": http.StateActive, "hijacked": http.StateHijacked, "gone": http.StateClosed,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := newAdmission(&endless{}, 2)
				conns := accepted(t, a)
				first, second := <-conns, <-conns
				synctest.Wait()
				if len(conns) != 0 {
					t.Fatal("a third was accepted while two had not asked for anything")
				}
				arrived(first, http.StateNew)
				synctest.Wait()
				if len(conns) != 0 {
					t.Fatal("a third was accepted although the first is still new")
				}
				arrived(first, state)
				arrived(first, http.StateClosed) // gives back nothing that it no longer has
				synctest.Wait()
				if len(conns) != 1 {
					t.Errorf("%d more were accepted when one had arrived, want 1", len(conns))
				}
				a.Close()
				arrived(second, state)
				for range conns {
				}
				time.Sleep(2 * newcomerTime) // the timers end
			})
		})
	}
}

func TestSilentNewcomersShutNobodyOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAdmission(&endless{}, 3)
		conns := accepted(t, a)
		for range 3 {
			<-conns
		}
		start := time.Now()
		<-conns
		if waited := time.Since(start); waited != newcomerTime {
			t.Errorf("the next one waited %v for silent ones, want %v", waited, newcomerTime)
		}
		a.Close()
		for range conns {
		}
		time.Sleep(2 * newcomerTime) // the timers end
	})
}

func TestAdmissionEndsAndFailsAsItsListenerDoes(t *testing.T) {
	failure := errors.New("too many open files")
	a := newAdmission(&endless{failure: failure}, 1)
	for range 3 { // a failure takes no place
		if _, err := a.Accept(); !errors.Is(err, failure) {
			t.Fatalf("Accept = %v, want the listener's failure", err)
		}
	}
	a.places <- struct{}{}
	a.Close()
	a.Close()
	if _, err := a.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Accept = %v after Close", err)
	}
}

func TestFewNewcomersComputeAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAdmission(&endless{}, 100)
		conns := accepted(t, a)
		var all []*newcomer
		for range handshakes + 3 {
			all = append(all, (<-conns).(*newcomer))
		}
		var computes atomic.Int64
		for _, n := range all {
			go func() {
				_, _ = computing(&tls.ClientHelloInfo{Conn: n}) // never fails
				computes.Add(1)
			}()
			synctest.Wait()
		}
		check := func(when string, want int) {
			t.Helper()
			synctest.Wait()
			if got := int(computes.Load()); got != want {
				t.Errorf("%s, %d have computed or do, want %d", when, got, want)
			}
		}
		check("at first", handshakes)
		var buf [1]byte
		_, _ = all[0].Read(buf[:]) // the peer has gone: it is the wait for it that counts
		_, _ = all[0].Read(buf[:])
		check("when one waits for its peer", handshakes+1)
		arrived(all[1], http.StateClosed)
		check("when one is gone", handshakes+2)
		time.Sleep(newcomerTime) // the others count no longer
		check("when all are silent", handshakes+3)
		if n := len(a.computing); n != 0 {
			t.Errorf("%d places among those who compute are taken for ever", n)
		}
		a.Close()
		for range conns {
		}
		time.Sleep(2 * newcomerTime) // the timers end
	})
}
