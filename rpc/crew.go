package rpc

import (
	"sync"
	"sync/atomic"
)

// maxIdle is how many goroutines a crew keeps that have nothing to do.
const maxIdle = 64

// Crew runs the work of many connections, each piece in a goroutine of its own, which
// then takes the next piece if there is one: so most requests find a goroutine
// whose stack has grown already. NewCrew makes one.
type Crew struct {
	tasks  chan task
	idle   atomic.Int64
	all    sync.WaitGroup
	closed chan struct{}
}

// task is a request to handle; one without a root is to send what there is.
type task struct {
	conn *Conn
	root Root
	request
}

func (t *task) run() {
	if t.root == nil {
		t.conn.send()
		return
	}
	t.conn.handle(t.root, t.request)
}

// NewCrew returns a crew, which Close ends.
func NewCrew() *Crew { return &Crew{tasks: make(chan task), closed: make(chan struct{})} }

// Close ends the crew and waits for it. All connections that it works for must
// have ended.
func (c *Crew) Close() {
	close(c.closed)
	c.all.Wait()
}

// run has a task done. It does not wait. A nil crew takes a new goroutine.
func (c *Crew) run(t task) {
	if c == nil {
		go t.run() // the connection waits for it
		return
	}
	select {
	case c.tasks <- t: // somebody waits for one
	default:
		c.all.Add(1)
		go c.work(t)
	}
}

// work does one task after another.
func (c *Crew) work(t task) {
	defer c.all.Done()
	for {
		t.run()
		t = task{} // an idle goroutine holds on to nothing
		if c.idle.Add(1) > maxIdle {
			c.idle.Add(-1)
			return
		}
		select {
		case t = <-c.tasks:
			c.idle.Add(-1)
		case <-c.closed:
			return
		}
	}
}
