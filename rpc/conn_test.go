package rpc_test

import (
	"bufio"
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorilla/websocket"
	"github.com/juju/errors"
	"go.uber.org/goleak"

	"github.com/slipway-project/slipway/internal/memnet"
	"github.com/slipway-project/slipway/rpc"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds every wait of these tests.
const patience = time.Minute

type echo struct {
	Text string `json:"the-text"`
}

// service is what the test server offers.
type service struct {
	started chan struct{} // one value for each Block that has begun
	stop    chan struct{} // closed by Kill
	once    sync.Once
}

func newService() *service {
	return &service{started: make(chan struct{}, 10000), stop: make(chan struct{})}
}

func (s *service) Nothing() error            { return nil }
func (s *service) Echo(p echo) (echo, error) { return p, nil }
func (s *service) Fail() error               { return errors.New("it broke") }
func (s *service) Panic() error              { panic("on purpose") }
func (s *service) FailWithCode() (echo, error) {
	return echo{}, &rpc.Error{Message: `no "such" thing`, Code: "not found"}
}

// Block waits for Kill, or for the connection's context.
func (s *service) Block(ctx context.Context) (echo, error) {
	s.started <- struct{}{}
	select {
	case <-s.stop:
		return echo{Text: "stopped"}, nil
	case <-ctx.Done():
		return echo{}, errors.Trace(ctx.Err())
	}
}

// Hang waits for the connection's context, and takes no notice of Kill.
func (s *service) Hang(ctx context.Context) error {
	s.started <- struct{}{}
	<-ctx.Done()
	return errors.Trace(ctx.Err())
}

// Big answers with a mebibyte.
func (s *service) Big() (echo, error) {
	s.started <- struct{}{}
	return echo{Text: strings.Repeat("x", 1<<20)}, nil
}

var methods = func() *rpc.Methods {
	m, err := rpc.MethodsOf(reflect.TypeFor[*service]())
	if err != nil {
		panic(err)
	}
	return m
}()

// root makes a service an rpc.Root.
type root struct{ s *service }

func (r root) Kill() { r.s.once.Do(func() { close(r.s.stop) }) }

func (r root) Call(ctx context.Context, q rpc.Request, params []byte) (any, error) {
	m, ok := methods.Get(q.Method)
	if !ok {
		return nil, errors.NotFoundf("method %s", q.Method)
	}
	p, err := m.Decode(params)
	if err != nil {
		return nil, err
	}
	return m.Call(ctx, reflect.ValueOf(r.s), p)
}

// server is a test server whose every connection is served by one service.
type server struct {
	*service
	url   string
	conns chan *rpc.Conn
}

func newServer(t testing.TB, cfg rpc.ConnConfig) *server {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return newServerAt(t, l, cfg)
}

// newServerAt is newServer on a listener, which it closes.
func newServerAt(t testing.TB, l net.Listener, cfg rpc.ConnConfig) *server {
	t.Helper()
	s := &server{service: newService(), conns: make(chan *rpc.Conn, 100)}
	var accepting sync.WaitGroup // the HTTP server does not wait for connections that it has given away
	h := &httptest.Server{Listener: l, Config: &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		accepting.Add(1)
		defer accepting.Done()
		if r.URL.Path != "/" {
			http.NotFound(w, r)
			return
		}
		c, err := rpc.Accept(w, r, cfg)
		if err != nil {
			t.Error(err)
			return
		}
		c.Start(root{s.service})
		s.conns <- c
	})}}
	h.Start()
	t.Cleanup(func() {
		h.Close()
		accepting.Wait()
		for {
			select {
			case c := <-s.conns:
				c.Kill()
				_ = c.Wait()
			default:
				return
			}
		}
	})
	s.url = "ws" + strings.TrimPrefix(h.URL, "http")
	return s
}

// raw opens a websocket on which a test reads and writes frames itself.
func (s *server) raw(t testing.TB) *websocket.Conn {
	t.Helper()
	ws, _, err := websocket.DefaultDialer.Dial(s.url, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ws.Close() })
	if err := ws.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	return ws
}

func (s *server) dial(t testing.TB) *rpc.Client {
	t.Helper()
	c, err := rpc.Dial(t.Context(), rpc.DialConfig{URL: s.url})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func write(t testing.TB, ws *websocket.Conn, frame string) {
	t.Helper()
	if err := ws.WriteMessage(websocket.TextMessage, []byte(frame)); err != nil {
		t.Fatal(err)
	}
}

func read(t testing.TB, ws *websocket.Conn) string {
	t.Helper()
	_, frame, err := ws.ReadMessage()
	if err != nil {
		t.Fatal(err)
	}
	return string(frame)
}

func await[T any](t testing.TB, what string, c <-chan T) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(patience):
		t.Fatalf("%s: nothing after %v", what, patience)
	}
}

// Cases: server/BadBody
func TestEnvelopes(t *testing.T) {
	ws := newServer(t, rpc.ConnConfig{}).raw(t)
	f, err := os.Open("testdata/envelopes.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		switch line := lines.Text(); line[:2] {
		case "> ":
			write(t, ws, line[2:])
		case "< ":
			if got := read(t, ws); got != line[2:] {
				t.Errorf("line %d: got %s\nwant %s", n, got, line[2:])
			}
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
}

func TestMalformedFrameEndsTheConnection(t *testing.T) {
	s := newServer(t, rpc.ConnConfig{})
	ws := s.raw(t)
	write(t, ws, `{"request-id":1,`)
	_, _, err := ws.ReadMessage()
	if !websocket.IsCloseError(err, websocket.CloseInvalidFramePayloadData) {
		t.Errorf("read after a malformed frame = %v, want the connection closed for it", err)
	}
	c := <-s.conns
	if err := c.Wait(); err == nil || !strings.Contains(err.Error(), "malformed") {
		t.Errorf("Wait() = %v, want malformed", err)
	}
}

func TestOversizedFrameEndsTheConnection(t *testing.T) {
	s := newServer(t, rpc.ConnConfig{})
	ws := s.raw(t)
	fits := `{"request-id":1,"type":"Test","request":"Nothing","x":"` + strings.Repeat("y", 4<<20-100) + `"}`
	write(t, ws, fits)
	if got := read(t, ws); got != `{"request-id":1,"response":{}}` {
		t.Errorf("answer to a frame of %d bytes = %s", len(fits), got)
	}
	_ = ws.WriteMessage(websocket.TextMessage, []byte(fits+strings.Repeat(" ", 200)))
	if _, _, err := ws.ReadMessage(); err == nil {
		t.Error("a frame over 4 MiB was answered, want the connection closed")
	}
	if err := (<-s.conns).Wait(); err == nil {
		t.Error("Wait() = nil, want the reason")
	}
}

func TestMaxFrameFollowsTheConnection(t *testing.T) {
	s := newServer(t, rpc.ConnConfig{})
	ws := s.raw(t)
	const small = 1000
	request := `{"request-id":1,"type":"Test","request":"Nothing","x":"` + strings.Repeat("y", 2*small) + `"}`
	write(t, ws, `{"request-id":1,"type":"Test","request":"Nothing"}`)
	read(t, ws)
	c := <-s.conns
	c.SetMaxFrame(small)
	c.SetMaxFrame(0) // the reader waits already
	write(t, ws, request)
	if got := read(t, ws); got != `{"request-id":1,"response":{}}` {
		t.Errorf("answer to a frame within the configured limit = %s", got)
	}
	c.SetMaxFrame(small)
	write(t, ws, request)
	if _, _, err := ws.ReadMessage(); !websocket.IsCloseError(err, websocket.CloseMessageTooBig) {
		t.Errorf("read after a frame over the limit = %v, want the connection closed for it", err)
	}
	if err := c.Wait(); !errors.Is(err, websocket.ErrReadLimit) {
		t.Errorf("Wait() = %v, want the reason", err)
	}
}

// Cases: server/ConcurrentCalls
func TestCallsRunConcurrently(t *testing.T) {
	s := newServer(t, rpc.ConnConfig{})
	ws := s.raw(t)
	write(t, ws, `{"request-id":1,"type":"Test","request":"Block"}`)
	write(t, ws, `{"request-id":2,"type":"Test","request":"Nothing"}`)
	if got := read(t, ws); !strings.HasPrefix(got, `{"request-id":2`) {
		t.Errorf("first reply = %s, want that of the call which does not wait", got)
	}
	s.once.Do(func() { close(s.stop) })
	if got, want := read(t, ws), `{"request-id":1,"response":{"the-text":"stopped"}}`; got != want {
		t.Errorf("second reply = %s, want %s", got, want)
	}
}

func TestTooManyRequestsAreRefused(t *testing.T) {
	s := newServer(t, rpc.ConnConfig{MaxRequests: 2})
	ws := s.raw(t)
	for range 2 {
		write(t, ws, `{"request-id":1,"type":"Test","request":"Block"}`)
		await(t, "call", s.started)
	}
	write(t, ws, `{"request-id":2,"type":"Test","request":"Nothing"}`)
	want := `{"request-id":2,"error":"too many requests under way on this connection","error-code":"try again","response":{}}`
	if got := read(t, ws); got != want {
		t.Errorf("third call = %s, want %s", got, want)
	}
	(<-s.conns).SetMaxRequests(3)
	write(t, ws, `{"request-id":3,"type":"Test","request":"Nothing"}`)
	if got := read(t, ws); got != `{"request-id":3,"response":{}}` {
		t.Errorf("third call with room for it = %s", got)
	}
}

// Cases: server/CloseWaitsForCalls
func TestKillLetsCallsEndAndAnswersThem(t *testing.T) {
	s := newServer(t, rpc.ConnConfig{})
	ws := s.raw(t)
	write(t, ws, `{"request-id":1,"type":"Test","request":"Block"}`)
	await(t, "call", s.started)
	c := <-s.conns
	c.Kill()
	if got, want := read(t, ws), `{"request-id":1,"response":{"the-text":"stopped"}}`; got != want {
		t.Errorf("reply = %s, want %s", got, want)
	}
	if _, _, err := ws.ReadMessage(); !websocket.IsCloseError(err, websocket.CloseGoingAway) {
		t.Errorf("read after the server closed = %v, want going away", err)
	}
	if err := c.Wait(); err != nil {
		t.Errorf("Wait() = %v, want nil", err)
	}
}

func TestGraceEndsCallsThatHang(t *testing.T) {
	s := newServer(t, rpc.ConnConfig{Grace: time.Millisecond})
	c := s.dial(t)
	done := make(chan error, 1)
	go func() { done <- c.Call(t.Context(), rpc.Request{Type: "Test", Method: "Hang"}, nil, nil) }()
	await(t, "call", s.started)
	conn := <-s.conns
	conn.Kill()
	await(t, "end of the connection", conn.Dead())
	if err := <-done; err == nil {
		t.Error("a call that hung until the server closed succeeded")
	}
}

func TestPeerEOFReleasesCalls(t *testing.T) {
	ended := make(chan error, 1)
	s := newServer(t, rpc.ConnConfig{Ended: func(err error) { ended <- err }})
	ws := s.raw(t)
	write(t, ws, `{"request-id":1,"type":"Test","request":"Block"}`)
	await(t, "call", s.started)
	ws.UnderlyingConn().Close()
	c := <-s.conns
	await(t, "end of the connection", c.Dead())
	if err := c.Wait(); err != nil {
		t.Errorf("Wait() = %v, want nil", err)
	}
	if err := <-ended; err != nil {
		t.Errorf("Ended was told %v, want nil", err)
	}
}

func TestSilentPeerIsDropped(t *testing.T) {
	s := newServer(t, rpc.ConnConfig{PingInterval: time.Hour, PeerTimeout: time.Millisecond})
	s.raw(t)
	c := <-s.conns
	await(t, "end of the connection", c.Dead())
	if err := c.Wait(); err == nil || !strings.Contains(err.Error(), "connection lost") {
		t.Errorf("Wait() = %v, want lost", err)
	}
}

func TestAnsweringPingsKeepsTheConnection(t *testing.T) {
	for name, answers := range map[string]bool{"answered": true, "not answered": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := memnet.Listen()
				s := newServerAt(t, l, rpc.ConnConfig{PingInterval: time.Minute, PeerTimeout: 3 * time.Minute})
				ws, _, err := (&websocket.Dialer{NetDialContext: l.Dial}).Dial(s.url, nil)
				if err != nil {
					t.Fatal(err)
				}
				defer ws.Close()
				pings, answer := make(chan struct{}, 1000), ws.PingHandler()
				ws.SetPingHandler(func(data string) error {
					pings <- struct{}{}
					if !answers {
						return nil
					}
					return answer(data)
				})
				go func() { _, _, _ = ws.ReadMessage() }()
				c := <-s.conns
				s.conns <- c // for the end of the test
				select {
				case <-c.Dead():
					if answers {
						t.Errorf("a connection that answers pings has ended: %v", c.Wait())
					}
				case <-time.After(time.Hour):
					if !answers || len(pings) < 59 {
						t.Errorf("the connection goes on after an hour and %d pings", len(pings))
					}
				}
			})
		})
	}
}

// timed is a connection that notes how long the last write may take.
type timed struct {
	net.Conn
	mu   sync.Mutex
	left time.Duration
}

func (c *timed) SetWriteDeadline(at time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.left = time.Until(at)
	return c.Conn.SetWriteDeadline(at)
}

// A client that is held up for seconds while it answers a ping keeps its connection.
func TestPongsHaveTheTimeOfAnyFrame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := memnet.Listen()
		s := newServerAt(t, l, rpc.ConnConfig{PingInterval: time.Minute, PeerTimeout: 3 * time.Minute})
		var wire *timed
		c, err := rpc.Dial(t.Context(), rpc.DialConfig{URL: s.url, WriteTimeout: 20 * time.Second, NetDial: func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := l.Dial(ctx, network, addr)
			wire = &timed{Conn: conn}
			return wire, err
		}})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		wire.mu.Lock()
		wire.left = 0
		wire.mu.Unlock()
		time.Sleep(61 * time.Second) // of fake time: a ping has come
		synctest.Wait()
		wire.mu.Lock()
		defer wire.mu.Unlock()
		if wire.left != 20*time.Second {
			t.Errorf("a pong has %v, want as much as a request", wire.left)
		}
	})
}

// closing is a connection that has something done before it closes, once.
type closing struct {
	net.Conn
	closed atomic.Bool
	before func()
}

func (c *closing) Close() error {
	if !c.closed.Swap(true) {
		c.before()
	}
	return c.Conn.Close()
}

// A call that is made while its client closes is not why the connection ended.
func TestACallAmidCloseIsNoFailureOfIt(t *testing.T) {
	s := newServer(t, rpc.ConnConfig{})
	wire := &closing{}
	c, err := rpc.Dial(t.Context(), rpc.DialConfig{URL: s.url, NetDial: func(ctx context.Context, network, addr string) (_ net.Conn, err error) {
		wire.Conn, err = (&net.Dialer{}).DialContext(ctx, network, addr)
		return wire, err
	}})
	if err != nil {
		t.Fatal(err)
	}
	wire.before = func() { // after leave was taken
		if err := c.Call(t.Context(), rpc.Request{Type: "Echo", Version: 1, Method: "Echo"}, nil, nil); !errors.Is(err, rpc.ErrShutdown) {
			t.Errorf("Call = %v, want ErrShutdown", err)
		}
	}
	if err := c.Close(); err != nil || c.Err() != nil {
		t.Errorf("Close = %v, Err = %v", err, c.Err())
	}
}

// slow is a connection over which each write takes a minute, once it is told so.
type slow struct {
	net.Conn
	on *atomic.Bool
}

func (c slow) Write(p []byte) (int, error) {
	if !c.on.Load() {
		return c.Conn.Write(p)
	}
	for i := range 6 {
		time.Sleep(10 * time.Second) // of fake time
		if _, err := c.Conn.Write(p[i*len(p)/6 : (i+1)*len(p)/6]); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

// A peer whose request takes longer than it may be silent is not silent.
func TestALongRequestOverASlowLineIsTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := memnet.Listen()
		s := newServerAt(t, l, rpc.ConnConfig{})
		var on atomic.Bool
		ws, _, err := (&websocket.Dialer{WriteBufferSize: 1 << 16, NetDialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := l.Dial(ctx, network, addr)
			return slow{conn, &on}, err
		}}).Dial(s.url, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer ws.Close()
		on.Store(true)
		write(t, ws, `{"request-id":1,"type":"Test","request":"Nothing","x":"`+strings.Repeat("y", 30_000)+`"}`)
		on.Store(false)
		if got := read(t, ws); got != `{"request-id":1,"response":{}}` {
			t.Errorf("answer = %s", got)
		}
	})
}

// narrow is a connection whose peer's window fills quickly.
func narrow(t *testing.T, s *server) *websocket.Conn {
	d := websocket.Dialer{NetDial: func(network, addr string) (net.Conn, error) {
		c, err := net.Dial(network, addr)
		if err == nil {
			err = c.(*net.TCPConn).SetReadBuffer(4096)
		}
		return c, err
	}}
	ws, _, err := d.Dial(s.url, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ws.Close() })
	return ws
}

func TestPeerThatDoesNotReadIsDropped(t *testing.T) {
	tests := []struct {
		name string
		cfg  rpc.ConnConfig
	}{
		{"too slow", rpc.ConnConfig{WriteTimeout: 50 * time.Millisecond}},
		{"too much", rpc.ConnConfig{MaxUnread: 4 << 20}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := newServer(t, test.cfg)
			ws := narrow(t, s)
			for range 40 {
				if ws.WriteMessage(websocket.TextMessage, []byte(`{"request-id":1,"type":"Test","request":"Big"}`)) != nil {
					break // dropped already
				}
			}
			c := <-s.conns
			await(t, "end of the connection", c.Dead())
			if err := c.Wait(); !errors.Is(err, rpc.ErrNotReading) {
				t.Errorf("Wait() = %v, want %v", err, rpc.ErrNotReading)
			}
		})
	}
}

func TestClientCall(t *testing.T) {
	s := newServer(t, rpc.ConnConfig{})
	c := s.dial(t)
	ctx := t.Context()
	var got echo
	if err := c.Call(ctx, rpc.Request{Type: "Test", Version: 2, Method: "Echo"}, echo{"a"}, &got); err != nil || got.Text != "a" {
		t.Errorf("Echo = %v, %v, want a", got, err)
	}
	err := c.Call(ctx, rpc.Request{Type: "Test", Method: "FailWithCode"}, nil, nil)
	var failure *rpc.Error
	if !errors.As(err, &failure) || failure.Code != "not found" || failure.Message != `no "such" thing` {
		t.Errorf("FailWithCode = %v, want its message and code", err)
	}
	if err := c.Call(ctx, rpc.Request{Type: "Test", Method: "Echo"}, func() {}, nil); err == nil {
		t.Error("parameters that cannot be encoded were sent")
	}
	if err := c.Call(ctx, rpc.Request{Type: "Test", Method: "Nothing"}, nil, nil); err != nil {
		t.Errorf("call after a failed one = %v, want nil", err)
	}
}

func TestClientCallEndsWithItsContext(t *testing.T) {
	s := newServer(t, rpc.ConnConfig{})
	c := s.dial(t)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- c.Call(ctx, rpc.Request{Type: "Test", Method: "Block"}, nil, nil) }()
	await(t, "call", s.started)
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled call = %v, want %v", err, context.Canceled)
	}
	if err := c.Call(t.Context(), rpc.Request{Type: "Test", Method: "Nothing"}, nil, nil); err != nil {
		t.Errorf("call after a cancelled one = %v, want nil", err)
	}
}

func TestClientCallsEndWithTheConnection(t *testing.T) {
	s := newServer(t, rpc.ConnConfig{})
	c := s.dial(t)
	done := make(chan error, 1)
	go func() { done <- c.Call(t.Context(), rpc.Request{Type: "Test", Method: "Block"}, nil, nil) }()
	await(t, "call", s.started)
	if err := c.Close(); err != nil {
		t.Errorf("Close() = %v, want nil", err)
	}
	if err := <-done; !errors.Is(err, rpc.ErrShutdown) {
		t.Errorf("call under way at Close = %v, want %v", err, rpc.ErrShutdown)
	}
	if err := c.Call(t.Context(), rpc.Request{Type: "Test", Method: "Nothing"}, nil, nil); !errors.Is(err, rpc.ErrShutdown) {
		t.Errorf("call after Close = %v, want %v", err, rpc.ErrShutdown)
	}
}

func TestDialNamesTheAnswer(t *testing.T) {
	s := newServer(t, rpc.ConnConfig{})
	if _, err := rpc.Dial(t.Context(), rpc.DialConfig{URL: s.url + "/nowhere"}); !errors.Is(err, errors.NotFound) {
		t.Errorf("Dial of an unknown path = %v, want not found", err)
	}
}

// TestDialSaysThatItWasTooLate has servers that take a connection and say nothing.
func TestDialSaysThatItWasTooLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := memnet.Listen()
		for _, config := range []rpc.DialConfig{{URL: "ws://a:1"}, {URL: "ws://a:1", Timeout: time.Hour}} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			config.NetDial = l.Dial
			done := make(chan error, 2)
			go func() {
				_, err := rpc.Dial(ctx, config)
				done <- err
			}()
			go func() {
				_, err := rpc.DialStream(ctx, config)
				done <- err
			}()
			for range 2 {
				c, err := l.Accept()
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
			}
			for range 2 {
				if err := <-done; !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "cannot connect") {
					t.Errorf("connecting to a silent server = %v, want its time's end", err)
				}
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := rpc.Dial(ctx, rpc.DialConfig{URL: "ws://a:1", NetDial: l.Dial}); !errors.Is(err, context.Canceled) {
			t.Errorf("connecting without time = %v, want %v", err, context.Canceled)
		}
	})
}

func TestManyClientsAtOnce(t *testing.T) {
	s := newServer(t, rpc.ConnConfig{MaxRequests: 1000})
	c := s.dial(t)
	var wg sync.WaitGroup
	for i := range 200 {
		wg.Go(func() {
			text := strings.Repeat("y", i)
			var got echo
			if err := c.Call(t.Context(), rpc.Request{Type: "Test", Method: "Echo"}, echo{text}, &got); err != nil || got.Text != text {
				t.Errorf("Echo of %d bytes = %d bytes, %v", i, len(got.Text), err)
			}
		})
	}
	wg.Wait()
}

func FuzzConnSurvivesParams(f *testing.F) {
	s := newServer(f, rpc.ConnConfig{})
	ws := s.raw(f)
	for _, seed := range []string{`{}`, `{"the-text":"a"}`, `[]`, `null`, `{"the-text":{"a":[]}}`, `1e999`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, params []byte) {
		if !json.Valid(params) {
			return
		}
		_ = ws.SetReadDeadline(time.Now().Add(patience))
		write(t, ws, `{"request-id":1,"type":"Test","request":"Echo","params":`+string(params)+`}`)
		if got := read(t, ws); !strings.HasPrefix(got, `{"request-id":1,`) {
			t.Errorf("answer to %s = %s", params, got)
		}
	})
}
