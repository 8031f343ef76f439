// Package agent asks the Agent facade, version 2: what an agent learns of its
// own entity right after it has logged in.
package agent

import (
	"context"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/api"
	"github.com/slipway-project/slipway/core/life"
	"github.com/slipway-project/slipway/params"
	"github.com/slipway-project/slipway/rpc"
)

// Client makes the calls of one agent. Its methods may be called concurrently.
type Client struct {
	caller api.Caller
	tag    string
}

// New returns a client that uses the connection of the agent of an entity,
// given by tag.
func New(c api.Caller, tag string) *Client { return &Client{caller: c, tag: tag} }

func (c *Client) call(ctx context.Context, method string, args, result any) error {
	return errors.Trace(c.caller.Call(ctx, rpc.Request{Type: "Agent", Version: 2, Method: method}, args, result))
}

// Entity is what an agent must know of its entity.
type Entity struct {
	Life          life.Value
	Jobs          []string
	ContainerType string // empty for a top-level machine
}

// Entity returns what the agent must know of its entity.
func (c *Client) Entity(ctx context.Context) (Entity, error) {
	args := params.Entities{Entities: []params.Entity{{Tag: c.tag}}}
	var r params.AgentGetEntitiesResults
	if err := c.call(ctx, "GetEntities", args, &r); err != nil {
		return Entity{}, err
	}
	return api.One(api.ResultsOf(r.Entities, 1, func(r *params.AgentEntity) (Entity, *params.Error) {
		return Entity{Life: life.Value(r.Life), Jobs: r.Jobs, ContainerType: r.ContainerType}, r.Error
	}))
}

// SetPassword changes the agent's own password, at least 24 bytes, for later
// logins.
func (c *Client) SetPassword(ctx context.Context, password params.Secret) error {
	args := params.EntityPasswords{Changes: []params.EntityPassword{{Tag: c.tag, Password: password}}}
	var r params.ErrorResults
	if err := c.call(ctx, "SetPasswords", args, &r); err != nil {
		return err
	}
	return api.OneError(api.ErrorsOf(r, 1))
}
