package common

import (
	"github.com/slipway-project/slipway/core/access"
	"github.com/slipway-project/slipway/core/tag"
)

// Authorizer says who is on the other end of a connection, and what may be done
// there.
type Authorizer interface {
	// AuthTag returns the tag that was logged in with; nil if none.
	AuthTag() tag.Tag
	// AuthMachineAgent reports whether a machine's agent is there.
	AuthMachineAgent() bool
	// AuthModelManager reports whether it is the agent of a machine that
	// manages models.
	AuthModelManager() bool
	// ModelAccess returns what a person may do in the connection's model;
	// nothing for agents.
	ModelAccess() access.Model
	// ControllerAccess returns what a person may do in the whole site; nothing
	// for agents.
	ControllerAccess() access.Controller
}

// AuthClient reports whether a person is on the other end.
func AuthClient(a Authorizer) bool {
	t := a.AuthTag()
	return t != nil && t.Kind() == tag.UserKind
}

// AuthOwner reports whether t is the caller's own tag.
func AuthOwner(a Authorizer, t tag.Tag) bool {
	own := a.AuthTag()
	return own != nil && own == t
}

// AuthFunc reports whether the caller may touch the entity that t names.
type AuthFunc func(t tag.Tag) bool

// GetAuthFunc returns the AuthFunc of one call. It is asked only by calls that
// are about at least one entity.
type GetAuthFunc func() (AuthFunc, error)

// AuthAlways returns a GetAuthFunc that lets everything pass.
func AuthAlways() GetAuthFunc {
	return func() (AuthFunc, error) { return func(tag.Tag) bool { return true }, nil }
}

// AuthMachines returns the rule by which agents may touch machines: its own machine
// for an agent, the direct containers of its own machine, and every top-level
// machine for a manager.
func AuthMachines(a Authorizer) GetAuthFunc {
	own, manager, agent := a.AuthTag(), a.AuthModelManager(), a.AuthMachineAgent()
	can := func(t tag.Tag) bool {
		if agent && own == t {
			return true
		}
		if t.Kind() != tag.MachineKind {
			return false
		}
		parent := tag.Parent(t.Id())
		if parent == "" {
			return manager
		}
		return agent && own.Kind() == tag.MachineKind && own.Id() == parent
	}
	return func() (AuthFunc, error) { return can, nil }
}

// AuthSelf returns the rule that the caller may touch its own entity alone.
func AuthSelf(a Authorizer) GetAuthFunc {
	return func() (AuthFunc, error) {
		return func(t tag.Tag) bool { return AuthOwner(a, t) }, nil
	}
}
