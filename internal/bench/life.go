package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/api"
	"github.com/slipway-project/slipway/params"
	"github.com/slipway-project/slipway/rpc"
)

// life measures Provisioner.Life of one machine, one call at a time on each of
// some connections.
func (b *bench) life(ctx context.Context) error {
	s, err := b.newSite(ctx)
	if err != nil {
		return errors.Trace(err)
	}
	defer s.stop()
	ids, err := s.inject(ctx, 1)
	if err != nil {
		return errors.Trace(err)
	}
	args := params.Entities{Entities: []params.Entity{{Tag: api.MachineTag(ids[0])}}}
	for _, n := range b.connections {
		if err := b.lifeOver(ctx, s, n, args); err != nil {
			return errors.Trace(err)
		}
	}
	return nil
}

func (b *bench) lifeOver(ctx context.Context, s *site, n int, args params.Entities) error {
	conns, err := openAll(ctx, s.manager, n)
	if err != nil {
		return errors.Trace(err)
	}
	defer closeAll(conns)
	took := make([][]time.Duration, n)
	failures := make([]error, n)
	server, client, began := s.controller.cpu(), ownCPU(), time.Now()
	var all sync.WaitGroup
	for i, conn := range conns {
		all.Go(func() {
			for time.Since(began) < b.calling && failures[i] == nil {
				at := time.Now()
				var r params.LifeResults
				failures[i] = conn.Call(ctx, rpc.Request{Type: "Provisioner", Version: 3, Method: "Life"}, args, &r)
				took[i] = append(took[i], time.Since(at))
			}
		})
	}
	all.Wait()
	elapsed := time.Since(began)
	server, client = s.controller.cpu()-server, ownCPU()-client
	var every []time.Duration
	for i := range conns {
		if failures[i] != nil {
			return errors.Trace(failures[i])
		}
		every = append(every, took[i]...)
	}
	b.report(fmt.Sprintf("life/conns=%d", n), len(every),
		figure{float64(len(every)) / elapsed.Seconds(), "calls/s"},
		per(server, len(every), "server-µs/op"), per(client, len(every), "client-µs/op"),
		millis(every, .5, "p50-ms"), millis(every, .99, "p99-ms"))
	return nil
}
