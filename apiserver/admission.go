package apiserver

import (
	"crypto/tls"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/juju/errors"
)

// The limits on connections that have not asked for anything yet.
const (
	newcomers    = 32                     // that are admitted at once; the others wait to be accepted
	handshakes   = 2                      // for which keys are computed at once
	newcomerTime = 500 * time.Millisecond // that one counts for at most, so that silent ones shut nobody out
)

// admission is a listener that accepts no more connections while many are still
// shaking hands. When thousands of agents come back at the same moment, each is
// then served soon after it was accepted; all at once, all would take longer
// than any of them is given. Those who wait do so in the kernel.
//
// They are few, because each that is admitted is soon a goroutine that wants its turn
// beside the calls of people, and turns are taken in order. Many enough: a place is
// needed for one round trip, so that 10,000 agents that are 100 ms away are in within
// half a minute.
//
// Of those who shake hands only a few compute keys at a time, which is most of the
// work: so whoever is connected already, people first of all, does not wait for the
// keys of all newcomers.
type admission struct {
	net.Listener
	places    chan struct{}
	computing chan struct{}
	once      sync.Once
	closed    chan struct{}
}

func newAdmission(l net.Listener, places int) *admission {
	return &admission{
		Listener: l, places: make(chan struct{}, places), computing: make(chan struct{}, handshakes), closed: make(chan struct{}),
	}
}

// Accept implements net.Listener.
func (a *admission) Accept() (net.Conn, error) {
	select {
	case a.places <- struct{}{}:
	case <-a.closed:
		return nil, errors.Trace(net.ErrClosed)
	}
	conn, err := a.Listener.Accept()
	if err != nil {
		<-a.places
		return nil, err // as it is: the HTTP server asks whether it may pass
	}
	n := &newcomer{Conn: conn, admission: a}
	n.timer = time.AfterFunc(newcomerTime, n.leave)
	return n, nil
}

// Close implements net.Listener.
func (a *admission) Close() error {
	a.once.Do(func() { close(a.closed) })
	return a.Listener.Close()
}

// newcomer is an accepted connection.
type newcomer struct {
	net.Conn
	admission *admission
	timer     *time.Timer

	mu        sync.Mutex
	left      bool        // whether the place was given back
	computing atomic.Bool // whether it has a place among those who compute
}

// leave gives the place back, and the one among those who compute.
func (n *newcomer) leave() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.left {
		return
	}
	n.left = true
	<-n.admission.places
	if n.computing.Swap(false) {
		<-n.admission.computing
	}
}

// compute waits for a place among those who compute keys, which the newcomer has until
// it waits for its peer.
func (n *newcomer) compute() {
	n.admission.computing <- struct{}{} // soon: who has a place waits for nothing
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.left || n.computing.Swap(true) {
		<-n.admission.computing // one that counts no longer, or has one
	}
}

// Read implements net.Conn. Who reads has nothing to compute.
func (n *newcomer) Read(p []byte) (int, error) {
	if n.computing.Load() && n.computing.Swap(false) {
		<-n.admission.computing
	}
	return n.Conn.Read(p)
}

// computing is called when a client has said hello, before its keys are computed.
func computing(hello *tls.ClientHelloInfo) (*tls.Config, error) {
	if n, ok := hello.Conn.(*newcomer); ok {
		n.compute()
	}
	return nil, nil // the server's own
}

// arrived is told of the state of the server's connections. One that has
// asked for something, or is gone, gives its place back.
func arrived(conn net.Conn, s http.ConnState) {
	if s == http.StateNew {
		return
	}
	if secure, ok := conn.(*tls.Conn); ok {
		conn = secure.NetConn()
	}
	if n, ok := conn.(*newcomer); ok {
		n.timer.Stop()
		n.leave()
	}
}
