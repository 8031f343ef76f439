package apiserver

import (
	"crypto/tls"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/juju/errors"
)

// The limits on connections that have not asked for anything yet.
const (
	newcomers    = 256         // that are admitted at once; the others wait to be accepted
	newcomerTime = time.Second // that one counts for at most, so that silent ones shut nobody out
)

// admission is a listener that accepts no more connections while many are still
// shaking hands. When thousands of agents come back at the same moment, each is
// then served soon after it was accepted; all at once, all would take longer
// than any of them is given. Those who wait do so in the kernel.
type admission struct {
	net.Listener
	places chan struct{}
	once   sync.Once
	closed chan struct{}
}

func newAdmission(l net.Listener, places int) *admission {
	return &admission{Listener: l, places: make(chan struct{}, places), closed: make(chan struct{})}
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
	n := &newcomer{Conn: conn, leave: sync.OnceFunc(func() { <-a.places })}
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
	leave func() // gives the place back
	timer *time.Timer
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
