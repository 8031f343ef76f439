// Package tlsfiles makes and keeps what a server proves its name with: a
// certificate authority of its own, made once, and a certificate that the
// authority signs, made anew when it ages or the names change.
package tlsfiles

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"slices"
	"time"

	"github.com/juju/errors"
)

// ServerName is the name that clients of this protocol ask for, whatever
// address they dial.
const ServerName = "juju-apiserver"

// How long certificates are good for. Leaf certificates are renewed when two
// thirds of their time have passed.
const (
	authorityLife = 10 * 365 * 24 * time.Hour
	leafLife      = 365 * 24 * time.Hour
	backdate      = time.Hour // for clients whose clock is behind
)

// Pair is a certificate, with those that vouch for it behind it, and its
// private key, both as PEM. It does not print its key.
type Pair struct {
	Cert []byte
	Key  []byte
}

// String returns [redacted].
func (Pair) String() string { return "[redacted]" }

// GoString is String, for %#v.
func (p Pair) GoString() string { return p.String() }

// NewAuthority returns a new certificate authority, which calls itself name.
func NewAuthority(name string, now time.Time) (Pair, error) {
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: name, Organization: []string{"slipway"}},
		NotBefore:             now.Add(-backdate),
		NotAfter:              now.Add(authorityLife),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign | x509.KeyUsageDigitalSignature,
		BasicConstraintsValid: true,
		IsCA:                  true,
		MaxPathLenZero:        true,
	}
	pair, err := sign(template, nil, nil)
	return pair, errors.Annotate(err, "cannot make a certificate authority")
}

// NewLeaf returns a new server certificate signed by authority, for hosts,
// which are names and IP addresses. Its chain holds the authority too.
func NewLeaf(authority Pair, hosts []string, now time.Time) (Pair, error) {
	pair, err := newLeaf(authority, hosts, now)
	return pair, errors.Annotate(err, "cannot make a server certificate")
}

func newLeaf(authority Pair, hosts []string, now time.Time) (Pair, error) {
	ca, err := tls.X509KeyPair(authority.Cert, authority.Key)
	if err != nil {
		return Pair{}, errors.Annotate(err, "certificate authority")
	}
	signer, ok := ca.PrivateKey.(crypto.Signer)
	if !ok {
		return Pair{}, errors.NotValidf("certificate authority's key")
	}
	if now.After(ca.Leaf.NotAfter) {
		return Pair{}, errors.Errorf("certificate authority expired on %s", ca.Leaf.NotAfter.Format(time.DateOnly))
	}
	template := &x509.Certificate{
		Subject:     pkix.Name{CommonName: "slipway API server", Organization: []string{"slipway"}},
		NotBefore:   now.Add(-backdate),
		NotAfter:    earlier(now.Add(leafLife), ca.Leaf.NotAfter),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, h := range hosts {
		if ip := net.ParseIP(h); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
			continue
		}
		template.DNSNames = append(template.DNSNames, h)
	}
	pair, err := sign(template, ca.Leaf, signer)
	if err != nil {
		return Pair{}, errors.Trace(err)
	}
	pair.Cert = append(pair.Cert, authority.Cert...)
	return pair, nil
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// sign makes a key, and a certificate of it from template. A nil parent means
// that the certificate vouches for itself.
func sign(template, parent *x509.Certificate, signer crypto.Signer) (Pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Pair{}, errors.Trace(err)
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return Pair{}, errors.Trace(err)
	}
	template.SerialNumber = serial
	if parent == nil {
		parent, signer = template, key
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		return Pair{}, errors.Trace(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return Pair{}, errors.Trace(err)
	}
	return Pair{
		Cert: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}),
		Key:  pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}),
	}, nil
}

// Hosts returns the hosts that a server's certificate is for: those that every
// client of one machine may use, and those under which the server is known
// elsewhere. They are sorted, each named once.
func Hosts(advertised ...string) []string {
	hosts := append([]string{ServerName, "localhost", "127.0.0.1", "::1"}, advertised...)
	slices.Sort(hosts)
	return slices.Compact(hosts)
}

// fits reports whether a server certificate is still good: signed by the
// authority, for all the hosts, and not yet in the last third of its life.
func fits(leaf, authority Pair, hosts []string, now time.Time) bool {
	pair, err := tls.X509KeyPair(leaf.Cert, leaf.Key)
	if err != nil {
		return false
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(authority.Cert) {
		return false
	}
	if _, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: now}); err != nil {
		return false
	}
	for _, h := range hosts {
		if pair.Leaf.VerifyHostname(h) != nil {
			return false
		}
	}
	return now.Before(RenewAt(pair.Leaf))
}

// RenewAt returns when a certificate is due to be replaced.
func RenewAt(cert *x509.Certificate) time.Time {
	return cert.NotBefore.Add(cert.NotAfter.Sub(cert.NotBefore) * 2 / 3)
}
