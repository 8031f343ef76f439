package constraints

import (
	"strings"

	"github.com/juju/errors"
)

// Parse reads constraints from args, each of which holds any number of
// name=value pairs separated by spaces. It returns an error satisfying
// errors.NotValid that names the first pair that is wrong.
func Parse(args ...string) (Value, error) {
	v, _, err := ParseWithAliases(args...)
	return v, err
}

// ParseWithAliases is Parse; it also tells which outdated names were used, as
// a map from each to the name to use instead. The map is nil if none was.
func ParseWithAliases(args ...string) (Value, map[string]string, error) {
	var v Value
	var aliases map[string]string
	for _, arg := range args {
		for _, pair := range strings.Fields(arg) {
			alias, name, err := v.setPair(pair)
			if err != nil {
				return Value{}, nil, errors.WithType(err, errors.NotValid)
			}
			if alias == name {
				continue
			}
			if aliases == nil {
				aliases = map[string]string{}
			}
			aliases[alias] = name
		}
	}
	return v, aliases, nil
}

// setPair sets the one constraint that pair spells. It returns the name that
// pair uses and the name that the constraint has.
func (v *Value) setPair(pair string) (used, name string, err error) {
	used, value, found := strings.Cut(pair, "=")
	if !found || used == "" {
		return "", "", errors.Errorf("malformed constraint %q", pair)
	}
	a, ok := attributeNamed(used)
	if !ok {
		return "", "", errors.Errorf("unknown constraint %q", used)
	}
	f := a.field(v)
	if f.present() {
		return "", "", errors.Errorf("bad %q constraint: already set", a.name)
	}
	if err := f.set(value); err != nil {
		return "", "", errors.Annotatef(err, "bad %q constraint", a.name)
	}
	return used, a.name, nil
}

// String prints v so that Parse reads it back unchanged. A constraint that is
// present and zero or empty prints as "name=".
func (v Value) String() string {
	var pairs []string
	for _, a := range attributes {
		if f := a.field(&v); f.present() {
			pairs = append(pairs, a.name+"="+f.print())
		}
	}
	return strings.Join(pairs, " ")
}

// Check returns an error satisfying errors.NotValid if v holds something that
// Parse would refuse, such as an unknown architecture. A Value that was
// decoded from JSON should be checked before it is used.
func (v Value) Check() error {
	for _, a := range attributes {
		f := a.field(&v)
		if !f.present() {
			continue
		}
		if printed := f.print(); len(strings.Fields(printed)) > 1 || strings.TrimSpace(printed) != printed {
			return errors.WithType(errors.Errorf("bad %q constraint: %q has blanks in it", a.name, printed), errors.NotValid)
		}
		var scratch Value
		if err := a.field(&scratch).set(f.print()); err != nil {
			return errors.WithType(errors.Annotatef(err, "bad %q constraint", a.name), errors.NotValid)
		}
	}
	return nil
}

// Merge joins values none of which repeats a constraint of another. It
// returns an error satisfying errors.NotValid if one does, or if one would not
// parse.
func Merge(values ...Value) (Value, error) {
	args := make([]string, len(values))
	for i, v := range values {
		args[i] = v.String()
	}
	return Parse(args...)
}
