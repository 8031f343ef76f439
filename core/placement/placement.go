// Package placement says where a machine is to go, as an operator writes it.
package placement

import (
	"strings"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/core/container"
	"github.com/slipway-project/slipway/core/tag"
)

// MachineScope is the scope of a placement on an existing machine.
const MachineScope = "#"

// Placement is where a machine is to go. The zero value says nothing.
type Placement struct {
	// Scope is who understands the directive: a container type, MachineScope,
	// or the name or UUID of the model, whose provider it is for. Parse
	// leaves the scope of the last kind empty, for the caller to fill in.
	Scope string `json:"scope"`
	// Directive is the id of the machine to be in for a container type (empty
	// means a new machine) and for MachineScope, else the provider's own
	// words, such as "zone=z1".
	Directive string `json:"directive"`
}

// forms is how to do it right, told to those who did not.
const forms = "use ID, TYPE:ID, TYPE or zone=NAME"

// Parse reads ID ("3", a machine), TYPE:ID ("lxd:3", a new container in it),
// TYPE ("lxd", a new container in a new machine) or NAME=VALUE ("zone=z1", for
// the provider). Empty text gives the zero Placement. It returns an error
// satisfying errors.NotValid for anything else.
func Parse(text string) (Placement, error) {
	if text == "" {
		return Placement{}, nil
	}
	if tag.IsValidMachine(text) {
		return Placement{Scope: MachineScope, Directive: text}, nil
	}
	if name, value, found := strings.Cut(text, "="); found {
		if name == "" || value == "" || strings.ContainsAny(text, " \t\r\n") {
			return Placement{}, bad("placement %q is malformed: %s", text, forms)
		}
		return Placement{Directive: text}, nil
	}
	scope, id, found := strings.Cut(text, ":")
	if found && scope == MachineScope && tag.IsValidMachine(id) {
		return Placement{Scope: MachineScope, Directive: id}, nil
	}
	if _, err := container.Parse(scope); err != nil {
		if found {
			return Placement{}, bad("unknown container type %q in placement %q: %s", scope, text, forms)
		}
		return Placement{}, bad("placement %q is neither a machine nor a container type: %s", text, forms)
	}
	if found && !tag.IsValidMachine(id) {
		return Placement{}, bad("invalid value %q for %q scope: expected machine-id", id, scope)
	}
	return Placement{Scope: scope, Directive: id}, nil
}

func bad(format string, args ...any) error {
	return errors.WithType(errors.Errorf(format, args...), errors.NotValid)
}

// ContainerType returns the type of container that p asks for, and "" if it
// asks for none.
func (p Placement) ContainerType() container.Type {
	t, err := container.Parse(p.Scope)
	if err != nil {
		return ""
	}
	return t
}

// IsZero reports whether p says nothing.
func (p Placement) IsZero() bool { return p == Placement{} }

// String prints p so that Parse reads it back, apart from a model's scope.
func (p Placement) String() string {
	switch {
	case p.Scope == MachineScope:
		return p.Directive
	case p.ContainerType() == "":
		return p.Directive
	case p.Directive == "":
		return p.Scope
	}
	return p.Scope + ":" + p.Directive
}

// Zone returns the zone that the provider's directive names, if it names one.
func Zone(directive string) (string, bool) { return strings.CutPrefix(directive, "zone=") }
