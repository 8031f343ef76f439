package rpc

import (
	"sync"
	"time"

	"github.com/gorilla/websocket"
	"github.com/juju/errors"
)

// outbox holds what a connection has to send. Whoever finds that nobody sends
// does so, for all others too, until nothing is left: so replies that become
// ready while one is written go out with one write.
type outbox struct {
	mu      sync.Mutex
	frames  []*encoder // in the order in which they were ready
	woken   []*wait    // whose result may be there
	sending bool       // whether somebody sends

	spareFrames []*encoder // the other list of each kind, empty; of who sends
	spareWoken  []*wait
}

// maxSpare is the length above which a list is not kept for later.
const maxSpare = 64

// add puts something into the outbox. It reports whether the caller is to send.
func (o *outbox) add(e *encoder, w *wait) (send bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if e != nil {
		o.frames = append(o.frames, e)
	}
	if w != nil {
		o.woken = append(o.woken, w)
	}
	send = !o.sending
	o.sending = true
	return send
}

// take returns what there is to send, or false if nothing is left: then the caller
// no longer sends.
func (o *outbox) take() (frames []*encoder, woken []*wait, more bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	frames, woken = o.frames, o.woken
	if len(frames)+len(woken) == 0 {
		o.sending = false
		return nil, nil, false
	}
	o.frames, o.woken = o.spareFrames, o.spareWoken
	o.spareFrames, o.spareWoken = nil, nil
	return frames, woken, true
}

// giveBack takes back lists whose content has been sent, from who sends.
func (o *outbox) giveBack(frames []*encoder, woken []*wait) {
	if cap(frames) <= maxSpare {
		clear(frames)
		o.spareFrames = frames[:0]
	}
	if cap(woken) <= maxSpare {
		clear(woken)
		o.spareWoken = woken[:0]
	}
}

// wait is a request whose result is pending.
type wait struct {
	conn    *Conn
	id      uint64
	old     bool
	pending Pending
}

// await answers a request when its result is there, which it may be already.
func (c *Conn) await(id uint64, old bool, p Pending) {
	w := &wait{c, id, old, p}
	if e := w.look(); e != nil {
		c.post(e)
	}
}

// look returns the reply if the result is there. Else it returns nil, and the wait
// goes on.
func (w *wait) look() *encoder {
	result, done, err := w.poll()
	if !done {
		w.pending.Ready(w.wake)
		return nil
	}
	e := newEncoder()
	e.reply(w.id, w.old, result, err)
	return e
}

// poll is Pending.Poll, with a panic turned into an error of that call.
func (w *wait) poll() (result any, done bool, err error) {
	defer func() {
		if p := recover(); p != nil {
			result, done, err = nil, true, panicked("a pending result", p)
		}
	}()
	return w.pending.Poll()
}

// wake has somebody look at the result. It neither waits nor looks itself, since
// its caller may hold locks.
func (w *wait) wake() {
	c := w.conn
	c.handlers.Add(1) // there is this request's already
	if c.out.add(nil, w) {
		c.cfg.Crew.run(task{conn: c})
		return
	}
	c.handlers.Done()
}

// post sends a reply, which ends its request. A peer that lets too much gather is
// dropped.
func (c *Conn) post(e *encoder) {
	size := int64(e.buf.Len())
	if c.unread.Add(size) > c.cfg.MaxUnread+size { // one reply may be of any size
		c.unread.Add(-size)
		e.release()
		c.drop(ErrNotReading)
		c.ended(1)
		return
	}
	c.handlers.Add(1) // there is this request's already
	if c.out.add(e, nil) {
		c.send()
		return
	}
	c.handlers.Done()
}

// ended notes that so many requests have ended.
func (c *Conn) ended(n int) {
	c.running.Add(int64(-n))
	c.handlers.Add(-n)
}

// send sends what is in the outbox until it is empty. Its caller was told to by
// the outbox, and has added one to the handlers.
func (c *Conn) send() {
	defer c.handlers.Done()
	for {
		frames, woken, more := c.out.take()
		if !more {
			return
		}
		for _, w := range woken {
			if e := w.look(); e != nil {
				c.unread.Add(int64(e.buf.Len()))
				frames = append(frames, e)
			}
		}
		c.write(frames)
		for _, e := range frames {
			c.unread.Add(-int64(e.buf.Len()))
			e.release()
		}
		c.ended(len(frames))
		c.out.giveBack(frames, woken)
	}
}

// refuse answers a request that is not carried out. It waits until the answer has
// been written, so that the peer has to read before it can ask again.
func (c *Conn) refuse(id uint64, old bool) {
	e := newEncoder()
	defer e.release()
	e.reply(id, old, nil, &Error{Message: ErrTooManyRequests.Error(), Code: "try again"})
	c.write([]*encoder{e})
}

// write writes frames, with one write if they are short. A peer that does not take
// them in time is dropped.
func (c *Conn) write(frames []*encoder) {
	if len(frames) == 0 {
		return
	}
	c.writing.Lock()
	defer c.writing.Unlock()
	c.wire.hold()
	err := c.writeAll(frames)
	if flushed := c.wire.release(time.Now().Add(c.cfg.WriteTimeout)); err == nil {
		err = flushed
	}
	if err == nil {
		return
	}
	var timeout interface{ Timeout() bool }
	if errors.As(err, &timeout) && timeout.Timeout() {
		c.drop(ErrNotReading)
		return
	}
	c.drop(nil) // the peer has gone; the reader says so too
}

func (c *Conn) writeAll(frames []*encoder) error {
	for _, e := range frames {
		_ = c.ws.SetWriteDeadline(time.Now().Add(c.cfg.WriteTimeout)) // always nil
		if err := c.ws.WriteMessage(websocket.TextMessage, e.buf.Bytes()); err != nil {
			return errors.Trace(err)
		}
	}
	return nil
}
