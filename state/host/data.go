package host

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/internal/hostkey"
	"github.com/slipway-project/slipway/store"
)

// Data is what a machine on a host is configured with at its first boot. It holds
// secrets, and never prints.
type Data struct {
	UserData    string `json:"user-data,omitempty"`
	NetworkData string `json:"network-data,omitempty"`
}

// Format prints "[redacted]" for every verb.
func (Data) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte("[redacted]")) }

// dataDoc is Data as it is stored.
type dataDoc struct {
	UID    string `json:"uid"` // of the host that it is sealed for
	Sealed string `json:"sealed"`
}

// dataPrefix and a host's UID say what the sealed data is of.
const dataPrefix = "data of host "

// dataName says what the sealed data of a host is of.
func dataName(d hostDoc) string { return dataPrefix + d.Metadata.UID }

// sealData returns the operation that stores a host's data over what was read at
// rev.
func (hs *Hosts) sealData(p *pair, rev store.Rev, d Data) (store.Op, error) {
	keys := hs.docs.Keys()
	if keys == nil {
		return store.Op{}, errors.NewNotSupported(nil, "this controller has no key to keep a machine's data with")
	}
	text, err := json.Marshal(d)
	if err != nil {
		return store.Op{}, errors.Trace(err)
	}
	return writeOp(hs.dataKey(p.name), rev, dataDoc{p.host.Metadata.UID, keys.Seal(dataName(p.host), text)})
}

// openData returns the data that is sealed in a document. Its errors satisfy
// hostkey.ErrWrongKey.
func (hs *Hosts) openData(h hostDoc, doc store.Doc) (Data, error) {
	var sealed dataDoc
	if err := json.Unmarshal(doc.Data, &sealed); err != nil {
		return Data{}, errors.Annotatef(err, "cannot decode the data of host %q", h.Metadata.Name)
	}
	keys := hs.docs.Keys()
	if keys == nil {
		return Data{}, errors.Annotatef(hostkey.ErrWrongKey, "cannot open the data of host %q", h.Metadata.Name)
	}
	text, err := keys.Open(dataName(h), sealed.Sealed)
	if err != nil {
		return Data{}, errors.Annotatef(hostkey.ErrWrongKey, "cannot open the data of host %q", h.Metadata.Name)
	}
	var d Data
	if json.Unmarshal(text, &d) != nil { // its error may quote it
		return Data{}, errors.Errorf("the data of host %q is damaged", h.Metadata.Name)
	}
	return d, nil
}

// Data returns what the machine on a host is configured with; nothing if the host
// has none. It returns an error satisfying kind.LeaseDenied to whoever does not hold
// the site's lease, and errors.NotFound if there is no such host.
func (hs *Hosts) Data(ctx context.Context, name string) (Data, error) {
	if _, err := hs.docs.Epoch(ctx); err != nil {
		return Data{}, errors.Trace(err)
	}
	docs, err := hs.docs.Get(ctx, []store.Key{hs.hostKey(name), hs.dataKey(name)})
	switch {
	case err != nil:
		return Data{}, errors.Annotatef(err, "cannot read the data of host %q", name)
	case docs[0].Rev == 0:
		return Data{}, errors.NotFoundf("host %q", name)
	case docs[1].Rev == 0:
		return Data{}, nil
	}
	p, err := decodePair(name, docs[0], store.Doc{})
	if err != nil {
		return Data{}, err
	}
	return hs.openData(p.host, docs[1])
}
