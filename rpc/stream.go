package rpc

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/gorilla/websocket"
	"github.com/juju/errors"
)

// The times of streams.
const (
	streamWrite  = 30 * time.Second // for the peer to take one value
	streamPing   = 10 * time.Second // between a server's pings
	streamSilent = 25 * time.Second // after which a client counts as gone
)

// maxStreamFrame bounds the size of one value that is received, in bytes.
const maxStreamFrame = 1 << 20

// Stream carries JSON values one after another, without requests and replies.
// One goroutine may send and another one receive.
type Stream struct {
	ws      *websocket.Conn
	writing sync.Mutex
	once    sync.Once
	closed  chan struct{}
	running sync.WaitGroup
}

// AcceptStream turns an HTTP request into a stream. On an error the request has
// been answered. The stream notices that its client has gone only while it is
// received from, or drained.
func AcceptStream(w http.ResponseWriter, r *http.Request) (*Stream, error) {
	ws, err := upgrader.Upgrade(w, r, nil)
	if err != nil {
		return nil, errors.Annotate(err, "cannot open a websocket")
	}
	s := newStream(ws)
	heard := func(string) error { return ws.SetReadDeadline(time.Now().Add(streamSilent)) }
	if err := heard(""); err != nil {
		_ = s.Close() // it cannot be used
		return nil, errors.Trace(err)
	}
	ws.SetPongHandler(heard)
	s.running.Go(s.ping)
	return s, nil
}

// DialStream opens a stream to a server. An answer other than a websocket's is an
// error that names the HTTP status.
func DialStream(ctx context.Context, cfg DialConfig) (*Stream, error) {
	cfg = cfg.withDefaults()
	d := websocket.Dialer{
		NetDialContext: cfg.NetDial, TLSClientConfig: cfg.TLS, HandshakeTimeout: cfg.Timeout, Proxy: http.ProxyFromEnvironment,
	}
	ws, answer, err := d.DialContext(ctx, cfg.URL, cfg.Header)
	if err != nil && answer != nil {
		return nil, errors.Errorf("cannot connect: server answered %s", answer.Status)
	}
	if err != nil {
		return nil, errors.Annotate(late(ctx, err), "cannot connect")
	}
	return newStream(ws), nil
}

func newStream(ws *websocket.Conn) *Stream {
	ws.SetReadLimit(maxStreamFrame)
	answerPings(ws, streamWrite)
	return &Stream{ws: ws, closed: make(chan struct{})}
}

// ping asks the peer for a sign of life from time to time.
func (s *Stream) ping() {
	ticker := time.NewTicker(streamPing)
	defer ticker.Stop()
	for {
		select {
		case <-s.closed:
			return
		case <-ticker.C:
			// A failure shows as silence to the reader.
			_ = s.ws.WriteControl(websocket.PingMessage, nil, time.Now().Add(streamWrite))
		}
	}
}

// Send sends a value as one message with a newline at its end.
func (s *Stream) Send(v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return errors.Annotate(err, "cannot encode a message")
	}
	s.writing.Lock()
	defer s.writing.Unlock()
	_ = s.ws.SetWriteDeadline(time.Now().Add(streamWrite)) // always nil
	return errors.Annotate(s.ws.WriteMessage(websocket.TextMessage, append(data, '\n')), "cannot send")
}

// Receive waits for a value. It returns io.EOF when the peer has closed the
// stream, or this side has.
func (s *Stream) Receive(v any) error {
	_, data, err := s.ws.ReadMessage()
	if err != nil {
		select {
		case <-s.closed:
			return io.EOF
		default:
		}
		if websocket.IsCloseError(err, websocket.CloseNormalClosure, websocket.CloseGoingAway, websocket.CloseNoStatusReceived) {
			return io.EOF
		}
		return errors.Annotate(err, "connection lost")
	}
	return errors.Annotate(json.Unmarshal(data, v), "cannot read a message")
}

// Drain receives and drops values until the stream ends.
func (s *Stream) Drain() {
	for {
		if _, _, err := s.ws.NextReader(); err != nil {
			return
		}
	}
}

// Close ends the stream: the peer is told, a Receive under way returns. It may be
// called more than once, and from any goroutine.
func (s *Stream) Close() error {
	s.once.Do(func() {
		close(s.closed)
		bye := websocket.FormatCloseMessage(websocket.CloseNormalClosure, "")
		_ = s.ws.WriteControl(websocket.CloseMessage, bye, time.Now().Add(time.Second))
		_ = s.ws.Close()
	})
	s.running.Wait()
	return nil
}
