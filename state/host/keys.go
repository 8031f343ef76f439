package host

import (
	"encoding/json"
	"fmt"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/environs/baremetal/bmc"
	"github.com/slipway-project/slipway/internal/hostkey"
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

// Format prints "[redacted]" for every verb.
func (secretDoc) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte("[redacted]")) }
