package state

import (
	"context"
	"maps"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/store"
	"github.com/slipway-project/slipway/watcher"
)

// settingsDoc holds the settings of the site.
type settingsDoc struct {
	Attrs map[string]any `json:"attrs"`
}

var settingsKey = siteKey(siteC, "config")

// ControllerConfig returns the settings of the site, among them
// "controller-uuid".
func (c *Controller) ControllerConfig(ctx context.Context) (map[string]any, error) {
	d, err := readSite[settingsDoc](ctx, c, settingsKey)
	if err != nil {
		return nil, errors.Annotate(err, "cannot get controller config")
	}
	attrs := maps.Clone(d.Attrs)
	if attrs == nil {
		attrs = map[string]any{}
	}
	attrs["controller-uuid"] = c.doc.UUID
	return attrs, nil
}

// UpdateControllerConfig sets some settings of the site and removes others. It
// returns an error satisfying errors.NotValid for "controller-uuid", which never
// changes.
func (c *Controller) UpdateControllerConfig(ctx context.Context, set map[string]any, remove []string) error {
	err := updateSite(ctx, c, settingsKey, func(d *settingsDoc) error {
		if uuid, ok := set["controller-uuid"]; ok && uuid != c.doc.UUID {
			return errors.NotValidf("changing controller-uuid")
		}
		d.Attrs = maps.Clone(d.Attrs)
		if d.Attrs == nil {
			d.Attrs = map[string]any{}
		}
		maps.Copy(d.Attrs, set)
		for _, key := range append(remove, "controller-uuid") {
			delete(d.Attrs, key)
		}
		return nil
	})
	return errors.Annotate(err, "cannot update controller config")
}

// WatchControllerConfig returns a watcher of the settings of the site.
func (c *Controller) WatchControllerConfig() watcher.NotifyWatcher {
	return c.hub.watchKey(settingsKey)
}

// readSite returns one of the site's documents, or a zero one if it is missing.
func readSite[T any](ctx context.Context, c *Controller, key store.Key) (*T, error) {
	d, err := c.store.Get(ctx, key)
	if errors.Is(err, errors.NotFound) {
		return new(T), nil
	}
	if err != nil {
		return nil, errors.Trace(err)
	}
	return decode[T](d)
}

// updateSite applies a change to one of the site's documents, which need not be
// there yet.
func updateSite[T any](ctx context.Context, c *Controller, key store.Key, change func(*T) error) error {
	err := c.run(ctx, func(int) ([]store.Op, error) {
		docs, err := c.store.GetAll(ctx, []store.Key{key})
		if err != nil {
			return nil, err
		}
		v := new(T)
		if docs[0].Rev != 0 {
			if v, err = decode[T](docs[0]); err != nil {
				return nil, err
			}
		}
		if err := change(v); err != nil {
			return nil, err
		}
		op, err := writeOp(key, docs[0].Rev, v, nil)
		return []store.Op{op}, err
	})
	if errors.Is(err, errNoChange) {
		return nil
	}
	return err
}
