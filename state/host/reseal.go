package host

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/internal/hostkey"
	"github.com/slipway-project/slipway/state"
	"github.com/slipway-project/slipway/store"
)

// sealedIn says where a kind of document with a member "sealed" is kept, and what
// its secret is of: the whole of that is bound to the secret.
type sealedIn struct {
	collection string
	prefix     string   // of what the secret is called
	id         []string // the members that lead to the rest
	people     string   // what people call it
}

// sealedDocs is the table of everything that is sealed with the keys of hosts, but for the
// sample.
func sealedDocs() []sealedIn {
	return []sealedIn{
		{state.HostsCollection, "host ", []string{"metadata", "uid"}, "credentials of host"},
		{state.HostDataCollection, dataPrefix, []string{"uid"}, "data of host"},
		{state.InstallsCollection, "install ", []string{"order", "host"}, "order of host"},
	}
}

// sampleDoc is something sealed by which a controller knows whether it has the
// site's keys, also before there is any host.
type sampleDoc struct {
	Sealed string `json:"sealed,omitempty"`
}

const sampleName = "host key sample"

func (hs *Hosts) sampleKey() store.Key { return hs.docs.Key("site", "host-key") }

// secretOf returns what is sealed in a document, empty if nothing is, and what it is
// of.
func (k sealedIn) secretOf(d store.Doc) (members map[string]json.RawMessage, sealed, of string, err error) {
	if err := json.Unmarshal(d.Data, &members); err != nil {
		return nil, "", "", errors.Annotatef(err, "cannot decode document %s %q", d.Collection, d.ID)
	}
	if err := member(members, &sealed, "sealed"); err != nil || sealed == "" {
		return members, "", "", err
	}
	var id string
	err = member(members, &id, k.id...)
	return members, sealed, k.prefix + id, err
}

// member reads the text that a path of members leads to; empty if there is none.
func member(members map[string]json.RawMessage, into *string, path ...string) error {
	raw := members[path[0]]
	if len(raw) == 0 {
		return nil
	}
	if len(path) == 1 {
		return errors.Annotatef(json.Unmarshal(raw, into), "cannot decode %q", path[0])
	}
	var inner map[string]json.RawMessage
	if err := json.Unmarshal(raw, &inner); err != nil {
		return errors.Annotatef(err, "cannot decode %q", path[0])
	}
	return member(inner, into, path[1:]...)
}

// CheckKeys returns an error satisfying hostkey.ErrWrongKey, which names the first
// host of which something cannot be read with these keys, unless they are those that
// the other controllers of the site have.
func (hs *Hosts) CheckKeys(ctx context.Context, keys *hostkey.Ring) error {
	if keys == nil {
		return errors.NotValidf("controller without a key for hosts")
	}
	for _, k := range sealedDocs() {
		err := hs.docs.Each(ctx, k.collection, func(name string, d store.Doc) error {
			_, sealed, of, err := k.secretOf(d)
			if err != nil || sealed == "" {
				return err
			}
			if _, err := keys.Open(of, sealed); err != nil {
				return errors.Annotatef(hostkey.ErrWrongKey, "cannot open the %s %q", k.people, name)
			}
			return nil
		})
		if err != nil {
			return errors.Trace(err)
		}
	}
	return hs.checkSample(ctx, keys)
}

// checkSample opens the sample, or makes it.
func (hs *Hosts) checkSample(ctx context.Context, keys *hostkey.Ring) error {
	return hs.docs.Run(ctx, func(int) ([]store.Op, error) {
		sample, rev, err := hs.sample(ctx)
		if err != nil {
			return nil, err
		}
		if sample.Sealed != "" {
			_, err := keys.Open(sampleName, sample.Sealed)
			return nil, err
		}
		op, err := writeOp(hs.sampleKey(), rev, sampleDoc{keys.Seal(sampleName, []byte(sampleName))})
		return []store.Op{op}, err
	})
}

func (hs *Hosts) sample(ctx context.Context) (sampleDoc, store.Rev, error) {
	var sample sampleDoc
	docs, err := hs.docs.Get(ctx, []store.Key{hs.sampleKey()})
	if err != nil || docs[0].Rev == 0 {
		return sample, 0, err
	}
	err = json.Unmarshal(docs[0].Data, &sample)
	return sample, docs[0].Rev, errors.Annotate(err, "cannot decode the sample of the host key")
}

// resealTogether is how many documents are written in one batch.
const resealTogether = 100

// Reseal seals everything anew that another key than the current one sealed, and
// returns how much that was. It may be broken off at any moment: what is not sealed
// anew yet is as it was.
func (hs *Hosts) Reseal(ctx context.Context) (int, error) {
	n := 0
	for _, k := range sealedDocs() {
		var stale []store.Key
		keys := hs.docs.Keys()
		err := hs.docs.Each(ctx, k.collection, func(_ string, d store.Doc) error {
			_, sealed, _, err := k.secretOf(d)
			if err == nil && sealed != "" && !keys.Current(sealed) {
				stale = append(stale, d.Key)
			}
			return err
		})
		if err != nil {
			return n, errors.Annotate(err, "cannot look for what older keys sealed")
		}
		for part := range slices.Chunk(stale, resealTogether) {
			if err := hs.resealDocs(ctx, k, part); err != nil {
				return n, errors.Annotate(err, "cannot seal anew")
			}
			n += len(part)
		}
	}
	err := hs.docs.Run(ctx, func(int) ([]store.Op, error) {
		sample, rev, err := hs.sample(ctx)
		if err != nil || hs.docs.Keys().Current(sample.Sealed) {
			return nil, err
		}
		op, err := writeOp(hs.sampleKey(), rev, sampleDoc{hs.docs.Keys().Seal(sampleName, []byte(sampleName))})
		return []store.Op{op}, err
	})
	return n, errors.Annotate(err, "cannot seal anew")
}

// resealDocs seals documents anew, in one batch.
func (hs *Hosts) resealDocs(ctx context.Context, k sealedIn, which []store.Key) error {
	return hs.docs.Run(ctx, func(int) ([]store.Op, error) {
		docs, err := hs.docs.Get(ctx, which)
		if err != nil {
			return nil, errors.Trace(err)
		}
		keys := hs.docs.Keys()
		var ops []store.Op
		for _, d := range docs {
			if d.Rev == 0 {
				continue
			}
			members, sealed, of, err := k.secretOf(d)
			if err != nil {
				return nil, err
			}
			if sealed == "" || keys.Current(sealed) {
				continue
			}
			secret, err := keys.Open(of, sealed)
			if err != nil {
				return nil, errors.Trace(err)
			}
			members["sealed"] = json.RawMessage(fmt.Sprintf("%q", keys.Seal(of, secret))) // base64 needs no escape
			op, err := writeOp(d.Key, d.Rev, members)
			if err != nil {
				return nil, err
			}
			ops = append(ops, op)
		}
		return ops, nil
	})
}
