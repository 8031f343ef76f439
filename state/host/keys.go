package host

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/environs/baremetal/bmc"
	"github.com/slipway-project/slipway/internal/hostkey"
	"github.com/slipway-project/slipway/state"
	"github.com/slipway-project/slipway/store"
)

// secretDoc is what is sealed of a host. Its type prints nothing.
type secretDoc struct {
	Username string `json:"username"`
	Password string `json:"password"`
}

// seal sets a host's credentials; none leaves them as they are.
func (hs *Hosts) seal(d *hostDoc, c bmc.Credentials) error {
	if c == (bmc.Credentials{}) {
		return nil
	}
	keys := hs.docs.Keys()
	if keys == nil {
		return errors.NewNotSupported(nil, "this controller has no key to keep credentials with")
	}
	data, err := json.Marshal(secretDoc(c))
	if err != nil {
		return errors.Trace(err)
	}
	d.Sealed = keys.Seal("host "+d.Metadata.UID, data)
	d.CredentialsVersion++
	return nil
}

// open returns a host's credentials.
func (hs *Hosts) open(d hostDoc) (bmc.Credentials, error) {
	keys := hs.docs.Keys()
	if d.Sealed == "" {
		return bmc.Credentials{}, nil
	}
	if keys == nil {
		return bmc.Credentials{}, errors.Annotatef(hostkey.ErrWrongKey, "cannot open the credentials of host %q", d.Metadata.Name)
	}
	data, err := keys.Open("host "+d.Metadata.UID, d.Sealed)
	if err != nil {
		return bmc.Credentials{}, errors.Annotatef(hostkey.ErrWrongKey, "cannot open the credentials of host %q", d.Metadata.Name)
	}
	var s secretDoc
	if json.Unmarshal(data, &s) != nil { // its error may quote it
		return bmc.Credentials{}, errors.Errorf("the credentials of host %q are damaged", d.Metadata.Name)
	}
	return bmc.Credentials(s), nil
}

// sampleDoc is something sealed by which a controller knows whether it has the
// site's keys, also before there is any host.
type sampleDoc struct {
	Sealed string `json:"sealed,omitempty"`
}

const sampleName = "host key sample"

// CheckKeys returns an error satisfying hostkey.ErrWrongKey, which names the
// first host of which the credentials cannot be read, unless the controller has the
// keys that the other controllers of the site have.
func (hs *Hosts) CheckKeys(ctx context.Context) error {
	keys := hs.docs.Keys()
	if keys == nil {
		return errors.NotValidf("controller without a key for hosts")
	}
	err := hs.docs.Each(ctx, state.HostsCollection, func(name string, d store.Doc) error {
		p, err := decodePair(name, d, store.Doc{})
		if err != nil {
			return err
		}
		_, err = hs.open(p.host)
		return err
	})
	if err != nil {
		return errors.Trace(err)
	}
	key := hs.docs.Key("site", "host-key")
	return hs.docs.Run(ctx, func(int) ([]store.Op, error) {
		docs, err := hs.docs.Get(ctx, []store.Key{key})
		if err != nil {
			return nil, err
		}
		var sample sampleDoc
		if docs[0].Rev != 0 {
			if err := json.Unmarshal(docs[0].Data, &sample); err != nil {
				return nil, errors.Annotate(err, "cannot decode the sample of the host key")
			}
		}
		if sample.Sealed != "" {
			_, err := keys.Open(sampleName, sample.Sealed)
			return nil, err
		}
		op, err := writeOp(key, docs[0].Rev, sampleDoc{keys.Seal(sampleName, []byte(sampleName))})
		return []store.Op{op}, err
	})
}

// Reseal seals everything anew, credentials and data of machines, that another key than the current one sealed,
// and returns how many. Once every controller has done so, the older keys can be
// taken out of the file.
func (hs *Hosts) Reseal(ctx context.Context) (int, error) {
	n := 0
	keys := hs.docs.Keys()
	var stale []string
	err := hs.docs.Each(ctx, state.HostsCollection, func(name string, d store.Doc) error {
		p, err := decodePair(name, d, store.Doc{})
		if err == nil && p.host.Sealed != "" && !keys.Current(p.host.Sealed) {
			stale = append(stale, name)
		}
		return err
	})
	for _, name := range stale {
		if err != nil {
			break
		}
		err = hs.change(ctx, name, func(p *pair) error {
			c, err := hs.open(p.host)
			if err != nil {
				return err
			}
			version := p.host.CredentialsVersion // they are the same
			err = hs.seal(&p.host, c)
			p.host.CredentialsVersion = version
			return err
		})
		n++
	}
	if err == nil {
		var data int
		data, err = hs.resealData(ctx)
		n += data
	}
	if err == nil {
		err = hs.resealSample(ctx)
	}
	return n, errors.Annotate(err, "cannot seal credentials anew")
}

// resealSample seals the sample anew.
func (hs *Hosts) resealSample(ctx context.Context) error {
	key := hs.docs.Key("site", "host-key")
	return hs.docs.Run(ctx, func(int) ([]store.Op, error) {
		docs, err := hs.docs.Get(ctx, []store.Key{key})
		if err != nil {
			return nil, err
		}
		op, err := writeOp(key, docs[0].Rev, sampleDoc{hs.docs.Keys().Seal(sampleName, []byte(sampleName))})
		return []store.Op{op}, err
	})
}

// Format prints "[redacted]" for every verb.
func (secretDoc) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte("[redacted]")) }
