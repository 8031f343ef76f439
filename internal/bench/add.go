package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/api/modelconfig"
	"github.com/slipway-project/slipway/environs/simulated"
)

// add measures the main job: machines are asked for, started by a worker in a
// rack without delays, and their agents log in and report. Rack and worker are
// processes of their own.
func (b *bench) add(ctx context.Context) error {
	for _, n := range b.machines {
		if err := b.addMachines(ctx, n); err != nil {
			return errors.Trace(err)
		}
	}
	return nil
}

func (b *bench) addMachines(ctx context.Context, n int) error {
	s, err := b.newSite(ctx)
	if err != nil {
		return errors.Trace(err)
	}
	defer s.stop()
	rack, worker, err := s.startWorker(ctx)
	if err != nil {
		return errors.Trace(err)
	}
	before := [3]time.Duration{s.controller.cpu(), worker.cpu(), rack.cpu()}
	began := time.Now()
	if out, err := s.slipway(ctx, "add-machine", "-n", strconv.Itoa(n)).CombinedOutput(); err != nil {
		return errors.Annotatef(err, "cannot add machines: %s", out)
	}
	added := time.Since(began)
	out, err := s.slipway(ctx, "wait", "--all", "--for", "started", "--timeout", "14m").CombinedOutput()
	if err != nil {
		return errors.Annotatef(err, "cannot wait for the machines: %s", out)
	}
	elapsed := time.Since(began)
	b.report(fmt.Sprintf("add/machines=%d", n), 1,
		figure{elapsed.Seconds(), "s"}, figure{added.Seconds(), "s-to-add"}, figure{float64(n) / elapsed.Seconds(), "machines/s"},
		per(s.controller.cpu()-before[0], n*1000, "server-ms/machine"),
		per(worker.cpu()-before[1], n*1000, "worker-ms/machine"),
		per(rack.cpu()-before[2], n*1000, "rack-ms/machine"),
		figure{s.controller.memory(), "server-MiB"})
	return nil
}

// startWorker starts a rack without delays and a worker that starts machines in it.
func (s *site) startWorker(ctx context.Context) (rack, worker *process, err error) {
	dir := filepath.Join(s.dir, "rack")
	token, err := simulated.Token(dir)
	if err != nil {
		return nil, nil, errors.Trace(err)
	}
	rack, address, err := s.b.serve(ctx, "rack", "provisionerd", "simrack", "--data-dir", dir, "--listen", "127.0.0.1:0", "--fast",
		"--logging", "<root>=ERROR")
	if err != nil {
		return nil, nil, errors.Trace(err)
	}
	s.others = append(s.others, rack)
	err = modelconfig.New(s.conn).Set(ctx, map[string]any{"rack-url": "http://" + address, "rack-token": token})
	if err != nil {
		return nil, nil, errors.Trace(err)
	}
	worker, err = s.b.work("worker", "provisionerd", "model", "--agent-file", filepath.Join(s.dir, "agents", "machine-0.yaml"),
		"--model", s.person.ModelUUID, "--logging", "<root>=WARNING")
	if err != nil {
		return nil, nil, errors.Trace(err)
	}
	s.others = append(s.others, worker)
	return rack, worker, nil
}
