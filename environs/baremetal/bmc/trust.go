package bmc

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"strings"

	"github.com/juju/errors"
)

// ParseFingerprint returns the one form of a certificate's fingerprint: the
// SHA-256 in lower-case hexadecimal, without the colons and spaces that it may be
// written with. The error satisfies errors.NotValid.
func ParseFingerprint(text string) (string, error) {
	want := strings.ToLower(strings.NewReplacer(":", "", " ", "").Replace(text))
	if raw, err := hex.DecodeString(want); err != nil || len(raw) != sha256.Size {
		return "", errors.NewNotValid(nil, "BMC certificate fingerprint is not a SHA-256 in hexadecimal (64 digits)")
	}
	return want, nil
}

// ParseAuthorities returns the authorities of a bundle of certificates in PEM. The
// error satisfies errors.NotValid.
func ParseAuthorities(bundle string) (*x509.CertPool, error) {
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM([]byte(bundle)) {
		return nil, errors.NewNotValid(nil, "BMC CA bundle holds no certificate in PEM")
	}
	return pool, nil
}
