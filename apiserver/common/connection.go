package common

import (
	"context"
	"time"

	"github.com/slipway-project/slipway/core/tag"
	"github.com/slipway-project/slipway/environs/config"
	"github.com/slipway-project/slipway/watcher"
)

// Connection is what the constructor of a facade is told of the connection that
// it is for.
type Connection struct {
	Auth      Authorizer
	Resources *Resources
	Object    string   // the id of the object asked for; only facades with objects get one that is not empty
	Presence  Presence // never nil
	Sessions  Sessions // never nil

	// Schema returns the table of a provider's own settings, or an error
	// satisfying errors.NotFound if the provider is not known. Never nil.
	Schema func(provider string) (config.Schema, error)
	// Version is the server's.
	Version string
	// MediaURL returns below which URL BMCs fetch the media of installers, or an error
	// satisfying errors.NotSupported if the server has none. Never nil.
	MediaURL func(ctx context.Context) (string, error)
}

// Presence knows which agents are there.
type Presence interface {
	// AgentAlive reports whether a machine's agent is connected, or cannot be
	// expected to be yet, for instance because the server has just started.
	AgentAlive(modelUUID string, t tag.Tag) bool
	// AgentLeft returns since when an agent that is not alive has had no
	// connection, or a zero time if that is not known.
	AgentLeft(modelUUID string, t tag.Tag) time.Time
	// WatchAgents names the machines of a model whose agents came or went; its
	// first event is empty. AnyAgent in an event stands for all machines.
	WatchAgents(modelUUID string) watcher.StringsWatcher
}

// AnyAgent is what an event of Presence.WatchAgents has in it when any agent may
// be missed from now on.
const AnyAgent = ""

// Sessions can end the connections of others.
type Sessions interface {
	// DropAgent ends every connection on which that agent of a model is logged
	// in, also those to other models. It does not wait for them.
	DropAgent(modelUUID string, t tag.Tag)
	// DropUser is DropAgent for a person.
	DropUser(t tag.Tag)
}
