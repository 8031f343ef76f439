package config

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/juju/errors"
)

// Config is the settings of one model. It never changes. It may hold a
// provider's secrets, so it prints as its name alone.
type Config struct {
	set Attrs // only what somebody set
}

// New returns the settings in attrs, checked. Values that come as text, or as
// JSON makes them, are brought into the form in which they are kept.
func New(attrs map[string]any) (*Config, error) {
	for _, path := range slices.Sorted(maps.Keys(replaced)) {
		if _, ok := attrs[path]; ok {
			return nil, invalidf("%s cannot be kept in a model: set %s to the file's content", path, replaced[path])
		}
	}
	fields := Fields()
	set := translate(attrs)
	for _, f := range fields {
		if !f.Mandatory {
			continue
		}
		if value, ok := set[f.Name]; !ok || value == "" {
			return nil, missing(f.Name, ok)
		}
	}
	set, err := fields.Coerce(set)
	if err != nil {
		return nil, err
	}
	if err := checkBases(set); err != nil {
		return nil, err
	}
	return &Config{set: set}, nil
}

// translate returns a copy of attrs with outdated settings replaced by what
// they mean today. A nil value counts as not set.
func translate(attrs map[string]any) Attrs {
	out := maps.Clone(Attrs(attrs))
	if out == nil {
		out = Attrs{}
	}
	maps.DeleteFunc(out, func(_ string, v any) bool { return v == nil })
	if safe, ok := toBool(out["provisioner-safe-mode"]); ok {
		if _, set := out[HarvestModeKey]; !set {
			out[HarvestModeKey] = string(HarvestAll)
			if safe == true {
				out[HarvestModeKey] = string(HarvestDestroyed)
			}
		}
		delete(out, "provisioner-safe-mode")
	}
	return out
}

// checkBases refuses a default base and a default series that are not the same.
func checkBases(set Attrs) error {
	b, series := set.String(DefaultBase), set.String(DefaultSeries)
	if b == "" || series == "" {
		return nil
	}
	if got := baseOf(b, ""); got != baseOf("", series) {
		return invalidf("%s %q and %s %q are not the same: set one of them", DefaultBase, b, DefaultSeries, series)
	}
	return nil
}

// invalidf returns an error satisfying errors.NotValid with just the text given.
func invalidf(format string, args ...any) error {
	return errors.WithType(errors.Errorf(format, args...), errors.NotValid)
}

// Validate returns an error if cfg may not replace old: some settings never
// change. A nil old means that the model is new, and nothing is wrong.
func Validate(cfg, old *Config) error {
	return validateChange(Fields(), cfg, old)
}

// validateChange is Validate for the settings of one table.
func validateChange(schema Schema, cfg, old *Config) error {
	if old == nil {
		return nil
	}
	for _, f := range schema {
		was, is := valueIn(f, old.set), valueIn(f, cfg.set)
		if f.Immutable && !reflect.DeepEqual(was, is) {
			if f.Secret {
				return invalidf("cannot change %s", f.Name)
			}
			return invalidf("cannot change %s from %s to %s", f.Name, show(was), show(is))
		}
	}
	if old.set.String(AgentVersion) != "" && cfg.set.String(AgentVersion) == "" {
		return invalidf("cannot clear %s", AgentVersion)
	}
	return nil
}

// valueIn returns the value that a setting has, set or by default.
func valueIn(f Field, set Attrs) any {
	if v, ok := set[f.Name]; ok {
		return v
	}
	return f.value()
}

// show prints a value for a message: text in quotes, everything else bare.
func show(value any) string {
	if s, ok := value.(string); ok {
		return fmt.Sprintf("%q", s)
	}
	return fmt.Sprint(value)
}

// Coerce returns c with the settings that are not in this package's table
// brought into the form that the provider's schema says, and checked. Settings
// that the provider does not know either are kept as they are. If old is not
// nil, settings that schema says never change must be as they were.
func (c *Config) Coerce(schema Schema, old *Config) (*Config, error) {
	set, err := schema.Coerce(c.set)
	if err != nil {
		return nil, err
	}
	if _, err := schema.Complete(set); err != nil {
		return nil, err
	}
	coerced := &Config{set: set}
	if old == nil {
		return coerced, nil
	}
	// What was stored comes back as JSON makes it.
	was, err := schema.Coerce(old.set)
	if err != nil {
		return coerced, nil // nothing to hold on to: the old value is no value
	}
	if err := validateChange(schema, coerced, &Config{set: was}); err != nil {
		return nil, err
	}
	return coerced, nil
}

// Apply returns c with the settings in attrs as well. Of default-base and
// default-series, setting one alone clears the other.
func (c *Config) Apply(attrs map[string]any) (*Config, error) {
	set := maps.Clone(c.set)
	_, hasBase := attrs[DefaultBase]
	_, hasSeries := attrs[DefaultSeries]
	if hasBase != hasSeries {
		delete(set, DefaultBase)
		delete(set, DefaultSeries)
	}
	maps.Copy(set, attrs)
	return New(set)
}

// Remove returns c without the named settings, which so get their defaults
// back. Names that are not set do no harm; a mandatory one is an error.
func (c *Config) Remove(names []string) (*Config, error) {
	set := maps.Clone(c.set)
	for _, name := range names {
		delete(set, name)
	}
	return New(set)
}

// Update is a change that a person asks for.
type Update struct {
	Set   map[string]any
	Reset []string // get their defaults back
	// Provider is the table of settings of the model's provider.
	Provider Schema
}

// Update returns c changed by u. It returns an error if a setting is not known,
// is both set and reset, never changes, or is not for people to set, or if a
// value is not acceptable.
func (c *Config) Update(u Update) (*Config, error) {
	fields := append(Fields(), u.Provider...)
	for _, name := range slices.Concat(slices.Sorted(maps.Keys(u.Set)), u.Reset) {
		if err := c.checkSettable(fields, name); err != nil {
			return nil, err
		}
	}
	for _, name := range u.Reset {
		if _, both := u.Set[name]; both {
			return nil, invalidf("%s is both set and reset", name)
		}
		if f, _ := fields.Field(name); f.Mandatory || f.Immutable {
			return nil, invalidf("cannot reset %s", name)
		}
	}
	next, err := c.Remove(u.Reset)
	if err != nil {
		return nil, err
	}
	if next, err = next.Apply(u.Set); err != nil {
		return nil, err
	}
	if err := Validate(next, c); err != nil {
		return nil, err
	}
	return next.Coerce(u.Provider, c)
}

// checkSettable refuses names that are not known or not for people to set. A
// name that is set already may be reset even if it is not known.
func (c *Config) checkSettable(fields Schema, name string) error {
	if name == AgentVersion || name == AgentDowngrade {
		return invalidf("%s is changed by upgrading, not by setting it", name)
	}
	if _, path := replaced[name]; path {
		return nil // New has a better message
	}
	if _, known := fields.Field(name); known || name == "provisioner-safe-mode" {
		return nil
	}
	if _, set := c.set[name]; set {
		return nil
	}
	if like := closest(fields.Names(), name); like != "" {
		return invalidf("unknown setting %q: did you mean %s?", name, like)
	}
	return invalidf("unknown setting %q: model-config lists those there are", name)
}

// closest returns the name that has the longest start in common with name, if
// that is at least four letters.
func closest(names []string, name string) string {
	best, length := "", 3
	for _, n := range names {
		i := 0
		for i < len(n) && i < len(name) && n[i] == name[i] {
			i++
		}
		if i > length {
			best, length = n, i
		}
	}
	return best
}

// AllAttrs returns every setting, with the defaults of those that nobody set.
// The map is the caller's own.
func (c *Config) AllAttrs() map[string]any {
	out := map[string]any(Fields().Defaults())
	for name, value := range c.SetAttrs() {
		out[name] = value
	}
	// What is empty unless it is set does not exist until then.
	for _, name := range []string{ControllerUUID, AgentDowngrade, AgentVersion} {
		if out[name] == "" || out[name] == false {
			delete(out, name)
		}
	}
	return out
}

// SetAttrs returns the settings that somebody set: what is to be stored. The
// map is the caller's own.
func (c *Config) SetAttrs() map[string]any {
	out := make(map[string]any, len(c.set))
	for name, value := range c.set {
		if tags, ok := value.(map[string]string); ok {
			value = maps.Clone(tags)
		}
		out[name] = value
	}
	return out
}

// UnknownAttrs returns the settings that are not in this package's table,
// which are the provider's. The map is the caller's own.
func (c *Config) UnknownAttrs() map[string]any {
	fields := Fields()
	out := c.SetAttrs()
	maps.DeleteFunc(out, func(name string, _ any) bool {
		_, known := fields.Field(name)
		return known
	})
	return out
}

// The places that a setting's value can come from.
const (
	SourceDefault = "default"
	SourceModel   = "model"
)

// Source says where the value of a setting comes from: SourceModel if somebody
// set it for this model, else SourceDefault.
func (c *Config) Source(name string) string {
	if _, ok := c.set[name]; ok {
		return SourceModel
	}
	return SourceDefault
}

// String says whose settings these are, and nothing of what they are.
func (c *Config) String() string {
	return strings.TrimSpace("settings of model " + c.Name())
}

// GoString is String, so that no verb of fmt prints a secret.
func (c *Config) GoString() string { return c.String() }
