// Package singular is the facade Singular, version 2: with it, one of several
// workers gets the exclusive right to care for a model, or for what belongs to the
// whole site. Only a connection that has claimed a model may write to other
// machines than its own there, and only for as long as nobody else has taken over.
package singular

import (
	"context"
	"crypto/rand"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/apiserver/common"
	"github.com/slipway-project/slipway/core/kind"
	"github.com/slipway-project/slipway/core/tag"
	"github.com/slipway-project/slipway/params"
)

// Lease is the right to care for something, as the connection has it or not.
type Lease interface {
	// Claim takes or renews the lease, and returns the owner's epoch. It returns
	// an error satisfying kind.LeaseDenied if somebody else has it.
	Claim(ctx context.Context, holder string, d time.Duration) (int64, error)
	// Wait returns when the lease can be claimed.
	Wait(ctx context.Context) error
	// Release gives the lease up, if the connection has it.
	Release(ctx context.Context) error
}

// Leases are those that one connection can claim.
type Leases struct {
	ModelUUID, ControllerUUID string
	Model                     Lease // on the connection's model
	Site                      Lease // on what belongs to no model
}

// Singular is the facade of one connection.
type Singular struct {
	leases    Leases
	auth      common.Authorizer
	resources *common.Resources
	session   string // of claims that name none
}

// newSingular returns the facade, or ErrPerm for a caller that manages nothing.
func newSingular(leases Leases, c common.Connection) (*Singular, error) {
	if !c.Auth.AuthModelManager() {
		return nil, common.ErrPerm
	}
	return &Singular{leases, c.Auth, c.Resources, rand.Text()}, nil
}

// find returns the lease on an entity. Others than the connection's own model and
// the site are answered with ErrPerm.
func (s *Singular) find(entity string) (Lease, error) {
	t, err := tag.ParseTag(entity)
	switch {
	case err != nil:
	case t.Kind() == tag.ModelKind && t.Id() == s.leases.ModelUUID:
		return s.leases.Model, nil
	case t.Kind() == tag.ControllerKind && t.Id() == s.leases.ControllerUUID:
		return s.leases.Site, nil
	}
	return nil, common.ErrPerm
}

// Claim makes the caller the only one to care for entities, or renews what it
// has. The error of a claim that somebody else's stands against has the code "lease
// claim denied".
func (s *Singular) Claim(ctx context.Context, args params.SingularClaims) (params.SingularResults, error) {
	results := make([]params.SingularResult, len(args.Claims))
	for i, c := range args.Claims {
		epoch, err := s.claim(ctx, c)
		results[i] = params.SingularResult{Epoch: epoch, Error: common.ServerError(err)}
	}
	return params.SingularResults{Results: results}, nil
}

func (s *Singular) claim(ctx context.Context, c params.SingularClaim) (int64, error) {
	own := s.auth.AuthTag().String()
	lease, err := s.find(c.EntityTag)
	if err != nil || c.ClaimantTag != own {
		return 0, common.ErrPerm
	}
	if c.Session == "" {
		c.Session = s.session
	}
	return lease.Claim(ctx, own+"#"+c.Session, c.Duration)
}

// Wait answers when each entity could be claimed, one after another.
func (s *Singular) Wait(ctx context.Context, args params.Entities) (params.ErrorResults, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	id := s.resources.Register(waiting{cancel})
	defer func() { _ = s.resources.Stop(id) }() // it has nothing to say
	return s.each(args, func(l Lease) error {
		err := l.Wait(ctx)
		if ctx.Err() != nil {
			return kind.Stopped
		}
		return err
	}), nil
}

// waiting is a Wait under way, which ends with the connection.
type waiting struct{ cancel context.CancelFunc }

// Kill implements common.Resource.
func (w waiting) Kill() { w.cancel() }

// Wait implements common.Resource.
func (w waiting) Wait() error { return nil }

// Release gives up what the connection has claimed, so that others need not wait
// for it to run out. What it has not claimed is no error.
func (s *Singular) Release(ctx context.Context, args params.Entities) (params.ErrorResults, error) {
	return s.each(args, func(l Lease) error {
		return errors.Trace(l.Release(ctx))
	}), nil
}

// each does something with the lease on each entity.
func (s *Singular) each(args params.Entities, do func(Lease) error) params.ErrorResults {
	results := make([]params.ErrorResult, len(args.Entities))
	for i, e := range args.Entities {
		l, err := s.find(e.Tag)
		if err == nil {
			err = do(l)
		}
		results[i].Error = common.ServerError(err)
	}
	return params.ErrorResults{Results: results}
}
