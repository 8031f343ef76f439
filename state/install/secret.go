package install

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/internal/hostkey"
	"github.com/slipway-project/slipway/provision/config"
)

// newSecret returns 256 random bits as text that may stand in a path.
func newSecret() config.Secret {
	var b [32]byte
	_, _ = rand.Read(b[:]) // never fails
	return config.Secret(base64.RawURLEncoding.EncodeToString(b[:]))
}

// tokenOf returns the token of the boot whose medium has a secret. The secret cannot be
// found from it.
func tokenOf(medium config.Secret) config.Secret {
	m := hmac.New(sha256.New, []byte(medium))
	_, _ = m.Write([]byte("slipway installer token")) // never fails
	return config.Secret(base64.RawURLEncoding.EncodeToString(m.Sum(nil)))
}

// hash returns what is kept of a secret. Secrets have 256 bits, so that a plain sum does.
func hash(s config.Secret) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}

// matches compares a secret with what is kept of one, which may be nothing.
func matches(s config.Secret, kept string) bool {
	return kept != "" && s != "" && subtle.ConstantTimeCompare([]byte(hash(s)), []byte(kept)) == 1
}

// seal puts secrets into a document.
func (is *Installs) seal(d *doc, s secrets) error {
	keys := is.docs.Keys()
	if keys == nil {
		return errors.NewNotSupported(nil, "this controller has no key to keep an installer's secrets with")
	}
	data, err := json.Marshal(s)
	if err != nil {
		return errors.Trace(err)
	}
	d.Sealed = keys.Seal("install "+d.Order.Host, data)
	return nil
}

// open returns the secrets of a document.
func (is *Installs) open(d *doc) (secrets, error) {
	var s secrets
	if d.Sealed == "" {
		return s, nil
	}
	keys := is.docs.Keys()
	if keys == nil {
		return s, errors.Annotatef(hostkey.ErrWrongKey, "cannot open the order of host %q", d.Order.Name)
	}
	data, err := keys.Open("install "+d.Order.Host, d.Sealed)
	if err != nil {
		return s, errors.Annotatef(hostkey.ErrWrongKey, "cannot open the order of host %q", d.Order.Name)
	}
	if json.Unmarshal(data, &s) != nil { // its error may quote it
		return s, errors.Errorf("the order of host %q is damaged", d.Order.Name)
	}
	return s, nil
}

// dropData forgets what the machine was configured with, once its run has ended. The
// medium's path is kept, so that the medium is known again when it is to be taken out.
func (is *Installs) dropData(d *doc) error {
	s, err := is.open(d)
	if err != nil {
		return err
	}
	return is.seal(d, secrets{Medium: s.Medium})
}
