package state

import (
	"encoding/json"
	"strings"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/environs/config"
	"github.com/slipway-project/slipway/store"
)

// Redact returns a document's content without what is secret in it: password
// hashes, sealed credentials of hosts, and the settings of models of which secret says so. Someone whose
// hash is gone cannot log in until they get a new password.
func Redact(key store.Key, data []byte, secret func(provider, setting string) bool) ([]byte, error) {
	var err error
	switch key.Collection {
	case usersC, machinesC:
		data, err = without(data, func(name string) bool { return name == "password-hash" })
	case HostsCollection, HostDataCollection, siteC:
		data, err = without(data, func(name string) bool { return name == "sealed" })
	case InstallsCollection:
		data, err = without(data, func(name string) bool { return name == "sealed" || strings.HasSuffix(name, "-hash") })
	case configsC:
		data, err = redactConfig(data, secret)
	}
	return data, errors.Annotatef(err, "cannot read document %s %q", key.Collection, key.ID)
}

// without returns a JSON object without some of its members. The others stay as
// they are, byte for byte.
func without(data []byte, drop func(name string) bool) ([]byte, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(data, &members); err != nil {
		return nil, errors.Trace(err)
	}
	dropped := false
	for name := range members {
		if drop(name) {
			delete(members, name)
			dropped = true
		}
	}
	if !dropped {
		return data, nil
	}
	data, err := json.Marshal(members)
	return data, errors.Trace(err)
}

// redactConfig takes the secret settings out of a model's configuration.
func redactConfig(data []byte, secret func(provider, setting string) bool) ([]byte, error) {
	var d configDoc
	if err := json.Unmarshal(data, &d); err != nil {
		return nil, errors.Trace(err)
	}
	provider, _ := d.Attrs[config.Type].(string) // without one, secret gets an empty name
	var members map[string]json.RawMessage
	if err := json.Unmarshal(data, &members); err != nil {
		return nil, errors.Trace(err)
	}
	attrs, err := without(members["attrs"], func(name string) bool { return secret(provider, name) })
	if err != nil {
		return nil, errors.Trace(err)
	}
	members["attrs"] = attrs
	data, err = json.Marshal(members)
	return data, errors.Trace(err)
}
