// Package modelworkers is the facade ModelWorkers, version 1, an addition of this
// project to the protocol: what the workers of a site need beyond one model. A
// worker follows which models there are; superusers give workers identities of
// their own, under which they log in to the controller's model and so to any.
package modelworkers

import (
	"context"
	"crypto/rand"
	"encoding/base64"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/apiserver/common"
	"github.com/slipway-project/slipway/core/access"
	"github.com/slipway-project/slipway/core/tag"
	"github.com/slipway-project/slipway/params"
	"github.com/slipway-project/slipway/watcher"
)

// Backend is what the facade needs from below.
type Backend interface {
	ControllerModelUUID() string
	// WatchModels tells which models come, change their life and go, by UUID.
	WatchModels(ctx context.Context) (watcher.StringsWatcher, error)
	// AddWorker makes an identity.
	AddWorker(ctx context.Context, name, nonce, password string) (tag.Tag, error)
	// RemoveWorker takes an identity away, and returns what it was. It returns
	// an error satisfying errors.NotFound for an unknown name.
	RemoveWorker(ctx context.Context, name string) (tag.Tag, error)
}

// ModelWorkers is the facade of one connection.
type ModelWorkers struct {
	backend Backend
	conn    common.Connection
}

// newModelWorkers returns the facade, or ErrPerm if the caller is neither a
// manager nor a superuser.
func newModelWorkers(backend Backend, c common.Connection) (*ModelWorkers, error) {
	if !c.Auth.AuthModelManager() && !superuser(c.Auth) {
		return nil, common.ErrPerm
	}
	return &ModelWorkers{backend, c}, nil
}

func superuser(a common.Authorizer) bool { return a.ControllerAccess().Includes(access.Superuser) }

// WatchModels tells which models come, change their life and go, by UUID. It is
// for managers.
func (m *ModelWorkers) WatchModels(ctx context.Context) (params.StringsWatchResult, error) {
	if !m.conn.Auth.AuthModelManager() {
		return params.StringsWatchResult{}, common.ErrPerm
	}
	w, err := m.backend.WatchModels(ctx)
	if err != nil {
		return params.StringsWatchResult{}, errors.Trace(err)
	}
	return common.RegisterStrings(ctx, m.conn.Resources, w)
}

// AddWorkers makes identities. Their passwords are told here and never again.
func (m *ModelWorkers) AddWorkers(ctx context.Context, args params.AddWorkers) (params.AddWorkerResults, error) {
	if !superuser(m.conn.Auth) {
		return params.AddWorkerResults{}, common.ErrPerm
	}
	results := make([]params.AddWorkerResult, len(args.Workers))
	for i, w := range args.Workers {
		identity, err := m.add(ctx, w.Name)
		if err != nil {
			results[i].Error = common.OwnError(err)
			continue
		}
		results[i].Result = identity
	}
	return params.AddWorkerResults{Results: results}, nil
}

func (m *ModelWorkers) add(ctx context.Context, name string) (*params.WorkerIdentity, error) {
	password, nonce := random(), "worker:"+random()
	t, err := m.backend.AddWorker(ctx, name, nonce, password)
	if err != nil {
		return nil, errors.Trace(err)
	}
	return &params.WorkerIdentity{
		Tag: t.String(), Password: params.Secret(password), Nonce: nonce, ModelUUID: m.backend.ControllerModelUUID(),
	}, nil
}

// random returns 24 characters that hold 144 bits of chance.
func random() string {
	var b [18]byte
	_, _ = rand.Read(b[:]) // never fails
	return base64.StdEncoding.EncodeToString(b[:])
}

// RemoveWorkers takes identities away, and ends their connections.
func (m *ModelWorkers) RemoveWorkers(ctx context.Context, args params.RemoveWorkers) (params.ErrorResults, error) {
	if !superuser(m.conn.Auth) {
		return params.ErrorResults{}, common.ErrPerm
	}
	results := make([]params.ErrorResult, len(args.Names))
	for i, name := range args.Names {
		t, err := m.backend.RemoveWorker(ctx, name)
		if err != nil {
			results[i].Error = common.OwnError(err)
			continue
		}
		m.conn.Sessions.DropAgent(m.backend.ControllerModelUUID(), t)
	}
	return params.ErrorResults{Results: results}, nil
}
