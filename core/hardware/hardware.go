// Package hardware describes what an instance turned out to be like.
package hardware

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/core/arch"
	"github.com/slipway-project/slipway/core/constraints"
	"github.com/slipway-project/slipway/core/size"
)

// Characteristics are what a provider knows of an instance's hardware. A nil
// field means unknown.
type Characteristics struct {
	Arch             *string   `json:"arch,omitempty"`
	Mem              *uint64   `json:"mem,omitempty"`       // MiB
	RootDisk         *uint64   `json:"root-disk,omitempty"` // MiB
	CPUCores         *uint64   `json:"cpu-cores,omitempty"`
	CPUPower         *uint64   `json:"cpu-power,omitempty"`
	Tags             *[]string `json:"tags,omitempty"`
	AvailabilityZone *string   `json:"availability-zone,omitempty"`
}

// Parse reads characteristics from args, each of which holds any number of
// name=value pairs separated by spaces. It returns an error satisfying
// errors.NotValid that names the first pair that is wrong.
func Parse(args ...string) (Characteristics, error) {
	var c Characteristics
	for _, arg := range args {
		for _, pair := range strings.Fields(arg) {
			if err := c.setPair(pair); err != nil {
				return Characteristics{}, errors.WithType(err, errors.NotValid)
			}
		}
	}
	return c, nil
}

func (c *Characteristics) setPair(pair string) error {
	name, value, found := strings.Cut(pair, "=")
	if !found || name == "" {
		return errors.Errorf("malformed characteristic %q", pair)
	}
	var err error
	switch name {
	case "arch":
		err = setArch(&c.Arch, value)
	case "cores", "cpu-cores":
		name = "cores"
		err = setNumber(&c.CPUCores, value, size.ParseCount)
	case "cpu-power":
		err = setNumber(&c.CPUPower, value, size.ParseCount)
	case "mem":
		err = setNumber(&c.Mem, value, size.ParseMiB)
	case "root-disk":
		err = setNumber(&c.RootDisk, value, size.ParseMiB)
	case "tags":
		err = setTags(&c.Tags, value)
	case "availability-zone":
		err = setZone(&c.AvailabilityZone, value)
	default:
		return errors.Errorf("unknown characteristic %q", name)
	}
	return errors.Annotatef(err, "bad %q characteristic", name)
}

const errAlreadySet = errors.ConstError("already set")

func setArch(p **string, value string) error {
	if *p != nil {
		return errAlreadySet
	}
	if value != "" && !arch.Valid(value) {
		return errors.Errorf("%q not recognized", value)
	}
	*p = &value
	return nil
}

func setNumber(p **uint64, value string, parse func(string) (uint64, error)) error {
	if *p != nil {
		return errAlreadySet
	}
	n, err := parse(value)
	if err != nil {
		return err
	}
	*p = &n
	return nil
}

func setTags(p **[]string, value string) error {
	if *p != nil {
		return errAlreadySet
	}
	tags := []string{}
	if value != "" {
		tags = strings.Split(value, ",")
	}
	*p = &tags
	return nil
}

// setZone leaves the zone unset if value is empty: an instance without a zone
// has none, it is not in a zone without a name.
func setZone(p **string, value string) error {
	if *p != nil {
		return errAlreadySet
	}
	if value != "" {
		*p = &value
	}
	return nil
}

// String prints c so that Parse reads it back, except that empty tags and an
// empty zone are left out.
func (c Characteristics) String() string {
	var pairs []string
	add := func(name, value string) { pairs = append(pairs, name+"="+value) }
	if c.Arch != nil {
		add("arch", *c.Arch)
	}
	if c.CPUCores != nil {
		add("cores", strconv.FormatUint(*c.CPUCores, 10))
	}
	if c.CPUPower != nil {
		add("cpu-power", strconv.FormatUint(*c.CPUPower, 10))
	}
	if c.Mem != nil {
		add("mem", size.FormatMiB(*c.Mem))
	}
	if c.RootDisk != nil {
		add("root-disk", size.FormatMiB(*c.RootDisk))
	}
	if c.Tags != nil && len(*c.Tags) > 0 {
		add("tags", strings.Join(*c.Tags, ","))
	}
	if c.AvailabilityZone != nil && *c.AvailabilityZone != "" {
		add("availability-zone", *c.AvailabilityZone)
	}
	return strings.Join(pairs, " ")
}

// IsEmpty reports whether nothing at all is known.
func (c Characteristics) IsEmpty() bool { return c == Characteristics{} }

// Unmet returns those of the demands in v that hardware like c does not meet,
// each as it is written ("mem=4096M"), in the order in which constraints are
// printed; a demanded tag that is missing, or a forbidden one that is there,
// makes one entry of its own ("tags=ssd"). What is not known does not meet a
// demand. Demands for a container, an instance type, spaces and a kind of
// virtualisation are not about hardware and are not looked at.
func (c Characteristics) Unmet(v constraints.Value) []string {
	var unmet []string
	if v.Arch != nil && *v.Arch != "" && (c.Arch == nil || *c.Arch != *v.Arch) {
		unmet = append(unmet, "arch="+*v.Arch)
	}
	least := func(name string, want, have *uint64, print func(uint64) string) {
		if want != nil && *want > 0 && (have == nil || *have < *want) {
			unmet = append(unmet, name+"="+print(*want))
		}
	}
	plain := func(n uint64) string { return fmt.Sprint(n) }
	least(constraints.Cores, v.Cores, c.CPUCores, plain)
	least(constraints.CPUPower, v.CPUPower, c.CPUPower, plain)
	least(constraints.Mem, v.Mem, c.Mem, size.FormatMiB)
	least(constraints.RootDisk, v.RootDisk, c.RootDisk, size.FormatMiB)
	var tags []string
	if c.Tags != nil {
		tags = *c.Tags
	}
	for _, t := range v.IncludedTags() {
		if !slices.Contains(tags, t) {
			unmet = append(unmet, "tags="+t)
		}
	}
	for _, t := range v.ExcludedTags() {
		if slices.Contains(tags, t) {
			unmet = append(unmet, "tags=^"+t)
		}
	}
	return unmet
}
