package mongotest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"time"

	"github.com/juju/errors"
)

// Authority is a certificate authority for tests and demonstrations. Its
// certificates are valid for a day, for 127.0.0.1 and localhost.
type Authority struct {
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
	PEM  []byte // the authority's certificate
}

// NewAuthority makes an authority with a fresh key.
func NewAuthority() (*Authority, error) {
	a := &Authority{}
	template := newTemplate("test authority")
	template.IsCA, template.BasicConstraintsValid = true, true
	template.KeyUsage = x509.KeyUsageCertSign
	var err error
	if a.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		return nil, errors.Trace(err)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &a.key.PublicKey, a.key)
	if err != nil {
		return nil, errors.Trace(err)
	}
	a.cert, err = x509.ParseCertificate(der)
	a.PEM = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return a, errors.Trace(err)
}

func newTemplate(name string) *x509.Certificate {
	serial, _ := rand.Int(rand.Reader, big.NewInt(1<<62)) // never fails: see crypto/rand.Reader
	return &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: name},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(24 * time.Hour),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1)},
		DNSNames:     []string{"localhost"},
	}
}

// Issue returns a certificate and its key in one PEM text, as MongoDB's tools
// keep them.
func (a *Authority) Issue(name string) ([]byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, errors.Trace(err)
	}
	der, err := x509.CreateCertificate(rand.Reader, newTemplate(name), a.cert, &key.PublicKey, a.key)
	if err != nil {
		return nil, errors.Trace(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, errors.Trace(err)
	}
	out := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return append(out, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})...), nil
}

// ServerConfig returns the configuration of a TLS server with a certificate of
// this authority. A mutual one refuses clients without a certificate of it.
func (a *Authority) ServerConfig(mutual bool) (*tls.Config, error) {
	text, err := a.Issue("server")
	if err != nil {
		return nil, err
	}
	cert, err := tls.X509KeyPair(text, text)
	if err != nil {
		return nil, errors.Trace(err)
	}
	config := &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}
	if mutual {
		config.ClientAuth = tls.RequireAndVerifyClientCert
		config.ClientCAs = a.Pool()
	}
	return config, nil
}

// Pool returns a pool that trusts this authority alone.
func (a *Authority) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}
