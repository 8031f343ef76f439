package state

import (
	"context"
	"maps"
	"slices"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/core/kind"
	"github.com/slipway-project/slipway/core/tag"
	"github.com/slipway-project/slipway/store"
)

// The kinds of blocks.
const (
	BlockChange  = "BlockChange"  // nothing may be changed
	BlockRemove  = "BlockRemove"  // nothing may be removed
	BlockDestroy = "BlockDestroy" // the model may not be destroyed
)

// The local ids of the documents in extrasC.
const (
	blocksID      = "blocks"
	annotationsID = "annotations"
)

// blocksDoc are the operations that somebody switched off in a model.
type blocksDoc struct {
	On map[string]string `json:"on,omitempty"` // messages by kind
}

// Blocks is the handle on the operations that are switched off in a model.
type Blocks struct{ st *State }

// Blocks returns the handle on the operations that are switched off in the
// model.
func (st *State) Blocks() *Blocks { return &Blocks{st} }

// All returns the messages of the blocks that are on, by their kind.
func (bs *Blocks) All(ctx context.Context) (map[string]string, error) {
	d, err := readSite[blocksDoc](ctx, bs.st.c, bs.st.key(extrasC, blocksID))
	if err != nil {
		return nil, errors.Annotate(err, "cannot list blocks")
	}
	return d.On, nil
}

// Check returns an error satisfying kind.ActionBlocked, with the message of the
// block, if one of the kinds is on.
func (bs *Blocks) Check(ctx context.Context, kinds ...string) error {
	on, err := bs.All(ctx)
	if err != nil {
		return errors.Trace(err)
	}
	for _, k := range kinds {
		message, blocked := on[k]
		if blocked && message == "" {
			return kind.ActionBlocked
		}
		if blocked {
			return errors.WithType(errors.New(message), kind.ActionBlocked)
		}
	}
	return nil
}

// maxText bounds messages and annotations, in bytes.
const maxText = 4 << 10

// SwitchOn switches a block on. It returns an error satisfying errors.NotValid for
// an unknown kind, one that is on already, and a message that is too long.
func (bs *Blocks) SwitchOn(ctx context.Context, k, message string) error {
	if len(message) > maxText {
		return errors.NotValidf("message of %d bytes (at most %d)", len(message), maxText)
	}
	return bs.change(ctx, k, func(on map[string]string) error {
		if _, is := on[k]; is {
			return typedf(errors.NotValid, "block %s is already ON", k)
		}
		on[k] = message
		return nil
	})
}

// SwitchOff switches a block off. It returns an error satisfying errors.NotValid for
// an unknown kind, and one that is off already.
func (bs *Blocks) SwitchOff(ctx context.Context, k string) error {
	return bs.change(ctx, k, func(on map[string]string) error {
		if _, is := on[k]; !is {
			return typedf(errors.NotValid, "block %s is already OFF", k)
		}
		delete(on, k)
		return nil
	})
}

// Clear switches every block off.
func (bs *Blocks) Clear(ctx context.Context) error {
	err := updateOwn(ctx, bs.st, bs.st.key(extrasC, blocksID), func(d *blocksDoc) error {
		if len(d.On) == 0 {
			return errNoChange
		}
		d.On = nil
		return nil
	})
	return errors.Annotate(err, "cannot remove blocks")
}

// BlockedModel is a model in which operations are switched off.
type BlockedModel struct {
	Model *Model
	Kinds []string // of operations, sorted
}

// Blocked returns the models in which operations are switched off, in the order
// of All.
func (ms *Models) Blocked(ctx context.Context) ([]BlockedModel, error) {
	all, err := ms.All(ctx)
	if err != nil {
		return nil, errors.Trace(err)
	}
	keys := make([]store.Key, len(all))
	for i, m := range all {
		keys[i] = modelKey(extrasC, m.uuid, blocksID)
	}
	docs, err := ms.c.store.GetAll(ctx, keys)
	if err != nil {
		return nil, errors.Annotate(err, "cannot list blocks")
	}
	var out []BlockedModel
	for i, d := range docs {
		if d.Rev == 0 {
			continue
		}
		b, err := decode[blocksDoc](d)
		if err != nil {
			return nil, errors.Trace(err)
		}
		if len(b.On) > 0 {
			out = append(out, BlockedModel{all[i], slices.Sorted(maps.Keys(b.On))})
		}
	}
	return out, nil
}

func (bs *Blocks) change(ctx context.Context, k string, change func(map[string]string) error) error {
	if !slices.Contains([]string{BlockChange, BlockRemove, BlockDestroy}, k) {
		return errors.NotValidf("block type %q (use %s, %s or %s)", k, BlockChange, BlockRemove, BlockDestroy)
	}
	return updateOwn(ctx, bs.st, bs.st.key(extrasC, blocksID), func(d *blocksDoc) error {
		if d.On == nil {
			d.On = make(map[string]string)
		}
		return change(d.On)
	})
}

// annotationsDoc are the notes of people about the things of a model.
type annotationsDoc struct {
	Of map[string]map[string]string `json:"of,omitempty"` // by tag, then key
}

// Annotations is the handle on the notes of people about the things of a
// model.
type Annotations struct{ st *State }

// Annotations returns the handle on the notes of people about the things of the
// model.
func (st *State) Annotations() *Annotations { return &Annotations{st} }

// maxAnnotations bounds how many notes a model has.
const maxAnnotations = 10000

// Get returns the annotations of a machine or of the model, by key. It returns an
// error satisfying errors.NotFound if there is no such thing in the model.
func (as *Annotations) Get(ctx context.Context, t tag.Tag) (map[string]string, error) {
	if err := as.check(ctx, t); err != nil {
		return nil, err
	}
	d, err := readSite[annotationsDoc](ctx, as.st.c, as.st.key(extrasC, annotationsID))
	if err != nil {
		return nil, errors.Annotatef(err, "cannot get annotations of %s", t)
	}
	return d.Of[t.String()], nil
}

// Set changes annotations of a machine or of the model; an empty value removes
// one. It errs as Get does, and returns an error satisfying errors.NotValid for a
// bad key and for too much.
func (as *Annotations) Set(ctx context.Context, t tag.Tag, changes map[string]string) error {
	if err := as.check(ctx, t); err != nil {
		return err
	}
	for key, value := range changes {
		if key == "" || len(key)+len(value) > maxText {
			return errors.NotValidf("annotation %.40q of %d bytes", key, len(key)+len(value))
		}
	}
	return updateOwn(ctx, as.st, as.st.key(extrasC, annotationsID), func(d *annotationsDoc) error {
		if d.Of == nil {
			d.Of = make(map[string]map[string]string)
		}
		of := d.Of[t.String()]
		if of == nil {
			of = make(map[string]string)
		}
		maps.Copy(of, changes)
		maps.DeleteFunc(of, func(_, value string) bool { return value == "" })
		d.Of[t.String()] = of
		if len(of) == 0 {
			delete(d.Of, t.String())
		}
		total := 0
		for _, notes := range d.Of {
			total += len(notes)
		}
		if total > maxAnnotations {
			return typedf(errors.NotValid, "more than %d annotations in one model", maxAnnotations)
		}
		return nil
	})
}

// check returns an error satisfying errors.NotFound unless t is a machine of the
// model, or the model.
func (as *Annotations) check(ctx context.Context, t tag.Tag) error {
	switch t.Kind() {
	case tag.MachineKind:
		_, err := as.st.machine(ctx, t.Id())
		return err
	case tag.ModelKind:
		if t.Id() == as.st.modelUUID {
			return nil
		}
	}
	return errors.NotFoundf("%s %s", t.Kind(), t.Id())
}
