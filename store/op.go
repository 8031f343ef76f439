package store

import "fmt"

// OpKind says what an operation does.
type OpKind int

// The kinds of operation. The zero kind is not valid.
const (
	OpInsert        OpKind = iota + 1 // write a document that must be missing
	OpReplace                         // write a document that must be at Rev
	OpRemove                          // remove a document that must be at Rev
	OpAssert                          // require that a document is at Rev
	OpAssertMissing                   // require that a document is missing
)

// String returns the kind's name, for messages.
func (k OpKind) String() string {
	switch k {
	case OpInsert:
		return "insert"
	case OpReplace:
		return "replace"
	case OpRemove:
		return "remove"
	case OpAssert:
		return "assert"
	case OpAssertMissing:
		return "assert missing"
	}
	return fmt.Sprintf("operation %d", int(k))
}

// Op is one operation of a batch. Make it with Insert, Replace, Remove, Assert
// or AssertMissing.
type Op struct {
	Kind OpKind
	Key
	Rev   Rev               // for replace, remove and assert
	Data  []byte            // for insert and replace
	Index map[string]string // index name to value, for insert and replace; a name left out is not indexed
}

// Insert returns the operation that writes a new document.
func Insert(key Key, data []byte, index map[string]string) Op {
	return Op{Kind: OpInsert, Key: key, Data: data, Index: index}
}

// Replace returns the operation that writes a document read at rev anew.
func Replace(key Key, rev Rev, data []byte, index map[string]string) Op {
	return Op{Kind: OpReplace, Key: key, Rev: rev, Data: data, Index: index}
}

// Remove returns the operation that removes a document read at rev.
func Remove(key Key, rev Rev) Op {
	return Op{Kind: OpRemove, Key: key, Rev: rev}
}

// Assert returns the operation that requires a document still to be at rev.
func Assert(key Key, rev Rev) Op {
	return Op{Kind: OpAssert, Key: key, Rev: rev}
}

// AssertMissing returns the operation that requires a document not to exist.
func AssertMissing(key Key) Op {
	return Op{Kind: OpAssertMissing, Key: key}
}

// Writes reports whether the operation changes a document.
func (o Op) Writes() bool {
	return o.Kind == OpInsert || o.Kind == OpReplace || o.Kind == OpRemove
}
