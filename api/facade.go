package api

import (
	"context"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/params"
	"github.com/slipway-project/slipway/rpc"
)

// Facade makes calls of one version of a facade, for the client of it that embeds or keeps
// it. All fields are required.
type Facade struct {
	Caller  Caller
	Type    string // the facade's name
	Version int
}

// Request returns the call of a method.
func (f Facade) Request(method string) rpc.Request {
	return rpc.Request{Type: f.Type, Version: f.Version, Method: method}
}

// Call calls a method.
func (f Facade) Call(ctx context.Context, method string, args, result any) error {
	return errors.Trace(f.Caller.Call(ctx, f.Request(method), args, result))
}

// Errors calls a method about n things that answers with an error or none for each.
func (f Facade) Errors(ctx context.Context, method string, args any, n int) ([]error, error) {
	var r params.ErrorResults
	if err := f.Call(ctx, method, args, &r); err != nil {
		return nil, err
	}
	return ErrorsOf(r, n)
}

// Error is Errors about one thing.
func (f Facade) Error(ctx context.Context, method string, args any) error {
	return OneError(f.Errors(ctx, method, args, 1))
}

// Present returns what was answered, or an error in the place of nothing, which the server
// must not answer with; what says what it is.
func Present[T any](value *T, err *params.Error, what string) (T, *params.Error) {
	var none T
	switch {
	case err != nil:
		return none, err
	case value == nil:
		return none, &params.Error{Message: "server answered with no " + what}
	}
	return *value, nil
}
