package config

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/juju/errors"
)

// Kind says what values a setting has, and how it is kept.
type Kind int

// The kinds of setting.
const (
	String   Kind = iota // kept as string
	Bool                 // kept as bool; "true" and "false" are read too
	Int                  // kept as int; text is read too
	Duration             // kept as string, such as "1m30s"
	Tags                 // kept as map[string]string; "k=v k2=v2" is read too
)

// String returns what the kind is called in messages.
func (k Kind) String() string {
	return [...]string{"a string", "true or false", "a whole number", "a duration such as 30s or 5m", "a list of key=value pairs"}[k]
}

// Field is everything there is to know of one setting.
type Field struct {
	Name    string
	Kind    Kind
	Default any      // as it is kept; nil means the zero value of the kind
	Values  []string // the only ones accepted, in any case; nil means any
	Doc     string   // one sentence for people

	Mandatory      bool // must be set, and not to nothing
	Immutable      bool // keeps the value that the model was made with
	ControllerOnly bool // the site's, the same in every model
	Secret         bool // never shown
	// Check says what is wrong with a value as it is kept, if anything. It is not
	// asked about an empty string.
	Check func(value any) error
}

// Schema is a table of settings.
type Schema []Field

// Field returns the setting called name.
func (s Schema) Field(name string) (Field, bool) {
	i := slices.IndexFunc(s, func(f Field) bool { return f.Name == name })
	if i < 0 {
		return Field{}, false
	}
	return s[i], true
}

// Names returns the names of all settings, in the table's order.
func (s Schema) Names() []string {
	out := make([]string, len(s))
	for i, f := range s {
		out[i] = f.Name
	}
	return out
}

// Defaults returns the default of every setting that has one or whose kind
// has a useful zero value, which is all of them.
func (s Schema) Defaults() Attrs {
	out := make(Attrs, len(s))
	for _, f := range s {
		out[f.Name] = f.value()
	}
	return out
}

// Coerce returns attrs with each value in the form in which it is kept. Those
// that are not in s are left as they are. It stops at the first value, in
// order of names, that is not acceptable.
func (s Schema) Coerce(attrs map[string]any) (Attrs, error) {
	out := maps.Clone(Attrs(attrs))
	if out == nil {
		out = Attrs{}
	}
	for _, name := range slices.Sorted(maps.Keys(out)) {
		f, ok := s.Field(name)
		if !ok {
			continue
		}
		value, err := f.coerce(out[name])
		if err != nil {
			return nil, errors.WithType(err, errors.NotValid)
		}
		out[name] = value
	}
	return out, nil
}

// Complete is Coerce for the settings of s alone, with the defaults of those
// that attrs does not have.
func (s Schema) Complete(attrs map[string]any) (Attrs, error) {
	coerced, err := s.Coerce(attrs)
	if err != nil {
		return nil, err
	}
	out := s.Defaults()
	for _, f := range s {
		value, set := coerced[f.Name]
		if set {
			out[f.Name] = value
		}
		if f.Mandatory && (!set || value == "") {
			return nil, missing(f.Name, set)
		}
	}
	return out, nil
}

// missing is the error for a mandatory setting that is not there, or empty.
func missing(name string, empty bool) error {
	if empty {
		return errors.WithType(errors.Errorf("empty %s in model configuration", name), errors.NotValid)
	}
	return errors.WithType(errors.Errorf("%s missing from model configuration", name), errors.NotValid)
}

// value returns the default as it is kept.
func (f Field) value() any {
	if f.Default != nil {
		return f.Default
	}
	switch f.Kind {
	case Bool:
		return false
	case Int:
		return 0
	case Duration:
		return "0s"
	case Tags:
		return map[string]string{}
	}
	return ""
}

// coerce returns value in the form in which it is kept, or says why it cannot
// be.
func (f Field) coerce(value any) (any, error) {
	kept, ok := f.convert(value)
	if !ok {
		return nil, f.bad(value, "want "+f.Kind.String())
	}
	if text, ok := kept.(string); ok && f.Values != nil && text != "" {
		i := slices.IndexFunc(f.Values, func(v string) bool { return strings.EqualFold(v, text) })
		if i < 0 {
			return nil, f.bad(value, "want one of "+strings.Join(f.Values, ", "))
		}
		kept = f.Values[i]
	}
	if f.Check != nil && kept != "" {
		if err := f.Check(kept); err != nil {
			return nil, f.bad(value, err.Error())
		}
	}
	return kept, nil
}

// bad is the error for a value that f does not accept. A secret's value is not
// repeated.
func (f Field) bad(value any, why string) error {
	if f.Secret {
		return errors.Errorf("invalid %s: %s", f.Name, why)
	}
	return errors.Errorf("invalid %s %q: %s", f.Name, fmt.Sprint(value), why)
}

// convert brings value into the form of f's kind, and reports false if it is
// of no such kind.
func (f Field) convert(value any) (any, bool) {
	switch f.Kind {
	case Bool:
		return toBool(value)
	case Int:
		return toInt(value)
	case Duration:
		return toDuration(value)
	case Tags:
		return toTags(value)
	}
	switch v := value.(type) {
	case string:
		return v, true
	case json.Number, int, int64, float64: // a port or a version such as 2, unquoted
		return fmt.Sprint(v), true
	}
	return nil, false
}

// toBool and those below convert what people, JSON and code write for a kind
// into how it is kept. They report false for anything else.
func toBool(value any) (any, bool) {
	switch v := value.(type) {
	case bool:
		return v, true
	case string:
		switch strings.ToLower(v) {
		case "true":
			return true, true
		case "false":
			return false, true
		}
	}
	return nil, false
}

func toInt(value any) (any, bool) {
	switch v := value.(type) {
	case int:
		return v, true
	case int64:
		return int(v), true
	case float64: // how JSON numbers arrive
		if v == math.Trunc(v) && math.Abs(v) < 1<<53 {
			return int(v), true
		}
	case json.Number:
		return toInt(v.String())
	case string:
		n, err := strconv.Atoi(v)
		return n, err == nil
	}
	return nil, false
}

func toDuration(value any) (any, bool) {
	switch v := value.(type) {
	case time.Duration:
		return v.String(), v >= 0
	case string:
		d, err := time.ParseDuration(v)
		if err != nil || d < 0 {
			return nil, false
		}
		return d.String(), true
	}
	return nil, false
}

func toTags(value any) (any, bool) {
	out := map[string]string{}
	switch v := value.(type) {
	case map[string]string:
		maps.Copy(out, v)
	case map[string]any:
		for k, e := range v {
			s, ok := e.(string)
			if !ok {
				return nil, false
			}
			out[k] = s
		}
	case string:
		for _, pair := range strings.Fields(v) {
			k, e, found := strings.Cut(pair, "=")
			if !found || k == "" {
				return nil, false
			}
			out[k] = e
		}
	default:
		return nil, false
	}
	return out, true
}

// Attrs are settings by name, each in the form in which it is kept. The
// methods return the zero value for a setting that is not there.
type Attrs map[string]any

// String returns a setting of kind String.
func (a Attrs) String(name string) string {
	s, _ := a[name].(string)
	return s
}

// Bool returns a setting of kind Bool.
func (a Attrs) Bool(name string) bool {
	b, _ := a[name].(bool)
	return b
}

// Int returns a setting of kind Int.
func (a Attrs) Int(name string) int {
	n, _ := a[name].(int)
	return n
}

// Duration returns a setting of kind Duration.
func (a Attrs) Duration(name string) time.Duration {
	d, err := time.ParseDuration(a.String(name))
	if err != nil {
		return 0
	}
	return d
}

// Tags returns a copy of a setting of kind Tags.
func (a Attrs) Tags(name string) map[string]string {
	m, _ := a[name].(map[string]string)
	return maps.Clone(m)
}
