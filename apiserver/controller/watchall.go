package controller

import (
	"context"

	"github.com/juju/errors"
	"gopkg.in/tomb.v2"

	"github.com/slipway-project/slipway/apiserver/common"
	"github.com/slipway-project/slipway/params"
	"github.com/slipway-project/slipway/watcher"
)

// WatchAllModels follows everything in all models, for superusers. What follows is
// told by the facade AllModelWatcher.
func (c *V3) WatchAllModels(ctx context.Context) (params.AllWatcherID, error) {
	if err := c.superuser(); err != nil {
		return params.AllWatcherID{}, err
	}
	if err := c.conn.Resources.Room(); err != nil {
		return params.AllWatcherID{}, err
	}
	w, err := newModelsWatcher(ctx, c.reads)
	if err != nil {
		return params.AllWatcherID{}, errors.Trace(err)
	}
	return params.AllWatcherID{WatcherID: c.conn.Resources.Register(w)}, nil
}

// modelsWatcher follows models, each by a goroutine of its own that waits with
// what it has read until somebody takes it: changes after that gather below, where
// they are merged. So it holds little, however slow its reader is.
type modelsWatcher struct {
	tomb   tomb.Tomb
	from   Followed
	models watcher.StringsWatcher

	out   chan batch
	ended chan string // UUIDs of models that are no longer followed

	start chan []string // the models that were there at the beginning, by UUID

	// The rest belongs to the Next that has put its value into turn.
	turn     chan struct{}
	begun    bool            // everything that was there has been told
	unread   map[string]bool // models that were there and have not been read; nil before they are known
	gathered []params.Delta  // what has been read of the others
}

// batch is what is told of one model.
type batch struct {
	uuid   string
	deltas []params.Delta
}

func newModelsWatcher(ctx context.Context, from Followed) (*modelsWatcher, error) {
	models, err := from.WatchModels(ctx)
	if err != nil {
		return nil, errors.Trace(err)
	}
	w := &modelsWatcher{
		from: from, models: models, out: make(chan batch), ended: make(chan string), turn: make(chan struct{}, 1), start: make(chan []string, 1),
	}
	w.tomb.Go(w.loop)
	return w, nil
}

// loop has every model followed, from when it is there.
func (w *modelsWatcher) loop() error {
	defer func() {
		w.models.Kill()
		_ = w.models.Wait() // that it ended has been told
	}()
	followed := make(map[string]bool)
	again := make(map[string]bool) // that were named since they began to be followed
	begun := false
	for {
		select {
		case <-w.tomb.Dying():
			return tomb.ErrDying
		case uuid := <-w.ended:
			delete(followed, uuid)
			if again[uuid] { // it may have come back meanwhile
				delete(again, uuid)
				followed[uuid] = true
				w.tomb.Go(func() error { return w.follow(uuid) })
			}
		case uuids, ok := <-w.models.Changes():
			if !ok {
				return errors.Annotate(w.models.Wait(), "cannot follow the models")
			}
			for _, uuid := range uuids {
				if followed[uuid] {
					again[uuid] = begun
					continue
				}
				followed[uuid] = true
				w.tomb.Go(func() error { return w.follow(uuid) })
			}
			if !begun {
				begun = true
				w.start <- uuids
			}
		}
	}
}

// follow tells what is in one model until it is gone.
func (w *modelsWatcher) follow(uuid string) error {
	ctx := w.tomb.Context(nil)
	err := w.tell(ctx, uuid)
	switch {
	case !w.tomb.Alive():
		return tomb.ErrDying // whatever was cut off by that
	case err != nil && !errors.Is(err, errors.NotFound):
		return err
	}
	// A model that went before anything was told of it is waited for too.
	select {
	case w.out <- batch{uuid: uuid}:
	case <-ctx.Done():
		return tomb.ErrDying
	}
	select {
	case w.ended <- uuid:
		return nil
	case <-ctx.Done():
		return tomb.ErrDying
	}
}

// tell is follow without its end. It returns nil once the model is gone.
func (w *modelsWatcher) tell(ctx context.Context, uuid string) error {
	d, err := w.from.Follow(ctx, uuid)
	if err != nil {
		return errors.Trace(err)
	}
	defer func() {
		d.Kill()
		_ = d.Wait() // that it ended has been told
	}()
	for {
		deltas, err := d.Next(ctx)
		if err != nil {
			return errors.Trace(err)
		}
		select {
		case w.out <- batch{uuid, deltas}:
		case <-ctx.Done():
			return tomb.ErrDying
		}
		for _, one := range deltas {
			if _, model := one.Entity.(*params.ModelUpdate); model && one.Removed {
				return nil
			}
		}
	}
}

// Next implements common.Deltas.
func (w *modelsWatcher) Next(ctx context.Context) ([]params.Delta, error) {
	select {
	case w.turn <- struct{}{}:
		defer func() { <-w.turn }()
	case <-ctx.Done():
		return nil, common.ErrStopped
	case <-w.tomb.Dying():
		return nil, w.why()
	}
	if !w.begun {
		return w.everything(ctx)
	}
	for {
		b, err := await(ctx, w, w.out)
		if err != nil || len(b.deltas) > 0 {
			return b.deltas, err
		}
	}
}

// everything tells what is in the models that were there at the beginning, once
// all of them have been read.
func (w *modelsWatcher) everything(ctx context.Context) ([]params.Delta, error) {
	if w.unread == nil {
		uuids, err := await(ctx, w, w.start)
		if err != nil {
			return nil, err
		}
		w.unread, w.gathered = make(map[string]bool), []params.Delta{}
		for _, uuid := range uuids {
			w.unread[uuid] = true
		}
	}
	for len(w.unread) > 0 {
		b, err := await(ctx, w, w.out)
		if err != nil {
			return nil, err // what was gathered is told by the next call
		}
		w.gathered = append(w.gathered, b.deltas...)
		delete(w.unread, b.uuid)
	}
	all := w.gathered
	w.begun, w.gathered = true, nil
	return all, nil
}

// await returns the next value of a channel, unless the call or the watcher ends.
func await[T any](ctx context.Context, w *modelsWatcher, from <-chan T) (T, error) {
	var none T
	select {
	case v := <-from:
		return v, nil
	case <-ctx.Done():
		return none, common.ErrStopped
	case <-w.tomb.Dying():
		return none, w.why()
	}
}

// why says why the watcher has ended.
func (w *modelsWatcher) why() error {
	if err := w.tomb.Err(); err != nil && err != tomb.ErrStillAlive {
		return err
	}
	return common.ErrStopped
}

// Kill implements common.Resource.
func (w *modelsWatcher) Kill() { w.tomb.Kill(nil) }

// Wait implements common.Resource.
func (w *modelsWatcher) Wait() error { return w.tomb.Wait() }
