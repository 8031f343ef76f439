package apiserver_test

import (
	"context"
	"testing"
	"time"

	"github.com/slipway-project/slipway/api/singular"
	"github.com/slipway-project/slipway/core/job"
	"github.com/slipway-project/slipway/params"
	"github.com/slipway-project/slipway/rpc"
	"github.com/slipway-project/slipway/state"
	"github.com/slipway-project/slipway/state/statetest"
)

// leaseTime is how long a claim lasts.
const leaseTime = time.Minute

// leaseOf returns a client of the lease on the default model.
func (s *site) leaseOf(c *rpc.Client, who credentials, session string) *singular.Client {
	return singular.New(singular.Config{
		Caller: c, Entity: "model-" + s.Default.ModelUUID(), Claimant: who.tag, Session: session, Duration: leaseTime,
	})
}

// worker adds an identity for another worker.
func (s *site) worker(name string) credentials {
	s.t.Helper()
	m, err := s.Workers().Add(context.Background(), state.WorkerSpec{Name: name, Nonce: agentNonce, Password: agentPassword})
	if err != nil {
		s.t.Fatal(err)
	}
	return credentials{m.Tag().String(), agentPassword, agentNonce}
}

// setStatus sets a machine's status and returns the failure.
func setStatus(t *testing.T, c *rpc.Client, facade string, version int, tag string) string {
	t.Helper()
	var r params.ErrorResults
	args := params.SetStatus{Entities: []params.EntityStatusArgs{{Tag: tag, Status: "started"}}}
	if err := call(c, facade, version, "SetStatus", args, &r); err != nil {
		t.Fatal(err)
	}
	if r.Results[0].Error == nil {
		return ""
	}
	return r.Results[0].Error.Code
}

func TestManagersWriteWhileTheyHoldTheLease(t *testing.T) {
	inMemory(t, func(t *testing.T, s *site) {
		ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
		defer cancel()
		machine := statetest.AddMachine(t, s.Default, state.MachineSpec{}).Tag().String()
		other := s.worker("other")
		model := modelPath(s.Default.ModelUUID())
		first, second := s.as(model, manager), s.as(model, other)
		const denied = "lease claim denied"
		if got := setStatus(t, first, "Provisioner", 3, machine); got != denied {
			t.Errorf("write of a manager that has claimed nothing: %q, want it refused", got)
		}
		if err := call(first, "Provisioner", 3, "Life", entities(machine), nil); err != nil {
			t.Errorf("read of a manager that has claimed nothing = %v", err)
		}
		a, b := s.leaseOf(first, manager, "a"), s.leaseOf(second, other, "b")
		if epoch, err := a.Claim(ctx); err != nil || epoch != 1 {
			t.Fatalf("claim = %d, %v, want epoch 1", epoch, err)
		}
		if _, err := b.Claim(ctx); codeOf(err) != "" || err == nil {
			t.Errorf("claim beside an owner = %v", err)
		}
		if got := setStatus(t, first, "Provisioner", 3, machine); got != "" {
			t.Errorf("write of the owner: %q", got)
		}
		if got := setStatus(t, second, "Provisioner", 3, machine); got != denied {
			t.Errorf("write of another: %q, want it refused", got)
		}
		start := time.Now()
		if err := b.Wait(ctx); err != nil {
			t.Fatal(err)
		}
		if got := time.Since(start); got < leaseTime/2 || got > leaseTime+2*time.Second {
			t.Errorf("waited %v for a lease of %v", got, leaseTime)
		}
		if epoch, err := b.Claim(ctx); err != nil || epoch != 2 {
			t.Errorf("claim = %d, %v, want epoch 2", epoch, err)
		}
		if got := setStatus(t, first, "Provisioner", 3, machine); got != denied {
			t.Errorf("write of the owner before: %q, want it refused", got)
		}
		if err := b.Release(ctx); err != nil {
			t.Errorf("release = %v", err)
		}
		if epoch, err := a.Claim(ctx); err != nil || epoch != 3 {
			t.Errorf("claim after a release = %d, %v, want epoch 3", epoch, err)
		}
	})
}

// TestManagersAreAgentsToo has the agents of managers report about themselves, for
// which there is nothing to claim.
func TestManagersAreAgentsToo(t *testing.T) {
	s := newSite(t)
	c := s.as(modelPath(s.ControllerModelUUID()), manager)
	if got := setStatus(t, c, "Machiner", 1, "machine-0"); got != "" {
		t.Errorf("a manager's status of its own: %q", got)
	}
	statetest.AddMachine(t, s.Management, state.MachineSpec{Jobs: []job.Job{job.ManageModel}})
	if got := setStatus(t, c, "Provisioner", 3, "machine-1"); got != "lease claim denied" {
		t.Errorf("the status of another manager: %q, want it refused", got)
	}
	// In another model the same id is another machine.
	statetest.AddMachine(t, s.Default, state.MachineSpec{})
	c = s.as(modelPath(s.Default.ModelUUID()), manager)
	if got := setStatus(t, c, "Provisioner", 3, "machine-0"); got != "lease claim denied" {
		t.Errorf("the status of a machine of the same id: %q, want it refused", got)
	}
}

func TestWaitingForALeaseEndsWithTheServer(t *testing.T) {
	inMemory(t, func(t *testing.T, s *site) {
		ctx := context.Background()
		if _, err := s.Default.Lease().Claim(ctx, "somebody", time.Minute); err != nil {
			t.Fatal(err)
		}
		c := s.as(modelPath(s.Default.ModelUUID()), manager)
		done := make(chan error, 1)
		go func() { done <- s.leaseOf(c, manager, "").Wait(ctx) }()
		if err := call(c, "Pinger", 1, "Ping", nil, nil); err != nil { // it has been asked by now
			t.Fatal(err)
		}
		start := time.Now()
		s.server.Kill()
		if err := <-done; err == nil {
			t.Error("the wait ended without an error")
		}
		if got := time.Since(start); got > 2*time.Second {
			t.Errorf("the wait held up the server's end for %v", got)
		}
	})
}
