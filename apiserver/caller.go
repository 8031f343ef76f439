package apiserver

import (
	"github.com/slipway-project/slipway/apiserver/common"
	"github.com/slipway-project/slipway/core/access"
	"github.com/slipway-project/slipway/core/tag"
	"github.com/slipway-project/slipway/state"
)

// caller is who logged in, and what that allows.
type caller struct {
	tag        tag.Tag
	manager    bool              // an agent that manages models
	foreign    bool              // a manager in a model other than its own
	model      access.Model      // of people
	controller access.Controller // likewise
}

var _ common.Authorizer = caller{}

// home names who is there by the model that an agent's machine is in, which
// for managers need not be the connection's; people are of none.
func (c caller) home(st *state.State) agentKey {
	switch {
	case !c.AuthMachineAgent():
		return agentKey{tag: c.tag}
	case c.foreign:
		return agentKey{st.Controller().ControllerModelUUID(), c.tag}
	}
	return agentKey{st.ModelUUID(), c.tag}
}

// own returns the id of the agent's own machine, or "" if that is not in the
// connection's model.
func (c caller) own() string {
	if !c.AuthMachineAgent() || c.foreign {
		return ""
	}
	return c.tag.Id()
}

// AuthTag implements common.Authorizer.
func (c caller) AuthTag() tag.Tag { return c.tag }

// AuthMachineAgent implements common.Authorizer.
func (c caller) AuthMachineAgent() bool { return c.tag.Kind() == tag.MachineKind }

// AuthModelManager implements common.Authorizer.
func (c caller) AuthModelManager() bool { return c.manager }

// ModelAccess implements common.Authorizer.
func (c caller) ModelAccess() access.Model { return c.model }

// ControllerAccess implements common.Authorizer.
func (c caller) ControllerAccess() access.Controller { return c.controller }
