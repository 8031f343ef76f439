package state

import (
	"encoding/json"
	"strings"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/store"
)

// The collections. Ids of a model's documents start with its UUID and a colon,
// those of the site with siteScope and a colon.
const (
	siteC     = "site"         // one document for each thing of the site: controller, config
	modelsC   = "models"       // _:<model uuid>
	configsC  = "model-config" // <model uuid>:config
	machinesC = "machines"     // <model uuid>:<machine id>
	historyC  = "history"      // <model uuid>:<machine id>
	countersC = "counters"     // <model uuid>:<counter>
	claimsC   = "claims"       // _:<kind>:<name>
	usersC    = "users"        // _:<lower-case name>
	loginsC   = "logins"       // _:<user> and <model uuid>:<user>
	cleanupsC = "cleanups"     // <model uuid>:<kind>:<id>
	removalsC = "removals"     // <model uuid>:<machine id>
	binariesC = "binaries"     // _:<version>
	leasesC   = "leases"       // _:<model uuid> and _:site
	renewalsC = "renewals"     // likewise
	agentsC   = "agents"       // _:<server>:<shard>
	serversC  = "servers"      // _:<id of an API server>
	beatsC    = "beats"        // likewise
	dropsC    = "drops"        // likewise
	networksC = "networks"     // <model uuid>:networks
	imagesC   = "images"       // <model uuid>:images
	addressC  = "addresses"    // <model uuid>:<subnet>, with the addresses given to containers
	extrasC   = "extras"       // <model uuid>: blocks, annotations, pools
	blobsC    = "blobs"        // _:<upload>:<number of the part>
)

// The indexes of the machines collection.
const (
	transientIndex = "transient" // the model's UUID, on a machine whose start failed and may be tried again
	groupIndex     = "group"     // <model uuid>:<distribution group>
)

// siteScope is where documents live that belong to no model.
const siteScope = "_"

// Collections returns every collection that the store has to keep for this
// package, with its indexes.
func Collections() []store.Collection {
	return []store.Collection{
		{Name: siteC},
		{Name: modelsC},
		{Name: configsC},
		{Name: machinesC, Indexes: []string{transientIndex, groupIndex}},
		{Name: historyC},
		{Name: countersC},
		{Name: claimsC},
		{Name: usersC},
		{Name: loginsC},
		{Name: cleanupsC},
		{Name: removalsC},
		{Name: binariesC},
		{Name: leasesC},
		{Name: renewalsC},
		{Name: agentsC},
		{Name: serversC},
		{Name: beatsC},
		{Name: dropsC},
		{Name: networksC},
		{Name: imagesC},
		{Name: addressC},
		{Name: extrasC},
		{Name: blobsC},
		{Name: HostsCollection},
		{Name: HostStatusCollection},
		{Name: InstallsCollection},
		{Name: InstallLogCollection},
		{Name: HostDataCollection},
	}
}

// siteKey returns the key of a document of the site.
func siteKey(collection, id string) store.Key {
	return store.Key{Collection: collection, ID: siteScope + ":" + id}
}

// modelKey returns the key of a model's document in a collection.
func modelKey(collection, modelUUID, id string) store.Key {
	return store.Key{Collection: collection, ID: modelUUID + ":" + id}
}

// splitID returns the scope of a document's id, and the rest.
func splitID(id string) (scope, local string) {
	scope, local, _ = strings.Cut(id, ":")
	return scope, local
}

// decode returns a document's content as a T.
func decode[T any](d store.Doc) (*T, error) {
	var v T
	if err := json.Unmarshal(d.Data, &v); err != nil {
		return nil, errors.Annotatef(err, "cannot decode document %s %q", d.Collection, d.ID)
	}
	return &v, nil
}

// insertOp returns the operation that writes v as a new document.
func insertOp(key store.Key, v any, index map[string]string) (store.Op, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return store.Op{}, errors.Annotatef(err, "cannot encode document %s %q", key.Collection, key.ID)
	}
	return store.Insert(key, data, index), nil
}

// writeOp returns the operation that writes v over the document read at rev, or as
// a new one when rev is zero.
func writeOp(key store.Key, rev store.Rev, v any, index map[string]string) (store.Op, error) {
	op, err := insertOp(key, v, index)
	if err != nil || rev == 0 {
		return op, err
	}
	return store.Replace(key, rev, op.Data, index), nil
}
