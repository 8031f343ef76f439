package common

import (
	"context"

	"github.com/juju/errors"
	"github.com/juju/loggo"

	"github.com/slipway-project/slipway/core/entity"
	"github.com/slipway-project/slipway/core/tag"
	"github.com/slipway-project/slipway/params"
)

var logger = loggo.GetLogger("slipway.apiserver.common")

// Found is the answer for one tag: an entity, seen through capability E, or why
// there is none.
type Found[E any] struct {
	Entity E
	Err    error
}

// EntityGetter finds many entities at once: one answer for each tag, in the
// same order. An answer's error satisfies errors.NotFound if there is no such
// entity. The error of the call itself is of the search, not of an entity.
type EntityGetter[E any] func(ctx context.Context, tags []tag.Tag) ([]Found[E], error)

// EntityFinder finds entities of any type, many at once.
type EntityFinder interface {
	FindEntities(ctx context.Context, tags []tag.Tag) ([]entity.Found, error)
}

// Entities returns the EntityGetter of a capability. What names the capability
// in the error of entities that lack it, such as "removal".
func Entities[E any](f EntityFinder, what string) EntityGetter[E] {
	return func(ctx context.Context, tags []tag.Tag) ([]Found[E], error) {
		all, err := f.FindEntities(ctx, tags)
		if err != nil {
			return nil, errors.Trace(err)
		}
		out := make([]Found[E], len(all))
		for i, found := range all {
			if found.Err != nil {
				out[i].Err = found.Err
				continue
			}
			e, ok := found.Entity.(E)
			if !ok {
				out[i].Err = errors.Errorf("entity %q does not support %s", tags[i], what)
				continue
			}
			out[i].Entity = e
		}
		return out, nil
	}
}

// Bulk is a call about many entities of which each is handled by itself.
type Bulk[E any] struct {
	Get EntityGetter[E]
	Can GetAuthFunc

	// Parse reads a tag; nil means tag.ParseTag, and that a text which is no
	// tag is answered with ErrPerm. Otherwise it is answered with Parse's error.
	Parse func(text string) (tag.Tag, error)

	// Fresh is for calls that change entities: one that is named twice is
	// found again, so that the second time sees what the first has done.
	Fresh bool
}

// Do calls do for each entity that is a tag, may be touched, and exists, in
// the order of n tags. It calls fail instead, or if do fails. It returns an error
// only if nothing was tried.
func (b Bulk[E]) Do(ctx context.Context, n int, text func(i int) string, do func(i int, e E) error, fail func(i int, err *params.Error)) error {
	if n == 0 {
		return nil
	}
	can, err := b.Can()
	if err != nil {
		return errors.Trace(err)
	}
	tags, at := make([]tag.Tag, 0, n), make([]int, 0, n)
	for i := range n {
		t, err := b.tag(text(i), can)
		if err != nil {
			fail(i, ServerError(err))
			continue
		}
		tags, at = append(tags, t), append(at, i)
	}
	if len(tags) == 0 {
		return nil
	}
	found, err := b.Get(ctx, tags)
	if err != nil {
		return errors.Trace(err)
	}
	for j, i := range at {
		f := found[j]
		if b.Fresh && repeated(tags, j) {
			f = getOne(ctx, b.Get, tags[j])
		}
		if f.Err == nil {
			f.Err = do(i, f.Entity)
		}
		if f.Err != nil {
			fail(i, ServerError(f.Err))
		}
	}
	return nil
}

// tag reads a tag and checks that its entity may be touched.
func (b Bulk[E]) tag(text string, can AuthFunc) (tag.Tag, error) {
	parse := b.Parse
	if parse == nil {
		parse = tag.ParseTag
	}
	t, err := parse(text)
	if err != nil {
		if b.Parse == nil {
			err = ErrPerm
		}
		return nil, err
	}
	if !can(t) {
		return nil, ErrPerm
	}
	return t, nil
}

// repeated reports whether tags[j] stands before j too.
func repeated(tags []tag.Tag, j int) bool {
	for _, t := range tags[:j] {
		if t == tags[j] {
			return true
		}
	}
	return false
}

// getOne finds one entity.
func getOne[E any](ctx context.Context, get EntityGetter[E], t tag.Tag) Found[E] {
	found, err := get(ctx, []tag.Tag{t})
	if err != nil {
		return Found[E]{Err: err}
	}
	return found[0]
}

// ParseAny is tag.ParseTag, for Bulk.Parse.
func ParseAny(text string) (tag.Tag, error) { return tag.ParseTag(text) }

// ParseMachine is tag.ParseMachineTag, for Bulk.Parse.
func ParseMachine(text string) (tag.Tag, error) {
	t, err := tag.ParseMachineTag(text)
	if err != nil {
		return nil, err
	}
	return t, nil
}

// tagOf returns the function that Bulk.Do reads the tags of args with.
func tagOf(args params.Entities) func(i int) string {
	return func(i int) string { return args.Entities[i].Tag }
}
