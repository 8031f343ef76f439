package common

import "github.com/slipway-project/slipway/core/tag"

// Connection is what the constructor of a facade is told of the connection that
// it is for.
type Connection struct {
	Auth      Authorizer
	Resources *Resources
	Object    string   // the id of the object asked for; only facades with objects get one that is not empty
	Presence  Presence // never nil
	Agents    Agents   // never nil
}

// Presence knows which agents are there.
type Presence interface {
	// AgentAlive reports whether a machine's agent is connected, or cannot be
	// expected to be yet, for instance because the server has just started.
	AgentAlive(modelUUID string, t tag.Tag) bool
}

// Agents can end the connections of agents.
type Agents interface {
	// DropAgent ends every connection on which that agent of a model is logged
	// in. It does not wait for them.
	DropAgent(modelUUID string, t tag.Tag)
}
