package config

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"time"

	"github.com/juju/errors"
)

// ServerClock asks the controller for the time of day before the machine's own clock is
// known to be right. A certificate cannot be judged by a wrong clock, so it is judged by a
// moment of its own life; that it was issued by the authority of the boot file, for this
// server, is checked in full. Nothing secret is sent.
func ServerClock(ctx context.Context, boot *Boot) (time.Time, error) {
	c, err := NewClient(boot)
	if err != nil {
		return time.Time{}, err
	}
	if t, ok := c.http.Transport.(*http.Transport); ok {
		roots := t.TLSClientConfig.RootCAs
		t.TLSClientConfig.InsecureSkipVerify = true // VerifyConnection does it
		t.TLSClientConfig.VerifyConnection = func(s tls.ConnectionState) error { return verifyAtItsTime(s, roots) }
		defer t.CloseIdleConnections()
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodHead, c.base.String(), nil)
	if err != nil {
		return time.Time{}, errors.Trace(err)
	}
	if err := c.checkTransport(c.base); err != nil {
		return time.Time{}, err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return time.Time{}, errors.Annotate(err, "cannot ask controller for the time")
	}
	_ = resp.Body.Close()
	now, err := http.ParseTime(resp.Header.Get("Date"))
	return now, errors.Annotate(err, "cannot read controller's time")
}

// verifyAtItsTime verifies a server's chain at the beginning of its leaf's life.
func verifyAtItsTime(s tls.ConnectionState, roots *x509.CertPool) error {
	if len(s.PeerCertificates) == 0 {
		return errors.Unauthorizedf("server without a certificate")
	}
	leaf := s.PeerCertificates[0]
	between := x509.NewCertPool()
	for _, c := range s.PeerCertificates[1:] {
		between.AddCert(c)
	}
	_, err := leaf.Verify(x509.VerifyOptions{Roots: roots, Intermediates: between, DNSName: s.ServerName, CurrentTime: leaf.NotBefore.Add(time.Second)})
	return err
}
