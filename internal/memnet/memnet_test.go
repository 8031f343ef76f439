package memnet_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slipway-project/slipway/internal/memnet"
)

// pair returns both ends of a connection.
func pair(t *testing.T) (ours, theirs net.Conn) {
	t.Helper()
	l := memnet.Listen()
	accepted := make(chan net.Conn, 1)
	go func() {
		c, err := l.Accept()
		if err != nil {
			t.Error(err)
		}
		accepted <- c
	}()
	ours, err := l.Dial(t.Context(), "tcp", "anywhere:1")
	if err != nil {
		t.Fatal(err)
	}
	return ours, <-accepted
}

func TestBytesArriveInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := pair(t)
		sent := make([]byte, 1<<20) // more than fits at once
		for i := range sent {
			sent[i] = byte(i * i >> 8)
		}
		go func() {
			if n, err := ours.Write(sent); n != len(sent) || err != nil {
				t.Errorf("Write = %d, %v", n, err)
			}
			ours.Close()
		}()
		got, err := io.ReadAll(theirs)
		if err != nil || !bytes.Equal(got, sent) {
			t.Errorf("read %d bytes, %v, want the %d that were sent", len(got), err, len(sent))
		}
		if _, err := theirs.Write([]byte("x")); !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("Write to an end that is closed = %v", err)
		}
		if _, err := ours.Read(sent); !errors.Is(err, net.ErrClosed) {
			t.Errorf("Read from an end that is closed = %v", err)
		}
		if _, err := ours.Write(sent); !errors.Is(err, net.ErrClosed) {
			t.Errorf("Write to an end of ours that is closed = %v", err)
		}
	})
}

func TestDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := pair(t)
		start := time.Now()
		wantTimeout := func(after time.Duration, n int, err error) {
			t.Helper()
			if got := time.Since(start); !errors.Is(err, os.ErrDeadlineExceeded) || got != after {
				t.Errorf("%d bytes, %v after %v, want the deadline's end after %v", n, err, got, after)
			}
		}
		_ = ours.SetDeadline(start.Add(time.Hour))
		n, err := ours.Read(make([]byte, 1))
		wantTimeout(time.Hour, n, err)
		n, err = ours.Write(make([]byte, 1))
		wantTimeout(time.Hour, n, err)
		_ = ours.SetWriteDeadline(start.Add(2 * time.Hour))
		n, err = ours.Write(make([]byte, 1<<20)) // nobody reads
		wantTimeout(2*time.Hour, n, err)
		time.AfterFunc(time.Hour, func() { _ = ours.SetReadDeadline(time.Now()) }) // while it is read from
		_ = ours.SetReadDeadline(time.Time{})
		n, err = ours.Read(make([]byte, 1))
		wantTimeout(3*time.Hour, n, err)
		_ = ours.SetReadDeadline(time.Now().Add(time.Minute))
		if _, err := theirs.Write([]byte("x")); err != nil {
			t.Error(err)
		}
		if n, err := ours.Read(make([]byte, 9)); n != 1 || err != nil {
			t.Errorf("Read = %d, %v, want a byte", n, err)
		}
		ours.Close()
		theirs.Close()
	})
}

func TestDialEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := memnet.Listen()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := l.Dial(ctx, "tcp", "x:1"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Dial that nobody accepts = %v", err)
		}
		l.Close()
		l.Close()
		if _, err := l.Dial(t.Context(), "tcp", "x:1"); !errors.Is(err, net.ErrClosed) {
			t.Errorf("Dial after Close = %v", err)
		}
		if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("Accept after Close = %v", err)
		}
	})
}

// TestTLSAndHTTP: both sides of a handshake may write at once.
func TestTLSAndHTTP(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := memnet.Listen()
		s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(time.Hour) // fake time
			body, _ := io.ReadAll(r.Body)
			_, _ = w.Write(body)
		}))
		s.Listener.Close()
		s.Listener = l
		s.StartTLS()
		defer s.Close()
		transport := &http.Transport{DialContext: l.Dial, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
		defer transport.CloseIdleConnections()
		answer, err := (&http.Client{Transport: transport}).Post(s.URL, "text/plain", bytes.NewReader(make([]byte, 1<<18)))
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		if body, err := io.ReadAll(answer.Body); len(body) != 1<<18 || err != nil {
			t.Errorf("%d bytes, %v", len(body), err)
		}
	})
}
