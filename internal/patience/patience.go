// Package patience keeps HTTP servers from being held up by clients that are slow on
// purpose.
package patience

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/juju/errors"
)

// Patience bounds how long a request, once its header is there, can hold a connection by
// being slow. Without it whoever sends a body byte by byte, even to a route that reads none, or
// takes no answer, holds one for ever. Websockets have limits of their own. No field may be zero.
type Patience struct {
	Body   time.Duration // for the body to come, but for what its length adds
	Rate   int64         // bytes of a body that add a second
	Answer time.Duration // for the client to take a piece of the answer
}

// Usual is the patience of servers. At its rate nothing is slow but on purpose.
func Usual() Patience {
	return Patience{Body: 30 * time.Second, Rate: 8 << 10, Answer: 2 * time.Minute}
}

// piece is how much of an answer has to be taken within the time for one, in bytes.
const piece = 64 << 10

// Around returns a handler that serves as next does, to clients that are not too slow.
func (p Patience) Around(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := http.NewResponseController(w)
		out := &unhurried{ResponseWriter: w, control: c, answer: p.Answer}
		out.extend()
		if r.Body != nil && r.Body != http.NoBody {
			now := time.Now()
			_ = c.SetReadDeadline(now.Add(p.Body)) // a test's recorder has none
			r.Body = &arriving{ReadCloser: r.Body, control: c, until: now.Add(p.Body), rate: p.Rate}
		}
		next.ServeHTTP(out, r)
	})
}

// arriving is the body of a request.
type arriving struct {
	io.ReadCloser
	control *http.ResponseController
	until   time.Time // when it has to be there, if nothing more comes
	rate    int64
	got     int64 // of the second that is not added yet, in bytes
}

// Read implements io.Reader.
func (a *arriving) Read(b []byte) (int, error) {
	n, err := a.ReadCloser.Read(b)
	if errors.Is(err, io.EOF) {
		// The answer may take longer; that its client goes is noticed by reading.
		_ = a.control.SetReadDeadline(time.Time{})
		return n, err
	}
	if a.got += int64(n); a.got >= a.rate {
		a.until = a.until.Add(time.Duration(a.got/a.rate) * time.Second)
		a.got %= a.rate
		_ = a.control.SetReadDeadline(a.until)
	}
	return n, err
}

// unhurried is an answer, of which each piece has its time.
type unhurried struct {
	http.ResponseWriter
	control *http.ResponseController
	answer  time.Duration
	until   time.Time
}

// extend gives the next piece its time. What is hardly longer than there is anyhow is not worth
// a deadline.
func (u *unhurried) extend() {
	if until := time.Now().Add(u.answer); until.Sub(u.until) > u.answer/8 {
		u.until = until
		_ = u.control.SetWriteDeadline(until)
	}
}

// WriteHeader implements http.ResponseWriter.
func (u *unhurried) WriteHeader(code int) {
	u.extend()
	u.ResponseWriter.WriteHeader(code)
}

// Write implements io.Writer.
func (u *unhurried) Write(b []byte) (int, error) {
	done := 0
	for {
		u.extend()
		n, err := u.ResponseWriter.Write(b[done:min(len(b), done+piece)])
		if done += n; err != nil || done == len(b) {
			return done, err // as it is: net/http compares it
		}
	}
}

// Hijack implements http.Hijacker, which websockets ask for. It takes all deadlines off.
func (u *unhurried) Hijack() (net.Conn, *bufio.ReadWriter, error) { return u.control.Hijack() }

// Unwrap lets http.ResponseController find what it can do.
func (u *unhurried) Unwrap() http.ResponseWriter { return u.ResponseWriter }
