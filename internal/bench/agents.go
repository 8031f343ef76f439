package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/api"
	"github.com/slipway-project/slipway/api/client"
	"github.com/slipway-project/slipway/core/status"
	"github.com/slipway-project/slipway/environs/simulated"
)

// calm is how long a controller is left alone before its memory is read.
const calm = 5 * time.Second

// agents measures memory: of an empty controller, of one with machines, and of
// one whose machines' agents are connected; and then how long all agents take to
// come back after a restart, and how people fare meanwhile.
func (b *bench) agents(ctx context.Context) error {
	for _, n := range b.machines {
		if err := b.agentsOf(ctx, n); err != nil {
			return errors.Trace(err)
		}
	}
	return nil
}

func (b *bench) agentsOf(ctx context.Context, n int) error {
	s, err := b.newSite(ctx)
	if err != nil {
		return errors.Trace(err)
	}
	defer s.stop()
	memory := func(calm time.Duration) float64 {
		_ = wait(ctx, calm) // a context that is done shows right after
		return s.controller.memory()
	}
	empty := memory(calm)
	ids, err := s.inject(ctx, n)
	if err != nil {
		return errors.Trace(err)
	}
	if _, err := client.New(s.conn).FullStatus(ctx); err != nil {
		return errors.Trace(err)
	}
	full := memory(calm)
	f := newFleet()
	ctx, cancel := context.WithCancel(ctx)
	defer f.wait()
	defer cancel()
	server, began := s.controller.cpu(), time.Now()
	f.start(ctx, s, ids)
	if err := f.reported(ctx, n); err != nil {
		return errors.Trace(err)
	}
	first := time.Since(began)
	server = s.controller.cpu() - server
	b.report(fmt.Sprintf("agents-first/machines=%d", n), 1, figure{first.Seconds(), "s"}, per(server, n*1000, "server-ms/agent"))
	connected := memory(b.calm)
	b.report(fmt.Sprintf("memory/machines=%d", n), 1, figure{empty, "empty-MiB"}, figure{full, "machines-MiB"},
		figure{connected, "connected-MiB"}, figure{(connected - full) * 1024 / float64(n), "KiB/agent"})
	return b.restart(ctx, s, f, n)
}

// restart restarts the controller and waits for all agents, with a person, in a process
// of its own, who makes calls meanwhile.
func (b *bench) restart(ctx context.Context, s *site, f *fleet, n int) error {
	someone, err := startPerson(ctx)
	if err != nil {
		return errors.Trace(err)
	}
	defer someone.stop()
	_ = s.conn.Close() // before the server goes
	s.controller.stop()
	began, own := time.Now(), ownCPU()
	f.reports.Store(0)
	if err := s.run(ctx, s.person.Addrs[0]); err != nil {
		return errors.Trace(err)
	}
	if err := someone.connect(s.person); err != nil {
		return errors.Trace(err)
	}
	served := time.Since(began)
	if err := f.reported(ctx, n); err != nil {
		return errors.Trace(err)
	}
	elapsed := time.Since(began)
	took, err := someone.leave()
	if err != nil {
		return errors.Trace(err)
	}
	server, own := s.controller.cpu(), ownCPU()-own // the controller is a new process
	b.report(fmt.Sprintf("agents-return/machines=%d", n), len(took), figure{elapsed.Seconds(), "s"}, figure{served.Seconds(), "s-until-served"},
		per(server, n*1000, "server-ms/agent"), per(own, n*1000, "client-ms/agent"),
		millis(took, .5, "person-p50-ms"), millis(took, .99, "person-p99-ms"))
	return nil
}

// fleet are the agents of many machines, which connect as often as it takes.
type fleet struct {
	reports atomic.Int64  // of having started
	news    chan struct{} // that there are more, perhaps
	all     sync.WaitGroup
}

func newFleet() *fleet { return &fleet{news: make(chan struct{}, 1)} }

// start starts the agents, which end with ctx. They are what a simulated rack
// runs, which is what real agents do.
func (f *fleet) start(ctx context.Context, s *site, ids []string) {
	for _, id := range ids {
		info := s.person
		info.Tag, info.Password, info.Nonce = api.MachineTag(id), password, nonce
		r := &api.Reconnector{Info: info, Fatal: func(error) bool { return false }}
		f.all.Go(func() {
			_ = r.Run(ctx, func(ctx context.Context, c *api.Conn) error { // it ends with ctx
				return simulated.RunAgent(ctx, reporter{simulated.NewAgentAPI(c, id), f}, simulated.Agent{MachineID: id})
			})
		})
	}
}

// wait waits until all agents have ended.
func (f *fleet) wait() { f.all.Wait() }

// tell notes that one more agent is at work.
func (f *fleet) tell() {
	f.reports.Add(1)
	select {
	case f.news <- struct{}{}:
	default:
	}
}

// reported waits until there have been so many reports.
func (f *fleet) reported(ctx context.Context, n int) error {
	for {
		if f.reports.Load() >= int64(n) {
			return nil
		}
		select {
		case <-f.news:
		case <-ctx.Done():
			return errors.Annotatef(ctx.Err(), "%d of %d agents have reported", f.reports.Load(), n)
		}
	}
}

// reporter tells the fleet when its agent has reported that it has started, or found
// that this is known.
type reporter struct {
	simulated.AgentAPI
	fleet *fleet
}

// Status implements simulated.AgentAPI.
func (r reporter) Status(ctx context.Context) (status.Status, error) {
	s, err := r.AgentAPI.Status(ctx)
	if err == nil && s == status.Started {
		r.fleet.tell()
	}
	return s, err
}

// SetStatus implements simulated.AgentAPI.
func (r reporter) SetStatus(ctx context.Context, s status.Status, message string, data map[string]any) error {
	err := r.AgentAPI.SetStatus(ctx, s, message, data)
	if err == nil && s == status.Started {
		r.fleet.tell()
	}
	return err
}
