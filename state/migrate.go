package state

import (
	"github.com/slipway-project/slipway/store"
)

// ControllerKey returns the key of the document that makes a store a site.
func ControllerKey() store.Key { return controllerKey }

// MigrationKey returns the key of the document that marks a store which is being
// made a copy of another one. No site is made where it is.
func MigrationKey() store.Key { return siteKey(siteC, "migration") }

// IndexOf returns the index values of a document, which stores do not give back.
func IndexOf(d store.Doc) (map[string]string, error) {
	if d.Collection != machinesC {
		return nil, nil
	}
	doc, err := decode[machineDoc](d)
	if err != nil {
		return nil, err
	}
	modelUUID, _ := splitID(d.ID)
	return doc.index(modelUUID), nil
}
