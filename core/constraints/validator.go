package constraints

import (
	"slices"
	"strings"

	"github.com/juju/errors"
)

// Conflict says that no constraint of Reds may be given together with one of
// Blues, by name. Those of one side may be given together.
type Conflict struct {
	Reds, Blues []string
}

// Validator knows what a provider can do with constraints. The zero Validator
// accepts everything. It is not changed by its methods other than
// AddVocabulary, so many goroutines may use it at once.
type Validator struct {
	// Unsupported names constraints that are accepted and ignored.
	Unsupported []string
	// Conflicts lists which constraints exclude each other.
	Conflicts []Conflict
	// Vocabulary has, for each constraint named, the only values accepted,
	// as they are printed. A constraint that is not named may have any value.
	Vocabulary map[string][]string
}

// AddVocabulary makes further values of a constraint acceptable, if its values
// are limited at all. It must not be called while others use d.
func (d *Validator) AddVocabulary(name string, values ...string) {
	known, limited := d.Vocabulary[name]
	if !limited {
		return
	}
	known = slices.Clone(known)
	for _, v := range values {
		if !slices.Contains(known, v) {
			known = append(known, v)
		}
	}
	vocabulary := make(map[string][]string, len(d.Vocabulary))
	for k, v := range d.Vocabulary {
		vocabulary[k] = v
	}
	vocabulary[name] = known
	d.Vocabulary = vocabulary
}

// Validate checks v. It returns the names of the constraints that will be
// ignored, sorted, and an error satisfying errors.NotValid if two of v's
// constraints exclude each other or one has a value that is not known.
func (d *Validator) Validate(v Value) (unsupported []string, err error) {
	names := v.Attributes()
	for _, name := range names {
		if slices.Contains(d.Unsupported, name) {
			unsupported = append(unsupported, name)
		}
	}
	slices.Sort(unsupported)
	if err := d.checkConflicts(names); err != nil {
		return unsupported, err
	}
	for _, a := range attributes {
		if err := d.checkVocabulary(a.name, a.field(&v)); err != nil {
			return unsupported, err
		}
	}
	return unsupported, nil
}

// Merge combines a model's constraints with a machine's. What the machine asks
// for wins; the model's fill the gaps, except for those that exclude something
// the machine asks for. It returns an error satisfying errors.NotValid if
// either value is not valid by itself.
func (d *Validator) Merge(fallback, override Value) (Value, error) {
	for _, v := range []*Value{&fallback, &override} {
		if _, err := d.Validate(*v); err != nil {
			return Value{}, err
		}
	}
	dropped := map[string]bool{}
	for _, name := range override.Attributes() {
		for _, other := range d.conflictsOf(name) {
			dropped[other] = true
		}
	}
	var merged Value
	for _, a := range attributes {
		to := a.field(&merged)
		if from := a.field(&override); from.present() {
			from.copyTo(to)
		} else if from := a.field(&fallback); from.present() && !dropped[a.name] {
			from.copyTo(to)
		}
	}
	return merged, nil
}

// conflictsOf returns the names of the constraints that exclude name, sorted.
func (d *Validator) conflictsOf(name string) []string {
	var out []string
	for _, c := range d.Conflicts {
		if slices.Contains(c.Reds, name) {
			out = append(out, c.Blues...)
		}
		if slices.Contains(c.Blues, name) {
			out = append(out, c.Reds...)
		}
	}
	out = slices.DeleteFunc(out, func(s string) bool { return s == name })
	slices.Sort(out)
	return slices.Compact(out)
}

func (d *Validator) checkConflicts(names []string) error {
	sorted := slices.Sorted(slices.Values(names))
	for _, name := range sorted {
		for _, other := range d.conflictsOf(name) {
			if slices.Contains(sorted, other) {
				return errors.WithType(
					errors.Errorf("ambiguous constraints: %q overlaps with %q", name, other), errors.NotValid)
			}
		}
	}
	return nil
}

func (d *Validator) checkVocabulary(name string, f field) error {
	known, limited := d.Vocabulary[name]
	if !limited || !f.present() || f.zero() {
		return nil
	}
	for _, value := range f.texts() {
		if !slices.Contains(known, value) {
			return errors.WithType(errors.Errorf("invalid constraint value: %s=%s\nvalid values are: [%s]",
				name, value, strings.Join(known, " ")), errors.NotValid)
		}
	}
	return nil
}
