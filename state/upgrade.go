package state

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/core/network"
	"github.com/slipway-project/slipway/store"
)

// ErrOldFormat says that state was written by an older version and has to be
// brought up to date with Upgrade.
const ErrOldFormat = errors.ConstError("state has an older format")

// upgrade brings state from the format before to the next one.
type upgrade struct {
	to   int    // the format
	what string // for the log
	// build returns what to write. It is one batch with the new format, so that
	// no half of it is ever seen.
	build func(ctx context.Context, s store.Store) ([]store.Op, error)
}

// upgrades returns every step there is, in order.
func upgrades() []upgrade {
	return []upgrade{
		{2, "one document for each API server's addresses", splitHostPorts},
	}
}

// FormatOf returns the format of the state in s, and the one that this version
// writes. It returns an error satisfying errors.NotFound if there is no state.
func FormatOf(ctx context.Context, s store.Store) (found, current int, err error) {
	doc, _, err := readFormat(ctx, s)
	if err != nil {
		return 0, format, errors.Trace(err)
	}
	return doc.Format, format, nil
}

func readFormat(ctx context.Context, s store.Store) (*controllerDoc, store.Rev, error) {
	d, err := s.Get(ctx, controllerKey)
	if errors.Is(err, errors.NotFound) {
		return nil, 0, errors.NotFoundf("controller state")
	}
	if err != nil {
		return nil, 0, errors.Trace(err)
	}
	doc, err := decode[controllerDoc](d)
	return doc, d.Rev, err
}

// Upgrade brings the state in s to the format of this version, one step after the
// other. Each step is whole or not done at all. No controller of an older version
// may use s meanwhile.
func Upgrade(ctx context.Context, s store.Store) error {
	return upgradeWith(ctx, s, upgrades())
}

func upgradeWith(ctx context.Context, s store.Store, steps []upgrade) error {
	for _, step := range steps {
		done := false
		err := store.Run(ctx, s, func(int) ([]store.Op, error) {
			doc, rev, err := readFormat(ctx, s)
			if err != nil {
				return nil, err
			}
			if done = doc.Format < step.to; !done {
				return nil, nil
			}
			if doc.Format != step.to-1 {
				return nil, errors.NotSupportedf("format %d (there is no way from it to %d)", doc.Format, step.to)
			}
			ops, err := step.build(ctx, s)
			if err != nil {
				return nil, err
			}
			doc.Format = step.to
			op, err := writeOp(controllerKey, rev, doc, nil)
			return append(ops, op), err
		})
		if err != nil {
			return errors.Annotatef(err, "cannot upgrade state to format %d (%s)", step.to, step.what)
		}
		if done {
			logger.Infof("upgraded state to format %d: %s", step.to, step.what)
		}
	}
	return nil
}

// splitHostPorts is the step to format 2. Until then the addresses of all
// servers were one document, which servers would take from one another.
func splitHostPorts(ctx context.Context, s store.Store) ([]store.Op, error) {
	d, err := s.Get(ctx, siteKey(siteC, "api-host-ports"))
	if errors.Is(err, errors.NotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, errors.Trace(err)
	}
	var old struct {
		Servers [][]network.HostPort `json:"servers"`
	}
	if err := json.Unmarshal(d.Data, &old); err != nil {
		return nil, errors.Annotate(err, "cannot read API addresses")
	}
	ops := []store.Op{store.Remove(d.Key, d.Rev)}
	for i, addresses := range old.Servers {
		op, err := insertOp(serverKey(fmt.Sprint(i)), serverDoc{Addresses: addresses}, nil)
		if err != nil {
			return nil, errors.Trace(err)
		}
		ops = append(ops, op)
	}
	return ops, nil
}
