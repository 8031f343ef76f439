package metrics

import (
	"context"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/store"
)

// Store returns s with its operations counted.
func (m *Metrics) Store(s store.Store) store.Store { return &timedStore{s, m} }

// timedStore is a store whose operations are counted.
type timedStore struct {
	store.Store
	m *Metrics
}

func (s *timedStore) Get(ctx context.Context, key store.Key) (store.Doc, error) {
	start := time.Now()
	d, err := s.Store.Get(ctx, key)
	s.m.operation("get", start, err)
	return d, err
}

func (s *timedStore) GetAll(ctx context.Context, keys []store.Key) ([]store.Doc, error) {
	start := time.Now()
	d, err := s.Store.GetAll(ctx, keys)
	s.m.operation("get-all", start, err)
	return d, err
}

func (s *timedStore) List(ctx context.Context, q store.Query) (store.Page, error) {
	start := time.Now()
	p, err := s.Store.List(ctx, q)
	s.m.operation("list", start, err)
	return p, err
}

func (s *timedStore) Apply(ctx context.Context, ops []store.Op) error {
	start := time.Now()
	err := s.Store.Apply(ctx, ops)
	s.m.operation("apply", start, err)
	return err
}

// operation counts an operation. That a document is missing, and that one has
// changed meanwhile, is how the store is used, and no failure.
func (m *Metrics) operation(op string, start time.Time, err error) {
	result := outcomeOK
	switch {
	case errors.Is(err, store.ErrConflict):
		result = "conflict"
	case err != nil && !errors.Is(err, errors.NotFound):
		result = "error"
	}
	m.store.WithLabelValues(op, result).Observe(time.Since(start).Seconds())
}
