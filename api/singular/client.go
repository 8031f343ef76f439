// Package singular asks the Singular facade, version 2: which of several workers
// is to care for the connection's model.
package singular

import (
	"context"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/api"
	"github.com/slipway-project/slipway/params"
	"github.com/slipway-project/slipway/rpc"
)

// Client makes the calls about one entity. Its methods may be called
// concurrently.
type Client struct {
	caller  api.Caller
	claim   params.SingularClaim
	request params.Entities
}

// Config says what is claimed, and by whom. All fields are required but Session.
type Config struct {
	Caller   api.Caller
	Entity   string        // the tag of the connection's model, or of the controller
	Claimant string        // the tag that is logged in
	Session  string        // the same for all connections of this process, and for no other process
	Duration time.Duration // from one second to one minute
}

// New returns a client.
func New(c Config) *Client {
	return &Client{
		caller:  c.Caller,
		claim:   params.SingularClaim{EntityTag: c.Entity, ClaimantTag: c.Claimant, Duration: c.Duration, Session: c.Session},
		request: params.Entities{Entities: []params.Entity{{Tag: c.Entity}}},
	}
}

func request(method string) rpc.Request {
	return rpc.Request{Type: "Singular", Version: 2, Method: method}
}

// Claim takes the lease, or renews it, and returns the owner's epoch. The lease
// lasts for its duration, counted from some time during the call. Claim returns
// an error satisfying kind.LeaseDenied if another worker has it.
func (c *Client) Claim(ctx context.Context) (int64, error) {
	var r params.SingularResults
	args := params.SingularClaims{Claims: []params.SingularClaim{c.claim}}
	if err := c.caller.Call(ctx, request("Claim"), args, &r); err != nil {
		return 0, errors.Trace(err)
	}
	return api.One(api.ResultsOf(r.Results, 1, func(r *params.SingularResult) (int64, *params.Error) {
		return r.Epoch, r.Error
	}))
}

// Wait returns when the lease can be claimed. It has no limit but ctx's.
func (c *Client) Wait(ctx context.Context) error {
	return c.call(ctx, "Wait")
}

// Release gives the lease up, so that another worker need not wait until it
// has run out.
func (c *Client) Release(ctx context.Context) error {
	return c.call(ctx, "Release")
}

func (c *Client) call(ctx context.Context, method string) error {
	var r params.ErrorResults
	if err := c.caller.Call(ctx, request(method), c.request, &r); err != nil {
		return errors.Trace(err)
	}
	return api.OneError(api.ErrorsOf(r, 1))
}
