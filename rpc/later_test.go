package rpc_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/gorilla/websocket"
	"github.com/juju/errors"

	"github.com/slipway-project/slipway/rpc"
)

// bell is what the pending results of these tests wait for.
type bell struct {
	mu      sync.Mutex
	rung    bool
	waiting []func()
	waits   chan struct{} // one value for each that waits
}

func newBell() *bell { return &bell{waits: make(chan struct{}, 1000)} }

// ring ends all waits, with the lock held as watchers do.
func (b *bell) ring() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.rung = true
	for _, wake := range b.waiting {
		wake()
	}
	b.waiting = nil
}

// early wakes who waits although nothing is there.
func (b *bell) early() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, wake := range b.waiting {
		wake()
	}
	b.waiting = nil
}

// strike is the pending result of one call.
type strike struct {
	b   *bell
	how string
}

// Poll implements rpc.Pending.
func (s strike) Poll() (any, bool, error) {
	s.b.mu.Lock()
	defer s.b.mu.Unlock()
	switch {
	case !s.b.rung:
		return nil, false, nil
	case s.how == "fail":
		return nil, true, errors.New("it broke")
	case s.how == "panic":
		panic("on purpose")
	}
	return echo{s.how}, true, nil
}

// Ready implements rpc.Pending.
func (s strike) Ready(wake func()) {
	s.b.mu.Lock()
	defer s.b.mu.Unlock()
	if s.b.rung {
		wake()
		return
	}
	s.b.waiting = append(s.b.waiting, wake)
	s.b.waits <- struct{}{}
}

// Wait and Forever are the methods that wait.
func (b *bell) Wait(p echo) (rpc.Later[echo], error) {
	if p.Text == "" {
		return rpc.Later[echo]{}, errors.New("nothing to wait for")
	}
	return rpc.Later[echo]{Pending: strike{b, p.Text}}, nil
}

func (b *bell) Empty() (rpc.Later[rpc.None], error) { return rpc.Later[rpc.None]{}, nil }

// bellRoot makes a bell an rpc.Root.
type bellRoot struct {
	b       *bell
	methods *rpc.Methods
}

func (r bellRoot) Kill() { r.b.ring() }

func (r bellRoot) Call(ctx context.Context, q rpc.Request, params []byte) (any, error) {
	m, _ := r.methods.Get(q.Method)
	p, err := m.Decode(params)
	if err != nil {
		return nil, err
	}
	return m.Call(ctx, reflect.ValueOf(r.b), p)
}

// dialBell opens a websocket to a server that waits for b.
func dialBell(t *testing.T, b *bell, cfg rpc.ConnConfig) (*websocket.Conn, *rpc.Conn) {
	t.Helper()
	methods, err := rpc.MethodsOf(reflect.TypeFor[*bell]())
	if err != nil {
		t.Fatal(err)
	}
	conns := make(chan *rpc.Conn, 1)
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, err := rpc.Accept(w, r, cfg)
		if err != nil {
			t.Error(err)
			return
		}
		c.Start(bellRoot{b, methods})
		conns <- c
	}))
	t.Cleanup(h.Close)
	ws := (&server{url: "ws" + strings.TrimPrefix(h.URL, "http")}).raw(t)
	c := <-conns
	t.Cleanup(func() {
		c.Kill()
		_ = c.Wait()
	})
	return ws, c
}

func TestMethodsThatWait(t *testing.T) {
	methods, err := rpc.MethodsOf(reflect.TypeFor[*bell]())
	if err != nil {
		t.Fatal(err)
	}
	wait, _ := methods.Get("Wait")
	empty, _ := methods.Get("Empty")
	if wait.Result() != reflect.TypeFor[echo]() || empty.Result() != nil {
		t.Errorf("results are %v and %v, want echo and none", wait.Result(), empty.Result())
	}
}

func TestPendingResults(t *testing.T) {
	crew := rpc.NewCrew()
	defer crew.Close()
	for _, cfg := range []rpc.ConnConfig{{}, {Crew: crew}} {
		t.Run(fmt.Sprintf("crew=%v", cfg.Crew != nil), func(t *testing.T) {
			b := newBell()
			ws, _ := dialBell(t, b, cfg)
			want := map[string]bool{`{"request-id":100,"error":"nothing to wait for","response":{}}`: true}
			write(t, ws, `{"request-id":100,"type":"Bell","request":"Wait"}`)
			for i, how := range []string{"a", "b", "fail", "panic"} {
				write(t, ws, fmt.Sprintf(`{"request-id":%d,"type":"Bell","request":"Wait","params":{"the-text":%q}}`, i+1, how))
				await(t, "wait", b.waits)
				switch how {
				case "fail":
					want[fmt.Sprintf(`{"request-id":%d,"error":"it broke","response":{}}`, i+1)] = true
				case "panic":
					want[fmt.Sprintf(`{"request-id":%d,"error":"internal error","response":{}}`, i+1)] = true
				default:
					want[fmt.Sprintf(`{"request-id":%d,"response":{"the-text":%q}}`, i+1, how)] = true
				}
			}
			b.early()
			for range 4 {
				await(t, "wait after it was woken too early", b.waits)
			}
			b.ring()
			for len(want) > 0 {
				got := read(t, ws)
				if !want[got] {
					t.Fatalf("got %s, want one of %v", got, want)
				}
				delete(want, got)
			}
			write(t, ws, `{"request-id":9,"type":"Bell","request":"Wait","params":{"the-text":"at once"}}`)
			if got := read(t, ws); got != `{"request-id":9,"response":{"the-text":"at once"}}` {
				t.Errorf("a wait for what is there already = %s", got)
			}
		})
	}
}

func TestKillAnswersWhatIsPending(t *testing.T) {
	b := newBell()
	ws, c := dialBell(t, b, rpc.ConnConfig{})
	write(t, ws, `{"request-id":1,"type":"Bell","request":"Wait","params":{"the-text":"a"}}`)
	await(t, "wait", b.waits)
	c.Kill()
	if got := read(t, ws); got != `{"request-id":1,"response":{"the-text":"a"}}` {
		t.Errorf("reply = %s", got)
	}
	await(t, "end of the connection", c.Dead())
}

func TestPendingRequestsCountAsUnderWay(t *testing.T) {
	b := newBell()
	ws, _ := dialBell(t, b, rpc.ConnConfig{MaxRequests: 1})
	write(t, ws, `{"request-id":1,"type":"Bell","request":"Wait","params":{"the-text":"a"}}`)
	await(t, "wait", b.waits)
	write(t, ws, `{"request-id":2,"type":"Bell","request":"Wait","params":{"the-text":"b"}}`)
	if got := read(t, ws); !strings.Contains(got, "too many requests") {
		t.Errorf("a second request = %s, want it refused", got)
	}
	b.ring()
	if got := read(t, ws); got != `{"request-id":1,"response":{"the-text":"a"}}` {
		t.Errorf("reply = %s", got)
	}
}

func TestManyPendingRepliesAtOnce(t *testing.T) {
	const n = 500
	crew := rpc.NewCrew()
	t.Cleanup(crew.Close) // after the connection's
	b := newBell()
	ws, _ := dialBell(t, b, rpc.ConnConfig{MaxRequests: n, Crew: crew})
	long := strings.Repeat("x", 300) // so that some have to go out before the last
	for i := range n {
		write(t, ws, fmt.Sprintf(`{"request-id":%d,"type":"Bell","request":"Wait","params":{"the-text":"%s%d"}}`, i+1, long, i+1))
		await(t, "wait", b.waits)
	}
	b.ring()
	seen := make(map[string]bool, n)
	for range n {
		seen[read(t, ws)] = true
	}
	for i := range n {
		if want := fmt.Sprintf(`{"request-id":%d,"response":{"the-text":"%s%d"}}`, i+1, long, i+1); !seen[want] {
			t.Fatalf("no %s", want)
		}
	}
}
