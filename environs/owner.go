package environs

import (
	"github.com/juju/errors"

	"github.com/slipway-project/slipway/core/tag"
)

// The tags that mark an instance as somebody's. Those of the site and model
// are the ones that other programs know too.
const (
	TagControllerUUID = "juju-controller-uuid"
	TagModelUUID      = "juju-model-uuid"
	TagIsController   = "juju-is-controller"
	TagMachineID      = "slipway-machine-id"
	TagNonce          = "slipway-nonce"
)

// Owner is whom an instance was started for.
type Owner struct {
	ControllerUUID string `json:"controller-uuid"`
	ModelUUID      string `json:"model-uuid"`
	MachineID      string `json:"machine-id"`
}

// Tags returns o as tags for an instance.
func (o Owner) Tags() map[string]string {
	return map[string]string{
		TagControllerUUID: o.ControllerUUID,
		TagModelUUID:      o.ModelUUID,
		TagMachineID:      o.MachineID,
	}
}

// OwnerOf returns the owner that the tags of an instance name. Fields without
// a tag are empty.
func OwnerOf(tags map[string]string) Owner {
	return Owner{
		ControllerUUID: tags[TagControllerUUID],
		ModelUUID:      tags[TagModelUUID],
		MachineID:      tags[TagMachineID],
	}
}

// Validate returns an error satisfying errors.NotValid unless o names a site, a
// model and a machine.
func (o Owner) Validate() error {
	if !tag.IsValidUUID(o.ControllerUUID) {
		return errors.NotValidf("owner's controller UUID %q", o.ControllerUUID)
	}
	if !tag.IsValidUUID(o.ModelUUID) {
		return errors.NotValidf("owner's model UUID %q", o.ModelUUID)
	}
	if !tag.IsValidMachine(o.MachineID) {
		return errors.NotValidf("owner's machine id %q", o.MachineID)
	}
	return nil
}

// SameModel reports whether p belongs to the same model of the same site.
func (o Owner) SameModel(p Owner) bool {
	return o.ControllerUUID == p.ControllerUUID && o.ModelUUID == p.ModelUUID
}
