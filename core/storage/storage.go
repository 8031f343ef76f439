// Package storage is what the model knows of places where volumes are made: pools,
// which give a type of storage a name and settings.
package storage

import (
	"regexp"
	"slices"

	"github.com/juju/errors"
)

// The types of storage that a machine's agent makes itself, once it runs, so that
// nothing of it has to be made with the machine.
const (
	Loop   = "loop"
	RootFS = "rootfs"
	TmpFS  = "tmpfs"
)

// IsDynamic reports whether volumes of a type of storage are made by the machine's
// agent, not with the machine.
func IsDynamic(provider string) bool { return slices.Contains([]string{Loop, RootFS, TmpFS}, provider) }

// Pool is a type of storage with settings, under a name.
type Pool struct {
	Name     string         `json:"name"`
	Provider string         `json:"provider"`        // the type of storage
	Attrs    map[string]any `json:"attrs,omitempty"` // strings, booleans and numbers; the provider knows what they mean
}

// The bounds of a pool. What is in them is the operator's; they only keep one
// pool from taking all the room.
const (
	MaxAttrs = 64
	MaxText  = 4 << 10 // bytes of all names and values
)

// word is what names of pools and types look like.
var word = regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9?-]{0,127}$`)

// Check returns an error satisfying errors.NotValid that says what is wrong with
// the pool.
func (p Pool) Check() error {
	if !word.MatchString(p.Name) {
		return errors.NotValidf("pool name %.40q (letters, digits and hyphens, beginning with a letter)", p.Name)
	}
	if !word.MatchString(p.Provider) {
		return errors.NotValidf("type of storage %.40q (letters, digits and hyphens, beginning with a letter)", p.Provider)
	}
	if len(p.Attrs) > MaxAttrs {
		return errors.NotValidf("pool with %d settings (at most %d)", len(p.Attrs), MaxAttrs)
	}
	size := 0
	for key, value := range p.Attrs {
		if key == "" {
			return errors.NotValidf("empty name of a pool's setting")
		}
		size += len(key)
		switch v := value.(type) {
		case string:
			size += len(v)
		case bool, int, float64:
		default:
			return errors.NotValidf("setting %q of a pool (a text, number or boolean is wanted)", key)
		}
	}
	if size > MaxText {
		return errors.NotValidf("pool with settings of %d bytes (at most %d)", size, MaxText)
	}
	return nil
}
