// Package facadetest gives tests of facades a connection of any caller.
package facadetest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/slipway-project/slipway/apiserver/common"
	"github.com/slipway-project/slipway/core/access"
	"github.com/slipway-project/slipway/core/tag"
	"github.com/slipway-project/slipway/environs/config"
	"github.com/slipway-project/slipway/params"
	"github.com/slipway-project/slipway/rpc"
	"github.com/slipway-project/slipway/watcher"
)

// Caller is who is on the other end of a connection.
type Caller struct {
	Tag        string // empty means nobody that has a tag
	Manager    bool
	Model      access.Model
	Controller access.Controller
}

var _ common.Authorizer = Caller{}

// The callers that most tests need.
var (
	Reader    = Caller{Tag: "user-reader", Model: access.Read, Controller: access.Login}
	Writer    = Caller{Tag: "user-writer", Model: access.Write, Controller: access.Login}
	Superuser = Caller{Tag: "user-admin", Model: access.Admin, Controller: access.Superuser}
	Manager   = Caller{Tag: "machine-0", Manager: true}
)

// Agent returns the agent of a machine, given by its tag.
func Agent(machine string) Caller { return Caller{Tag: machine} }

// AuthTag implements common.Authorizer.
func (c Caller) AuthTag() tag.Tag {
	t, err := tag.ParseTag(c.Tag)
	if err != nil {
		return nil
	}
	return t
}

// AuthMachineAgent implements common.Authorizer.
func (c Caller) AuthMachineAgent() bool {
	t := c.AuthTag()
	return t != nil && t.Kind() == tag.MachineKind
}

// AuthModelManager implements common.Authorizer.
func (c Caller) AuthModelManager() bool { return c.Manager }

// ModelAccess implements common.Authorizer.
func (c Caller) ModelAccess() access.Model { return c.Model }

// ControllerAccess implements common.Authorizer.
func (c Caller) ControllerAccess() access.Controller { return c.Controller }

// Sessions notes which connections were to be ended.
type Sessions struct{ Dropped []string }

// DropAgent implements common.Sessions.
func (s *Sessions) DropAgent(modelUUID string, t tag.Tag) {
	s.Dropped = append(s.Dropped, modelUUID+" "+t.String())
}

// DropUser implements common.Sessions.
func (s *Sessions) DropUser(t tag.Tag) { s.Dropped = append(s.Dropped, t.String()) }

// Gone are the tags of the agents that are not connected; all others are.
type Gone map[string]bool

// AgentAlive implements common.Presence.
func (g Gone) AgentAlive(_ string, t tag.Tag) bool { return !g[t.String()] }

// GoneSince returns when all that are Gone have gone.
func GoneSince() time.Time { return time.Date(2024, 1, 2, 3, 4, 5, 0, time.UTC) }

// AgentLeft implements common.Presence.
func (g Gone) AgentLeft(_ string, t tag.Tag) time.Time {
	if g[t.String()] {
		return GoneSince()
	}
	return time.Time{}
}

// WatchAgents implements common.Presence; nobody comes or goes.
func (g Gone) WatchAgents(string) watcher.StringsWatcher {
	w := &never{out: make(chan []string, 1)}
	w.out <- []string{}
	return w
}

// never is a watcher of which only the first event comes.
type never struct {
	out  chan []string
	once sync.Once
}

// Changes implements watcher.StringsWatcher.
func (n *never) Changes() <-chan []string { return n.out }

// Kill implements watcher.Watcher.
func (n *never) Kill() { n.once.Do(func() { close(n.out) }) }

// Wait implements watcher.Watcher.
func (n *never) Wait() error { return nil }

// Schema is the table of settings of the provider "simulated"; no other is
// known.
var Schema = config.Schema{
	{Name: "zones", Kind: config.Int, Default: 3},
	{Name: "rack-password", Kind: config.String, Secret: true},
}

// Connect returns the connection of a caller. It ends with the test.
func Connect(t testing.TB, who Caller) common.Connection {
	t.Helper()
	r := common.NewResources()
	t.Cleanup(r.StopAll)
	return common.Connection{
		Auth: who, Resources: r, Presence: Gone{}, Sessions: &Sessions{}, Version: "2.0.0", Schema: schema,
		MediaURL: func(context.Context) (string, error) { return "https://media.test/installer", nil },
	}
}

// Await waits for a result as a connection does.
func Await(p rpc.Pending) (any, error) {
	for {
		if result, done, err := p.Poll(); done {
			return result, err
		}
		woken := make(chan struct{})
		p.Ready(func() { close(woken) })
		<-woken
	}
}

// Entities returns the parameters that name these tags.
func Entities(tags ...string) params.Entities {
	var e params.Entities
	for _, t := range tags {
		e.Entities = append(e.Entities, params.Entity{Tag: t})
	}
	return e
}

// Text returns an error of a result as "message [code]", empty for none.
func Text(e *params.Error) string {
	switch {
	case e == nil:
		return ""
	case e.Code == "":
		return e.Message
	}
	return e.Message + " [" + e.Code + "]"
}

// Texts is Text for the results of a call.
func Texts(results []params.ErrorResult) []string {
	out := make([]string, len(results))
	for i, r := range results {
		out[i] = Text(r.Error)
	}
	return out
}

// Equal fails the test unless both lists are the same.
func Equal(t testing.TB, what string, got []string, want ...string) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%s = %q, want %q", what, got, want)
		return
	}
	for i := range got {
		if got[i] != want[i] {
			t.Errorf("%s: result %d is %q, want %q", what, i, got[i], want[i])
		}
	}
}

// Denied is the text of a result about what the caller may not touch.
const Denied = "permission denied [unauthorized access]"
