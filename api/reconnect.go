package api

import (
	"context"
	"strings"
	"time"

	"github.com/juju/errors"
	"github.com/juju/loggo"

	"github.com/slipway-project/slipway/core/kind"
	"github.com/slipway-project/slipway/worker"
)

// healthy is how long a connection has to last before earlier failures are
// forgotten.
const healthy = 5 * time.Second

// Reconnector keeps a connection open for a job: when it breaks, it is opened
// again, after a pause that grows with each failure in a row and differs a
// little for everyone. Info is required.
//
// A person who comes back shows the server a ticket of the login before beside
// the password, so that many can come back at once. It is kept in memory alone.
type Reconnector struct {
	Info    Info
	Options DialOptions
	Backoff worker.Backoff

	// Fatal says of a failure to connect that trying again is pointless; nil
	// means IsFatal.
	Fatal func(error) bool
}

// IsFatal reports whether a failure to connect will not go away by itself: the
// name and password are refused, the model is unknown, or the server is not to
// be trusted.
func IsFatal(err error) bool {
	return errors.Is(err, errors.Unauthorized) || errors.Is(err, kind.ModelNotFound) ||
		errors.Is(err, ErrUntrusted) || errors.Is(err, errors.NotValid)
}

// Run opens a connection and calls use with it, again and again. The context
// that use is given ends when the connection breaks or ctx does; use must then
// return. Run returns nil when use returns nil on an unbroken connection, the
// error of a fatal failure to connect, or ctx's error when that is done.
//
// An error of use itself is logged, and counts as a failure: Run connects
// again after a pause.
func (r *Reconnector) Run(ctx context.Context, use func(ctx context.Context, c *Conn) error) error {
	fatal := r.Fatal
	if fatal == nil {
		fatal = IsFatal
	}
	info := r.Info
	info.wantTicket = strings.HasPrefix(info.Tag, "user-")
	for failures := 0; ; {
		conn, err := Open(ctx, info, r.Options)
		switch {
		case ctx.Err() != nil:
			if conn != nil {
				_ = conn.Close() // nobody uses it
			}
			return errors.Trace(ctx.Err())
		case err != nil && fatal(err):
			return errors.Trace(err)
		case err != nil:
			failures++
			level := loggo.WARNING
			if errors.Is(err, errors.NotProvisioned) {
				level = loggo.DEBUG // an instance may be faster than the record of it
			}
			logger.Logf(level, "try %d to connect: %v", failures, err)
		default:
			info.Addrs, info.CACert = merge(conn.Addrs(), r.Info.Addrs), conn.CACert()
			info.ticket = conn.login.Ticket
			began := time.Now()
			if done, err := r.use(ctx, conn, use); done {
				return err
			}
			if time.Since(began) >= healthy {
				failures = 0
			}
			failures++
		}
		if err := pause(ctx, r.Backoff.Delay(failures)); err != nil {
			return err
		}
	}
}

// use lends a connection to the job. It reports whether the job is done.
func (r *Reconnector) use(ctx context.Context, conn *Conn, use func(context.Context, *Conn) error) (bool, error) {
	lent, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		select {
		case <-conn.Broken():
			cancel()
		case <-lent.Done():
		}
	}()
	err := use(lent, conn)
	broken := isClosed(conn.Broken())
	cancel()
	<-ended
	_ = conn.Close() // done with
	switch {
	case ctx.Err() != nil:
		return true, errors.Trace(ctx.Err())
	case broken:
		logger.Warningf("connection to %s has broken: %v", conn.Addr(), err)
		return false, nil
	case err == nil:
		return true, nil
	}
	logger.Errorf("connection to %s is given up: %v", conn.Addr(), err)
	return false, nil
}

// pause waits, unless ctx is done first.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return errors.Trace(ctx.Err())
	case <-timer.C:
		return nil
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// merge returns the addresses of both lists, each once.
func merge(first, second []string) []string {
	seen := make(map[string]bool, len(first)+len(second))
	var out []string
	for _, list := range [][]string{first, second} {
		for _, addr := range list {
			if !seen[addr] {
				seen[addr] = true
				out = append(out, addr)
			}
		}
	}
	return out
}
