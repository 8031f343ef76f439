package redfish

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"strings"

	"github.com/juju/errors"

	metal3v1alpha1 "github.com/slipway-project/slipway/environs/baremetal/metal3/v1alpha1"
)

// fingerprint returns the SHA-256 of a certificate in hexadecimal.
func fingerprint(c *x509.Certificate) string {
	sum := sha256.Sum256(c.Raw)
	return hex.EncodeToString(sum[:])
}

// tlsConfig returns how the BMC has to prove who it is. The error satisfies
// errors.NotValid.
func tlsConfig(d metal3v1alpha1.BMCDetails) (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if pin := d.CertificateFingerprint; pin != "" {
		want := strings.ToLower(strings.NewReplacer(":", "", " ", "").Replace(pin))
		if raw, err := hex.DecodeString(want); err != nil || len(raw) != sha256.Size {
			return nil, errors.NewNotValid(nil, "BMC certificate fingerprint is not a SHA-256 in hexadecimal (64 digits)")
		}
		c.InsecureSkipVerify = true // VerifyConnection checks more strictly
		c.VerifyConnection = func(s tls.ConnectionState) error {
			if got := fingerprint(s.PeerCertificates[0]); got != want {
				return verdictf("the BMC shows a certificate with SHA-256 %s, not the pinned %s; if it was changed on purpose, pin the new one", got, want)
			}
			return nil
		}
		return c, nil
	}
	if d.CABundle != "" {
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM([]byte(d.CABundle)) {
			return nil, errors.NewNotValid(nil, "BMC CA bundle holds no certificate in PEM")
		}
	}
	c.InsecureSkipVerify = d.DisableCertificateVerification
	return c, nil
}
