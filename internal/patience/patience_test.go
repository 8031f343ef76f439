package patience_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slipway-project/slipway/internal/patience"
)

// hurried is a patience that is at an end soon, for tests that wait for that.
var hurried = patience.Patience{Body: 300 * time.Millisecond, Rate: 1 << 20, Answer: 300 * time.Millisecond}

// piece is how much of an answer has its own time.
const piece = 64 << 10

// serveWith serves a handler, and returns a connection to it.
func serveWith(t *testing.T, p patience.Patience, h http.HandlerFunc) net.Conn {
	t.Helper()
	server := httptest.NewServer(p.Around(h))
	t.Cleanup(server.Close)
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	return conn
}

func TestABodyThatNeverEndsHoldsNoConnection(t *testing.T) {
	unread := func(w http.ResponseWriter, _ *http.Request) { http.NotFound(w, nil) }
	whole := func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.WriteHeader(http.StatusOK)
	}
	for _, test := range []struct {
		name, header, drip string
		handle             http.HandlerFunc
	}{
		{"unread", "Content-Length: 100000", "x", unread},
		{"read", "Content-Length: 100000", "x", whole},
		{"chunks unread", "Transfer-Encoding: chunked", "1\r\nx\r\n", unread},
		{"chunks read", "Transfer-Encoding: chunked", "1\r\nx\r\n", whole},
		{"a long one that is refused", "Content-Length: 100000000000", "x", unread},
	} {
		t.Run(test.name, func(t *testing.T) {
			conn := serveWith(t, hurried, test.handle)
			if _, err := fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: x\r\n%s\r\n\r\n", test.header); err != nil {
				t.Fatal(err)
			}
			over := make(chan struct{})
			go func() {
				defer close(over)
				_, _ = io.Copy(io.Discard, conn) // until the server ends it
			}()
			tick := time.NewTicker(20 * time.Millisecond)
			defer tick.Stop()
			for began := time.Now(); ; {
				select {
				case <-over:
					if time.Since(began) > 50*time.Second {
						t.Error("it was the client's own deadline that ended the connection")
					}
					return
				case <-tick.C:
					_, _ = io.WriteString(conn, test.drip) // fails once the server has ended it
				}
			}
		})
	}
}

func TestAnAnswerThatNobodyTakesEnds(t *testing.T) {
	failed := make(chan error, 1)
	conn := serveWith(t, hurried, func(w http.ResponseWriter, _ *http.Request) {
		_, err := w.Write(make([]byte, 256<<20))
		failed <- err
	})
	if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-failed:
		if err == nil {
			t.Error("all was taken, by whom?")
		}
	case <-time.After(time.Minute):
		t.Fatal("the server still waits for the client")
	}
}

// Who is slow, but not on purpose, is served: also with an answer that comes later than a
// body has time, and with one of several pieces.
func TestThoseWhoTakeTheirTimeAreServed(t *testing.T) {
	conn := serveWith(t, patience.Patience{Body: time.Minute, Rate: 1, Answer: time.Minute}, func(w http.ResponseWriter, r *http.Request) {
		n, err := io.Copy(io.Discard, r.Body)
		fmt.Fprintf(w, "%d %v\n%s", n, err, strings.Repeat("x", 3*piece))
	})
	const length = 100_000
	if _, err := fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", length, strings.Repeat("y", length)); err != nil {
		t.Fatal(err)
	}
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if first, rest, _ := strings.Cut(string(text), "\n"); err != nil || first != "100000 <nil>" || len(rest) != 3*piece {
		t.Errorf("answer = %q and %d bytes, %v", first, len(rest), err)
	}
}

// deadlines notes which ones are set.
type deadlines struct {
	http.ResponseWriter
	read, write time.Time
}

func (d *deadlines) SetReadDeadline(t time.Time) error  { d.read = t; return nil }
func (d *deadlines) SetWriteDeadline(t time.Time) error { d.write = t; return nil }

func TestTheTimeForABodyGrowsWithIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		usual := patience.Usual()
		d := &deadlines{ResponseWriter: httptest.NewRecorder()}
		began := time.Now()
		usual.Around(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			check := func(what string, got time.Time, want time.Duration) {
				t.Helper()
				if got.Sub(began) != want {
					t.Errorf("%s: until %v after the beginning, want %v", what, got.Sub(began), want)
				}
			}
			check("at first", d.read, usual.Body)
			buf := make([]byte, usual.Rate/2)
			for n, want := range []time.Duration{0, time.Second, time.Second, 2 * time.Second} {
				if _, err := io.ReadFull(r.Body, buf); err != nil {
					t.Fatal(err)
				}
				check(fmt.Sprintf("after %d halves of a second", n+1), d.read, usual.Body+want)
			}
			if n, err := r.Body.Read(buf); n != 0 || err == nil || !d.read.IsZero() {
				t.Errorf("at the end: %d, %v, until %v, want no deadline", n, err, d.read)
			}
			time.Sleep(time.Hour)
			w.WriteHeader(http.StatusNoContent)
			check("the answer", d.write, time.Hour+usual.Answer)
		})).ServeHTTP(d, httptest.NewRequest("POST", "/", strings.NewReader(strings.Repeat("x", int(usual.Rate)*2))))
	})
}
