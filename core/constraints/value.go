package constraints

// Value is a set of constraints. A nil field says nothing; a field that is
// present and zero or empty says "explicitly unset", and overrides a model's
// value.
type Value struct {
	Arch         *string   `json:"arch,omitempty"`
	Container    *string   `json:"container,omitempty"` // a container type, or "none"
	Cores        *uint64   `json:"cores,omitempty"`
	CPUPower     *uint64   `json:"cpu-power,omitempty"` // 100 is about one year-2007 core
	Mem          *uint64   `json:"mem,omitempty"`       // MiB
	RootDisk     *uint64   `json:"root-disk,omitempty"` // MiB
	Tags         *[]string `json:"tags,omitempty"`      // "^x" means not x
	InstanceType *string   `json:"instance-type,omitempty"`
	Spaces       *[]string `json:"spaces,omitempty"` // "^x" means not x
	VirtType     *string   `json:"virt-type,omitempty"`
}

// The names of the constraints, as they are written.
const (
	Arch         = "arch"
	Container    = "container"
	Cores        = "cores"
	CPUPower     = "cpu-power"
	Mem          = "mem"
	RootDisk     = "root-disk"
	Tags         = "tags"
	InstanceType = "instance-type"
	Spaces       = "spaces"
	VirtType     = "virt-type"
)

// IsEmpty reports whether v says nothing at all.
func (v Value) IsEmpty() bool { return len(v.Attributes()) == 0 }

// Attributes returns the names of the constraints that v holds, in the order
// in which they are printed.
func (v Value) Attributes() []string {
	var names []string
	for _, a := range attributes {
		if a.field(&v).present() {
			names = append(names, a.name)
		}
	}
	return names
}

// HasContainer reports whether v asks for a container.
func (v Value) HasContainer() bool {
	return v.Container != nil && *v.Container != "" && *v.Container != "none"
}

// IncludedTags returns the tags that a machine must have, and ExcludedTags
// those that it must not have.
func (v Value) IncludedTags() []string { return signed(v.Tags, false) }

// ExcludedTags returns the tags that a machine must not have, without "^".
func (v Value) ExcludedTags() []string { return signed(v.Tags, true) }

// IncludedSpaces returns the spaces that a machine must be in.
func (v Value) IncludedSpaces() []string { return signed(v.Spaces, false) }

// ExcludedSpaces returns the spaces that a machine must not be in, without
// "^".
func (v Value) ExcludedSpaces() []string { return signed(v.Spaces, true) }

// signed returns the entries of list that do or do not start with "^",
// without it. Empty entries are left out.
func signed(list *[]string, excluded bool) []string {
	if list == nil {
		return nil
	}
	var out []string
	for _, s := range *list {
		not := len(s) > 0 && s[0] == '^'
		if not {
			s = s[1:]
		}
		if not == excluded && s != "" {
			out = append(out, s)
		}
	}
	return out
}
