package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/api"
	"github.com/slipway-project/slipway/params"
	"github.com/slipway-project/slipway/rpc"
)

// bulk measures calls about up to 1,000 machines of models of several sizes, and
// the status of all machines, alone and as slipway shows it.
func (b *bench) bulk(ctx context.Context) error {
	for _, n := range b.machines {
		if err := b.bulkOf(ctx, n); err != nil {
			return errors.Trace(err)
		}
	}
	return nil
}

func (b *bench) bulkOf(ctx context.Context, n int) error {
	s, err := b.newSite(ctx)
	if err != nil {
		return errors.Trace(err)
	}
	defer s.stop()
	ids, err := s.inject(ctx, n)
	if err != nil {
		return errors.Trace(err)
	}
	worker, err := open(ctx, s.manager)
	if err != nil {
		return errors.Trace(err)
	}
	defer worker.Close()
	var args params.Entities
	for _, id := range ids[:min(n, batch)] {
		args.Entities = append(args.Entities, params.Entity{Tag: api.MachineTag(id)})
	}
	for _, method := range []string{"Life", "Status", "InstanceId", "Constraints", "ProvisioningInfo"} {
		name := fmt.Sprintf("bulk/%s/of=%d/machines=%d", method, len(args.Entities), n)
		err := b.repeat(s, name, b.rounds, func() error {
			return worker.Call(ctx, rpc.Request{Type: "Provisioner", Version: 3, Method: method}, args, nil)
		})
		if err != nil {
			return errors.Annotatef(err, "cannot call %s", method)
		}
	}
	err = b.repeat(s, fmt.Sprintf("bulk/FullStatus/machines=%d", n), b.rounds, func() error {
		return s.conn.Call(ctx, rpc.Request{Type: "Client", Version: 1, Method: "FullStatus"}, params.StatusParams{}, nil)
	})
	if err != nil {
		return errors.Trace(err)
	}
	return b.statusCommand(ctx, s, n)
}

// repeat measures something that is done again and again: so many times at
// least, and for so long that the kernel's steps of CPU time do not matter.
func (b *bench) repeat(s *site, name string, least int, do func() error) error {
	if err := do(); err != nil { // once to warm up
		return errors.Trace(err)
	}
	var took []time.Duration
	server, began := s.controller.cpu(), time.Now()
	for len(took) < least || time.Since(began) < b.calling {
		at := time.Now()
		if err := do(); err != nil {
			return errors.Trace(err)
		}
		took = append(took, time.Since(at))
	}
	server = s.controller.cpu() - server
	b.report(name, len(took), per(server, len(took)*1000, "server-ms/op"), millis(took, .5, "p50-ms"), millis(took, .99, "p99-ms"))
	return nil
}

// statusCommand measures slipway status.
func (b *bench) statusCommand(ctx context.Context, s *site, n int) error {
	var took []time.Duration
	var own time.Duration
	server := s.controller.cpu()
	for range b.rounds {
		cmd := s.slipway(ctx, "status")
		at := time.Now()
		if out, err := cmd.CombinedOutput(); err != nil {
			return errors.Annotatef(err, "cannot show status: %s", out)
		}
		took = append(took, time.Since(at))
		own += cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	}
	server = s.controller.cpu() - server
	b.report(fmt.Sprintf("bulk/slipway-status/machines=%d", n), b.rounds,
		per(server, b.rounds*1000, "server-ms/op"), per(own, b.rounds*1000, "cli-ms/op"),
		millis(took, .5, "p50-ms"), millis(took, .99, "p99-ms"))
	return nil
}

// slipway returns the operator's command.
func (s *site) slipway(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(s.b.programs, "slipway"), args...)
	cmd.Env = append(os.Environ(), "SLIPWAY_DATA="+filepath.Join(s.dir, "client"))
	return cmd
}
