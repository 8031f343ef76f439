package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/environs/baremetal/fakebmc"
)

// certificate returns the certificate to serve with: the one given, or one made
// now that no authority has signed, as BMCs have it.
func certificate(s settings) (tls.Certificate, error) {
	if s.cert != "" {
		c, err := tls.LoadX509KeyPair(s.cert, s.key)
		return c, errors.Annotate(err, "cannot load the certificate")
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, errors.Trace(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()),
		Subject:      pkix.Name{CommonName: "fakebmcd"},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().AddDate(1, 0, 0),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames:     []string{"localhost"},
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	for n := range s.bmcs {
		if n == 256 {
			break // a certificate with a name for each of 10,000 addresses is no good
		}
		template.IPAddresses = append(template.IPAddresses, net.ParseIP(fakebmc.AddressOf(n)))
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return tls.Certificate{}, errors.Trace(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}
