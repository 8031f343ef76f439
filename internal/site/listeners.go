package site

import (
	"net"
	"strconv"
	"sync"

	"github.com/juju/errors"
)

// listeners accepts the connections of several listeners as one.
type listeners struct {
	all       []net.Listener
	accepted  chan accepted
	closed    chan struct{}
	closeOnce sync.Once
	running   sync.WaitGroup
}

// accepted is what one of the listeners has to say.
type accepted struct {
	conn net.Conn
	err  error
}

// listen listens on an address, and on others as well: hosts, at the port that
// the first has got.
func listen(first string, hosts []string) (net.Listener, error) {
	main, err := net.Listen("tcp", first)
	if err != nil {
		return nil, errors.Annotatef(err, "cannot listen on %s", first)
	}
	if len(hosts) == 0 {
		return main, nil
	}
	l := &listeners{all: []net.Listener{main}, accepted: make(chan accepted), closed: make(chan struct{})}
	port := strconv.Itoa(main.Addr().(*net.TCPAddr).Port)
	for _, host := range hosts {
		address := net.JoinHostPort(host, port)
		other, err := net.Listen("tcp", address)
		if err != nil {
			_ = l.Close()
			return nil, errors.Annotatef(err, "cannot listen on %s as well", address)
		}
		l.all = append(l.all, other)
	}
	for _, each := range l.all {
		l.running.Go(func() { l.acceptFrom(each) })
	}
	return l, nil
}

// acceptFrom passes on what one listener accepts, until it is closed.
func (l *listeners) acceptFrom(one net.Listener) {
	for {
		conn, err := one.Accept()
		select {
		case l.accepted <- accepted{conn, err}:
		case <-l.closed:
			if conn != nil {
				_ = conn.Close()
			}
			return
		}
	}
}

// Accept implements net.Listener.
func (l *listeners) Accept() (net.Conn, error) {
	select {
	case a := <-l.accepted:
		return a.conn, a.err
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener. It returns when nothing is accepted any more.
func (l *listeners) Close() error {
	l.closeOnce.Do(func() { close(l.closed) })
	var first error
	for _, each := range l.all {
		if err := each.Close(); err != nil && first == nil && !errors.Is(err, net.ErrClosed) {
			first = err
		}
	}
	l.running.Wait()
	return first
}

// Addr implements net.Listener. It is the first listener's.
func (l *listeners) Addr() net.Addr { return l.all[0].Addr() }
