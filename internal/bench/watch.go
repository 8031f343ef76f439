package main

import (
	"context"
	"fmt"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/api"
	"github.com/slipway-project/slipway/api/modelconfig"
	"github.com/slipway-project/slipway/params"
	"github.com/slipway-project/slipway/rpc"
)

// watchersEach is how many watchers each connection has.
const watchersEach = 10

// watch measures what many watchers cost while nothing happens, and how one
// change comes to all of them.
func (b *bench) watch(ctx context.Context) error {
	s, err := b.newSite(ctx)
	if err != nil {
		return errors.Trace(err)
	}
	defer s.stop()
	conns, err := openAll(ctx, s.manager, b.watching)
	if err != nil {
		return errors.Trace(err)
	}
	defer closeAll(conns)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	n := len(conns) * watchersEach
	heard := make(chan heard, n)
	if err := follow(ctx, conns, heard); err != nil {
		return errors.Trace(err)
	}
	name := fmt.Sprintf("watchers=%d/conns=%d", n, len(conns))
	server := s.controller.cpu()
	if err := wait(ctx, b.idle); err != nil {
		return errors.Trace(err)
	}
	server = s.controller.cpu() - server
	b.report("watch-idle/"+name, 1, figure{100 * server.Seconds() / b.idle.Seconds(), "%-of-a-core"},
		figure{s.controller.memory(), "server-MiB"})
	return b.changes(ctx, s, name, n, heard)
}

// heard is what one watcher heard.
type heard struct {
	at  time.Time
	err error
}

// follow makes the watchers, which tell of all that they hear until ctx is done.
func follow(ctx context.Context, conns []*api.Conn, out chan<- heard) error {
	return together(len(conns), 16, func(i int) error {
		conn := conns[i]
		for range watchersEach {
			var made params.NotifyWatchResult
			err := conn.Call(ctx, rpc.Request{Type: "Provisioner", Version: 3, Method: "WatchForModelConfigChanges"}, nil, &made)
			if err != nil {
				return errors.Trace(err)
			}
			next := rpc.Request{Type: "NotifyWatcher", Version: 1, ID: made.NotifyWatcherID, Method: "Next"}
			go func() { // ends with ctx, which ends with the measurement
				for {
					err := conn.Call(ctx, next, nil, nil)
					if ctx.Err() != nil {
						return
					}
					out <- heard{time.Now(), err}
					if err != nil {
						return
					}
				}
			}()
		}
		return nil
	})
}

// changes makes changes one after another, each when all watchers have heard of
// the one before.
func (b *bench) changes(ctx context.Context, s *site, name string, n int, all <-chan heard) error {
	config := modelconfig.New(s.conn)
	var last, each []time.Duration
	server, client := s.controller.cpu(), ownCPU()
	for round := range b.rounds {
		began := time.Now()
		if err := config.Set(ctx, map[string]any{"provisioner-retry-count": 10 + round%2}); err != nil {
			return errors.Trace(err)
		}
		var latest time.Duration
		for range n {
			select {
			case h := <-all:
				if h.err != nil {
					return errors.Trace(h.err)
				}
				latest = max(latest, h.at.Sub(began))
				each = append(each, h.at.Sub(began))
			case <-ctx.Done():
				return errors.Trace(ctx.Err())
			}
		}
		last = append(last, latest)
	}
	server, client = s.controller.cpu()-server, ownCPU()-client
	b.report("watch-change/"+name, b.rounds,
		per(server, b.rounds*n, "server-µs/watcher"), per(client, b.rounds*n, "client-µs/watcher"),
		millis(each, .5, "p50-ms"), millis(last, .5, "last-p50-ms"), millis(last, .99, "last-p99-ms"))
	return nil
}

// wait waits, unless ctx is done first.
func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return errors.Trace(ctx.Err())
	case <-time.After(d):
		return nil
	}
}
