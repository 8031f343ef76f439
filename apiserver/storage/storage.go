// Package storage is the facade Storage, version 3: the storage pools of a model,
// which machines' volumes are made in. People who may read the model list them, and
// those who may write create and remove them.
package storage

import (
	"context"
	"slices"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/apiserver/common"
	"github.com/slipway-project/slipway/core/access"
	"github.com/slipway-project/slipway/core/storage"
	"github.com/slipway-project/slipway/params"
)

// Backend is what the facade needs from below.
type Backend interface {
	// All returns every pool, by name.
	All(ctx context.Context) ([]storage.Pool, error)
	Add(ctx context.Context, p storage.Pool) error
	Remove(ctx context.Context, name string) error
}

// Storage is the facade of one connection.
type Storage struct {
	backend Backend
	auth    common.Authorizer
}

// newFacade returns the facade, or ErrPerm if the caller is no person who may read
// the model.
func newFacade(b Backend, c common.Connection) (*Storage, error) {
	if !common.AuthClient(c.Auth) || !c.Auth.ModelAccess().Includes(access.Read) {
		return nil, common.ErrPerm
	}
	return &Storage{b, c.Auth}, nil
}

func (s *Storage) canWrite() error {
	if !s.auth.ModelAccess().Includes(access.Write) {
		return common.ErrPerm
	}
	return nil
}

// CreatePool makes a pool.
func (s *Storage) CreatePool(ctx context.Context, args params.StoragePool) error {
	if err := s.canWrite(); err != nil {
		return err
	}
	return s.backend.Add(ctx, storage.Pool(args))
}

// ListPools returns, for each filter, the pools that it lets pass.
func (s *Storage) ListPools(ctx context.Context, args params.StoragePoolFilters) (params.StoragePoolsResults, error) {
	if len(args.Filters) == 0 {
		return params.StoragePoolsResults{}, nil
	}
	all, err := s.backend.All(ctx)
	if err != nil {
		return params.StoragePoolsResults{}, errors.Trace(err)
	}
	results := make([]params.StoragePoolsResult, len(args.Filters))
	for i, f := range args.Filters {
		for _, p := range all {
			if passes(f.Names, p.Name) && passes(f.Providers, p.Provider) {
				results[i].Result = append(results[i].Result, params.StoragePool(p))
			}
		}
	}
	return params.StoragePoolsResults{Results: results}, nil
}

// passes reports whether a value is among those wanted; none means any.
func passes(wanted []string, value string) bool {
	return len(wanted) == 0 || slices.Contains(wanted, value)
}

// RemovePool removes pools that no volume is in.
func (s *Storage) RemovePool(ctx context.Context, args params.StoragePoolDeleteArgs) (params.ErrorResults, error) {
	if err := s.canWrite(); err != nil {
		return params.ErrorResults{}, err
	}
	results := make([]params.ErrorResult, len(args.Pools))
	for i, p := range args.Pools {
		results[i].Error = common.ServerError(s.backend.Remove(ctx, p.Name))
	}
	return params.ErrorResults{Results: results}, nil
}
