// The presence is not exported, and is tested here with a clock of its own.
package apiserver

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slipway-project/slipway/core/network"
	"github.com/slipway-project/slipway/core/tag"
	"github.com/slipway-project/slipway/state"
	"github.com/slipway-project/slipway/state/statetest"
)

// sharing returns the part of a server that shares who is connected to it.
func sharing(t *testing.T, c *state.Controller, id string) *Server {
	t.Helper()
	address := []network.HostPort{{Address: network.NewAddress("10.0.0." + id), Port: 17070}}
	if err := c.Publish(context.Background(), id, address); err != nil {
		t.Fatal(err)
	}
	s := &Server{presence: newPresence(time.Now()), cfg: Config{Controller: c, ServerID: id}}
	s.tomb.Go(s.sharePresence)
	t.Cleanup(func() {
		s.presence.close()
		s.tomb.Kill(nil)
		if err := s.tomb.Wait(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestServersShareWhoIsConnected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		site, tap := statetest.OpenMemory(t)
		second, err := state.Open(ctx, tap, state.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = second.Close() })
		a, b := sharing(t, site.Controller, "1"), sharing(t, second, "2")
		time.Sleep(settleTime + 5*time.Second)
		m := tag.NewMachineTag("0/lxd/1")
		told := b.presence.WatchAgents("model")
		<-told.Changes()
		wantHere := func(s *Server, want bool) {
			t.Helper()
			time.Sleep(graceTime + 3*shareEvery)
			if got := s.presence.AgentAlive("model", m); got != want {
				t.Errorf("server %s: agent alive = %v, want %v", s.cfg.ServerID, got, want)
			}
		}
		wantHere(b, false)
		first := a.presence.enter(agentKey{"model", m})
		wantHere(b, true)
		if ids := <-told.Changes(); !slices.Equal(ids, []string{"0/lxd/1"}) {
			t.Errorf("told of %q", ids)
		}
		again := b.presence.enter(agentKey{"model", m}) // it moves
		first.Kill()
		wantHere(a, true)
		if len(told.Changes()) != 0 {
			t.Error("told of an agent that was there all the time")
		}
		left := time.Now()
		again.Kill()
		wantHere(a, false)
		wantHere(b, false)
		if got := b.presence.AgentLeft("model", m); !got.Equal(left) {
			t.Errorf("the agent left at %v, want %v", got, left)
		}
		writes := tap.Counts()["Apply"]
		time.Sleep(time.Hour)
		if got := tap.Counts()["Apply"] - writes; got != 0 {
			t.Errorf("%d writes although nobody came or went", got)
		}

		a.presence.enter(agentKey{"model", m})
		wantHere(b, true)
		// The others take a server that is dead off the list, and forget its agents.
		roll := second.NewRoll("2")
		for range 2 {
			if _, err := roll.Call(ctx, time.Now(), 0); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		wantHere(b, false)
		if err := site.Publish(ctx, "1", nil); err != nil { // it was only held up
			t.Fatal(err)
		}
		wantHere(b, true)
	})
}
