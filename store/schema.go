package store

import "github.com/juju/errors"

// Schema is the set of collections that a store was opened with. Every
// implementation checks what it is given with it, so that all of them refuse
// the same calls with the same words.
type Schema struct {
	collections map[string]map[string]bool // name to its index names
}

// NewSchema returns the schema of the declared collections. It returns an error
// satisfying errors.NotValid for an empty name or one declared twice.
func NewSchema(collections []Collection) (Schema, error) {
	s := Schema{collections: make(map[string]map[string]bool, len(collections))}
	for _, c := range collections {
		if c.Name == "" {
			return Schema{}, errors.NotValidf("collection without a name")
		}
		if _, ok := s.collections[c.Name]; ok {
			return Schema{}, errors.NotValidf("collection %q declared twice", c.Name)
		}
		indexes := make(map[string]bool, len(c.Indexes))
		for _, name := range c.Indexes {
			if name == "" || indexes[name] {
				return Schema{}, errors.NotValidf("index %q of collection %q, empty or declared twice,", name, c.Name)
			}
			indexes[name] = true
		}
		s.collections[c.Name] = indexes
	}
	return s, nil
}

// CheckKey returns an error satisfying errors.NotValid unless key has an id and
// its collection is declared.
func (s Schema) CheckKey(key Key) error {
	if _, ok := s.collections[key.Collection]; !ok {
		return errors.NotValidf("undeclared collection %q", key.Collection)
	}
	if key.ID == "" {
		return errors.NotValidf("document of %s without an id", key.Collection)
	}
	return nil
}

// CheckQuery returns an error satisfying errors.NotValid for an undeclared
// collection or index, or a limit below zero.
func (s Schema) CheckQuery(q Query) error {
	indexes, ok := s.collections[q.Collection]
	switch {
	case !ok:
		return errors.NotValidf("undeclared collection %q", q.Collection)
	case q.Index != "" && !indexes[q.Index]:
		return errors.NotValidf("undeclared index %q of collection %s", q.Index, q.Collection)
	case q.Index == "" && q.Value != "":
		return errors.NotValidf("listing of %s by value %q without an index", q.Collection, q.Value)
	case q.Limit < 0:
		return errors.NotValidf("page of %d documents", q.Limit)
	}
	return nil
}

// CheckOps returns an error satisfying errors.NotValid for a malformed batch:
// an operation without kind or id, an undeclared collection or index, a
// document named twice, or a replacement, removal or assertion at no revision.
func (s Schema) CheckOps(ops []Op) error {
	var seen map[Key]bool
	if len(ops) > 1 {
		seen = make(map[Key]bool, len(ops))
	}
	for _, op := range ops {
		if err := s.checkOp(op); err != nil {
			return err
		}
		if seen == nil {
			continue
		}
		if seen[op.Key] {
			return errors.NotValidf("batch that names %s %q twice", op.Collection, op.ID)
		}
		seen[op.Key] = true
	}
	return nil
}

// checkOp checks one operation.
func (s Schema) checkOp(op Op) error {
	if err := s.CheckKey(op.Key); err != nil {
		return err
	}
	switch op.Kind {
	case OpInsert, OpAssertMissing:
	case OpReplace, OpRemove, OpAssert:
		if op.Rev <= 0 {
			return errors.NotValidf("%s of %s %q at revision %d", op.Kind, op.Collection, op.ID, op.Rev)
		}
	default:
		return errors.NotValidf("%s of %s %q", op.Kind, op.Collection, op.ID)
	}
	for name := range op.Index {
		if !s.collections[op.Collection][name] {
			return errors.NotValidf("undeclared index %q of collection %s", name, op.Collection)
		}
	}
	return nil
}
