package redfish

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"

	"github.com/slipway-project/slipway/environs/baremetal/bmc"
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
		want, err := bmc.ParseFingerprint(pin)
		if err != nil {
			return nil, err
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
		var err error
		if c.RootCAs, err = bmc.ParseAuthorities(d.CABundle); err != nil {
			return nil, err
		}
	}
	c.InsecureSkipVerify = d.DisableCertificateVerification
	return c, nil
}
