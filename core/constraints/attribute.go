package constraints

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/core/arch"
	"github.com/slipway-project/slipway/core/container"
	"github.com/slipway-project/slipway/core/size"
)

// field reads and writes one constraint of one Value.
type field interface {
	present() bool
	zero() bool       // present, but zero or empty
	texts() []string  // the value or, for a list, its entries
	print() string    // what stands right of the "="
	set(string) error // from what stands right of the "="
	copyTo(field)     // the other is of the same type
	clear()
}

// attribute is everything there is to know of one constraint.
type attribute struct {
	name  string
	alias string // another name that is accepted; empty means none
	field func(*Value) field
}

// attributes is the table of constraints, in the order in which they are
// printed.
var attributes = []attribute{
	{name: Arch, field: func(v *Value) field { return text{&v.Arch, checkArch} }},
	{name: Container, field: func(v *Value) field { return text{&v.Container, checkContainer} }},
	{name: Cores, alias: "cpu-cores", field: func(v *Value) field { return count{&v.Cores} }},
	{name: CPUPower, field: func(v *Value) field { return count{&v.CPUPower} }},
	{name: InstanceType, field: func(v *Value) field { return text{&v.InstanceType, nil} }},
	{name: Mem, field: func(v *Value) field { return mebibytes{&v.Mem} }},
	{name: RootDisk, field: func(v *Value) field { return mebibytes{&v.RootDisk} }},
	{name: Tags, field: func(v *Value) field { return list{&v.Tags, nil} }},
	{name: Spaces, field: func(v *Value) field { return list{&v.Spaces, checkSpace} }},
	{name: VirtType, field: func(v *Value) field { return text{&v.VirtType, nil} }},
}

// Names returns the names of all constraints, in the order in which they are
// printed.
func Names() []string {
	names := make([]string, len(attributes))
	for i, a := range attributes {
		names[i] = a.name
	}
	return names
}

// attributeNamed finds a constraint by its name or alias.
func attributeNamed(name string) (attribute, bool) {
	i := slices.IndexFunc(attributes, func(a attribute) bool {
		return a.name == name || a.alias != "" && a.alias == name
	})
	if i < 0 {
		return attribute{}, false
	}
	return attributes[i], true
}

func checkArch(value string) error {
	if !arch.Valid(value) {
		return errors.Errorf("%q not recognized", value)
	}
	return nil
}

func checkContainer(value string) error {
	_, err := container.ParseOrNone(value)
	return err
}

var spaceName = regexp.MustCompile(`^[a-z0-9]+(?:-[a-z0-9]+)*$`)

func checkSpace(entry string) error {
	name := strings.TrimPrefix(entry, "^")
	if !spaceName.MatchString(name) {
		return errors.Errorf("%q is not a valid space name", name)
	}
	return nil
}

// text is a constraint whose value is one word.
type text struct {
	p     **string
	check func(string) error // of a value that is not empty; nil means anything goes
}

func (f text) present() bool   { return *f.p != nil }
func (f text) zero() bool      { return *f.p != nil && **f.p == "" }
func (f text) texts() []string { return []string{**f.p} }
func (f text) print() string   { return **f.p }
func (f text) copyTo(to field) { s := **f.p; *to.(text).p = &s }
func (f text) clear()          { *f.p = nil }

func (f text) set(value string) error {
	if value != "" && f.check != nil {
		if err := f.check(value); err != nil {
			return err
		}
	}
	*f.p = &value
	return nil
}

// count is a constraint whose value is a whole number.
type count struct{ p **uint64 }

func (f count) present() bool   { return *f.p != nil }
func (f count) zero() bool      { return *f.p != nil && **f.p == 0 }
func (f count) texts() []string { return []string{strconv.FormatUint(**f.p, 10)} }
func (f count) copyTo(to field) { n := **f.p; *to.(count).p = &n }
func (f count) clear()          { *f.p = nil }

func (f count) print() string {
	if **f.p == 0 {
		return ""
	}
	return strconv.FormatUint(**f.p, 10)
}

func (f count) set(value string) error {
	n, err := size.ParseCount(value)
	if err != nil {
		return err
	}
	*f.p = &n
	return nil
}

// mebibytes is a constraint whose value is a size.
type mebibytes struct{ p **uint64 }

func (f mebibytes) present() bool   { return *f.p != nil }
func (f mebibytes) zero() bool      { return *f.p != nil && **f.p == 0 }
func (f mebibytes) texts() []string { return []string{size.FormatMiB(**f.p)} }
func (f mebibytes) copyTo(to field) { n := **f.p; *to.(mebibytes).p = &n }
func (f mebibytes) clear()          { *f.p = nil }

func (f mebibytes) print() string {
	if **f.p == 0 {
		return ""
	}
	return size.FormatMiB(**f.p)
}

func (f mebibytes) set(value string) error {
	n, err := size.ParseMiB(value)
	if err != nil {
		return err
	}
	*f.p = &n
	return nil
}

// list is a constraint whose value is several words, separated by commas.
type list struct {
	p     **[]string
	check func(string) error // of each entry; nil means anything goes
}

func (f list) present() bool   { return *f.p != nil }
func (f list) zero() bool      { return *f.p != nil && len(**f.p) == 0 }
func (f list) texts() []string { return **f.p }
func (f list) print() string   { return strings.Join(**f.p, ",") }
func (f list) clear()          { *f.p = nil }

func (f list) copyTo(to field) {
	entries := append([]string{}, **f.p...)
	*to.(list).p = &entries
}

func (f list) set(value string) error {
	entries := []string{} // never nil: JSON must say [], not null
	if value != "" {
		entries = strings.Split(value, ",")
	}
	if f.check != nil {
		for _, e := range entries {
			if err := f.check(e); err != nil {
				return err
			}
		}
	}
	*f.p = &entries
	return nil
}
