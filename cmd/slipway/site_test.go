package main

import (
	"context"
	"net"
	"testing"

	"github.com/slipway-project/slipway/api"
	"github.com/slipway-project/slipway/api/machiner"
	"github.com/slipway-project/slipway/apiserver"
	"github.com/slipway-project/slipway/core/hardware"
	"github.com/slipway-project/slipway/core/instance"
	"github.com/slipway-project/slipway/core/network"
	"github.com/slipway-project/slipway/core/status"
	"github.com/slipway-project/slipway/internal/logfile"
	"github.com/slipway-project/slipway/internal/tlsfiles"
	"github.com/slipway-project/slipway/state"
	"github.com/slipway-project/slipway/state/statetest"
)

// agentPassword is what the agents of a real site log in with.
const agentPassword = "an agent's password of many bytes"

// realSite is a controller with real state behind a real server. What the
// workers and agents would do, its methods do.
type realSite struct {
	*statetest.Site
	t      testing.TB
	files  *tlsfiles.Dir
	server *apiserver.Server
	addr   string
	agents map[string]*api.Conn
	logs   *logfile.Store
}

func newRealSite(t testing.TB) *realSite {
	t.Helper()
	s := &realSite{Site: statetest.Open(t), t: t, agents: make(map[string]*api.Conn)}
	var err error
	if s.files, err = tlsfiles.Open(t.TempDir(), tlsfiles.Hosts()); err != nil {
		t.Fatal(err)
	}
	if s.logs, err = logfile.Open(logfile.Options{Dir: t.TempDir()}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.logs.Close(); err != nil {
			t.Errorf("logs: %v", err)
		}
	})
	s.serve("127.0.0.1:0")
	t.Cleanup(func() {
		for _, conn := range s.agents {
			_ = conn.Close() // whatever became of it
		}
		s.server.Kill()
		if err := s.server.Wait(); err != nil {
			t.Errorf("server: %v", err)
		}
	})
	return s
}

// serve starts the server.
func (s *realSite) serve(listen string) {
	server, err := apiserver.New(context.Background(), apiserver.Config{
		Controller: s.Controller, Listen: listen, Certificate: s.files.Certificate, CACert: s.files.AuthorityPEM(),
		Logs: s.logs,
	})
	if err != nil {
		s.t.Fatal(err)
	}
	s.server, s.addr = server, server.Addr().String()
	at := server.Addr().(*net.TCPAddr)
	reach := network.HostPort{Address: network.NewAddress(at.IP.String()), Port: at.Port}
	reach.Scope = network.ScopeCloudLocal // as servers on loopback have to say
	if err := s.SetAPIHostPorts(context.Background(), [][]network.HostPort{{reach}}); err != nil {
		s.t.Fatal(err)
	}
}

// disconnect is a server that is started again.
func (s *realSite) disconnect() {
	s.server.Kill()
	if err := s.server.Wait(); err != nil {
		s.t.Errorf("server: %v", err)
	}
	s.serve(s.addr)
}

// setStatus has the worker provision the machine if need be, and its agent log
// in and report.
func (s *realSite) setStatus(id, what, message string) error {
	ctx := context.Background()
	m, err := s.Default.Machines().Get(ctx, id)
	if err != nil {
		return err
	}
	if err := s.logs.Append(s.Default.ModelUUID(), logfile.Record{
		Entity: api.MachineTag(id), Time: epoch, Level: "INFO", Module: "slipway.agent", Location: "agent.go:7", Message: what + "\x1b[2J",
	}); err != nil {
		return err
	}
	if what != string(status.Started) {
		if conn := s.agents[id]; conn != nil {
			_ = conn.Close()
			delete(s.agents, id)
		}
		info := status.Info{Status: status.Status(what), Message: message}
		if what == string(status.Error) {
			info.Data = map[string]any{status.DataTries: 3, status.DataNextTry: "2026-01-02T03:05:05Z"}
		}
		return m.SetStatus(ctx, info)
	}
	if !m.IsProvisioned() {
		if err := s.provision(ctx, m); err != nil {
			return err
		}
	}
	conn, err := api.Open(ctx, api.Info{Addrs: []string{s.addr}, CACert: s.files.AuthorityPEM(), ModelUUID: s.Default.ModelUUID(),
		Tag: api.MachineTag(id), Password: agentPassword, Nonce: "nonce-" + id}, api.DialOptions{})
	if err != nil {
		return err
	}
	if old := s.agents[id]; old != nil {
		_ = old.Close()
	}
	s.agents[id] = conn
	return machiner.New(conn, id).SetStatus(ctx, status.Started, message, nil)
}

func (s *realSite) provision(ctx context.Context, m *state.Machine) error {
	hw, err := hardware.Parse("arch=amd64 cores=2 mem=4096M availability-zone=z1")
	if err != nil {
		return err
	}
	if err := m.SetPassword(ctx, agentPassword); err != nil {
		return err
	}
	err = m.SetInstanceInfo(ctx, state.InstanceInfo{ID: instance.ID("i-" + m.Id()), Nonce: "nonce-" + m.Id(), Hardware: hw,
		Addresses: []network.Address{network.NewAddress("10.0.0." + m.Id())}})
	if err != nil {
		return err
	}
	return m.SetInstanceStatus(ctx, status.Info{Status: status.Running})
}

// remove has the worker see the machine out.
func (s *realSite) remove(id string) error {
	ctx := context.Background()
	m, err := s.Default.Machines().Get(ctx, id)
	if err != nil {
		return err
	}
	if err := m.EnsureDead(ctx); err != nil {
		return err
	}
	return m.Remove(ctx)
}
