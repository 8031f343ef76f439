package main

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/api"
	"github.com/slipway-project/slipway/api/agentfile"
	"github.com/slipway-project/slipway/api/client"
	"github.com/slipway-project/slipway/api/clientstore"
	"github.com/slipway-project/slipway/api/provisioner"
	"github.com/slipway-project/slipway/api/singular"
	"github.com/slipway-project/slipway/core/job"
	"github.com/slipway-project/slipway/core/kind"
	"github.com/slipway-project/slipway/core/network"
	"github.com/slipway-project/slipway/core/tag"
	"github.com/slipway-project/slipway/params"
)

// nonce is that of all machines which are not started by a worker.
const nonce = "bench:nonce"

// password is that of their agents.
const password = "the-password-of-agents-in-benchmarks"

// batch is how many machines one call is about.
const batch = 1000

// site is a controller of its own process, with what is around it.
type site struct {
	b          *bench
	dir        string
	controller *process
	others     []*process // that end with it, the last first
	person     api.Info   // the first user, in the default model
	manager    api.Info   // the first worker, in the default model
	conn       *api.Conn  // of the person
}

// newSite starts a new site and connects to it. The caller stops it.
func (b *bench) newSite(ctx context.Context) (*site, error) {
	s := &site{b: b, dir: filepath.Join(b.dir, fmt.Sprintf("site-%d", time.Now().UnixNano()))}
	bootstrap := exec.CommandContext(ctx, filepath.Join(b.programs, "controllerd"), "bootstrap", "--data-dir", s.dir, "--listen", "127.0.0.1:0")
	if out, err := bootstrap.CombinedOutput(); err != nil {
		return nil, errors.Annotatef(err, "cannot bootstrap: %s", out)
	}
	if err := s.run(ctx, "127.0.0.1:0"); err != nil {
		return nil, errors.Trace(err)
	}
	if err := s.connect(ctx); err != nil {
		s.stop()
		return nil, errors.Trace(err)
	}
	return s, nil
}

// run starts the controller.
func (s *site) run(ctx context.Context, listen string) error {
	var address string
	var err error
	s.controller, address, err = s.b.serve(ctx, "controller", "controllerd", "run", "--data-dir", s.dir, "--listen", listen, "--logging", "<root>=WARNING")
	if err != nil {
		return errors.Trace(err)
	}
	return errors.Trace(s.identities(address))
}

// identities reads how the person and the worker log in.
func (s *site) identities(address string) error {
	known, err := clientstore.New(filepath.Join(s.dir, "client")).Read()
	if err != nil {
		return errors.Trace(err)
	}
	c, account := known.Controllers[known.Current], known.Accounts[known.Current]
	model := known.Models[known.Current].Models["admin/default"].UUID
	s.person = api.Info{
		Addrs: []string{address}, CACert: c.CACert, ModelUUID: model, Tag: "user-" + account.User, Password: account.Password,
	}
	worker, err := agentfile.Read(filepath.Join(s.dir, "agents", "machine-0.yaml"))
	if err != nil {
		return errors.Trace(err)
	}
	s.manager = worker.Info()
	s.manager.Addrs, s.manager.ModelUUID = s.person.Addrs, model
	return nil
}

// connect connects the person.
func (s *site) connect(ctx context.Context) (err error) {
	s.conn, err = open(ctx, s.person)
	return errors.Trace(err)
}

// stop ends everything.
func (s *site) stop() {
	if s.conn != nil {
		_ = s.conn.Close() // its end is known
	}
	for i := len(s.others) - 1; i >= 0; i-- {
		s.others[i].stop()
	}
	s.controller.stop()
}

// open connects and logs in. Servers let few agents log in at a time: it tries
// again until ctx is done.
func open(ctx context.Context, info api.Info) (*api.Conn, error) {
	for {
		conn, err := api.Open(ctx, info, api.DialOptions{PingInterval: time.Hour})
		if !errors.Is(err, kind.TryAgain) {
			return conn, errors.Trace(err)
		}
		select {
		case <-ctx.Done():
			return nil, errors.Trace(ctx.Err())
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// openAll opens many connections.
func openAll(ctx context.Context, info api.Info, n int) ([]*api.Conn, error) {
	conns := make([]*api.Conn, n)
	err := together(n, 16, func(i int) (err error) {
		conns[i], err = open(ctx, info)
		return err
	})
	if err != nil {
		closeAll(conns)
		return nil, errors.Trace(err)
	}
	return conns, nil
}

func closeAll(conns []*api.Conn) {
	_ = together(len(conns), 64, func(i int) error {
		if conns[i] != nil {
			_ = conns[i].Close() // its end is known
		}
		return nil
	})
}

// inject adds machines that run already, and gives their agents a password. It
// returns their ids.
func (s *site) inject(ctx context.Context, n int) ([]string, error) {
	var ids []string
	people := client.New(s.conn)
	conn, err := open(ctx, s.manager)
	if err != nil {
		return nil, errors.Trace(err)
	}
	defer conn.Close()
	worker := provisioner.New(conn)
	lease := singular.New(singular.Config{
		Caller: conn, Entity: tag.NewModelTag(s.manager.ModelUUID).String(), Claimant: s.manager.Tag, Session: "bench", Duration: time.Minute,
	})
	for len(ids) < n {
		if _, err := lease.Claim(ctx); err != nil {
			return nil, errors.Trace(err)
		}
		var specs []params.AddMachineParams
		for i := len(ids); i < min(n, len(ids)+batch); i++ {
			specs = append(specs, params.AddMachineParams{
				Series: "jammy", Jobs: []string{string(job.HostUnits)}, InstanceID: "i-" + strconv.Itoa(i), Nonce: nonce,
				Addresses: []network.Address{network.NewAddress(fmt.Sprintf("10.1.%d.%d", i/250, i%250))},
			})
		}
		results, err := people.AddMachines(ctx, specs...)
		if err != nil {
			return nil, errors.Trace(err)
		}
		var passwords []provisioner.Password
		for _, r := range results {
			if r.Err != nil {
				return nil, errors.Trace(r.Err)
			}
			ids = append(ids, r.Value)
			passwords = append(passwords, provisioner.Password{ID: r.Value, Password: password})
		}
		answers, err := worker.SetPasswords(ctx, passwords...)
		if err != nil {
			return nil, errors.Trace(err)
		}
		for _, err := range answers {
			if err != nil {
				return nil, errors.Trace(err)
			}
		}
	}
	return ids, errors.Trace(lease.Release(ctx))
}
