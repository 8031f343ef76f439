package tlsfiles_test

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slipway-project/slipway/internal/tlsfiles"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func verify(t *testing.T, leaf, authority []byte, host string, at time.Time) error {
	t.Helper()
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(authority) {
		t.Fatal("no authority")
	}
	return leafOf(t, leaf).checks(roots, host, at)
}

type chain []*x509.Certificate

func (c chain) checks(roots *x509.CertPool, host string, at time.Time) error {
	_, err := c[0].Verify(x509.VerifyOptions{Roots: roots, DNSName: host, CurrentTime: at})
	return err
}

func leafOf(t *testing.T, data []byte) chain {
	t.Helper()
	var c chain
	for rest := data; ; {
		block, more := pem.Decode(rest)
		if block == nil {
			return c
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		c, rest = append(c, cert), more
	}
}

func TestLeafIsForItsHostsAndSignedByTheAuthority(t *testing.T) {
	ca, err := tlsfiles.NewAuthority("test", now)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := tlsfiles.NewLeaf(ca, tlsfiles.Hosts("api.example", "192.0.2.7"), now)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(leafOf(t, leaf.Cert)); n != 2 {
		t.Errorf("the chain has %d certificates, want the leaf and the authority", n)
	}
	for _, host := range []string{"juju-apiserver", "localhost", "127.0.0.1", "::1", "api.example", "192.0.2.7"} {
		if err := verify(t, leaf.Cert, ca.Cert, host, now); err != nil {
			t.Errorf("%s: %v", host, err)
		}
	}
	if verify(t, leaf.Cert, ca.Cert, "other.example", now) == nil {
		t.Error("the certificate is good for another name too")
	}
	if verify(t, leaf.Cert, ca.Cert, "localhost", now.AddDate(2, 0, 0)) == nil {
		t.Error("the certificate is good in two years too")
	}
	other, err := tlsfiles.NewAuthority("other", now)
	if err != nil {
		t.Fatal(err)
	}
	if verify(t, leaf.Cert, other.Cert, "localhost", now) == nil {
		t.Error("another authority vouches for the certificate")
	}
	if _, err := tlsfiles.NewLeaf(ca, nil, now.AddDate(11, 0, 0)); err == nil || !strings.Contains(err.Error(), "expired on 2035-12-31") {
		t.Errorf("NewLeaf of an expired authority = %v, want it named", err)
	}
}

func TestHostsAreNamedOnce(t *testing.T) {
	got := tlsfiles.Hosts("localhost", "b", "a")
	if want := []string{"127.0.0.1", "::1", "a", "b", "juju-apiserver", "localhost"}; !slices.Equal(got, want) {
		t.Errorf("Hosts = %q, want %q", got, want)
	}
}

func TestPairDoesNotPrintItsKey(t *testing.T) {
	p := tlsfiles.Pair{Key: []byte("s3cret")}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s"} {
		if text := fmt.Sprintf(verb, p); text != "[redacted]" {
			t.Errorf("%s prints %s", verb, text)
		}
	}
}

func TestDirKeepsWhatItMade(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tls")
	first, err := tlsfiles.Open(path, tlsfiles.Hosts())
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := first.Certificate()
	if err != nil {
		t.Fatal(err)
	}
	second, err := tlsfiles.Open(path, tlsfiles.Hosts())
	if err != nil {
		t.Fatal(err)
	}
	if again, _ := second.Certificate(); second.AuthorityPEM() != first.AuthorityPEM() || !again.Leaf.Equal(leaf.Leaf) {
		t.Error("the second Open made new certificates")
	}
	third, err := tlsfiles.Open(path, tlsfiles.Hosts("api.example"))
	if err != nil {
		t.Fatal(err)
	}
	if again, _ := third.Certificate(); third.AuthorityPEM() != first.AuthorityPEM() || again.Leaf.VerifyHostname("api.example") != nil {
		t.Error("want the same authority, and a certificate for the new name")
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		want := os.FileMode(0o644)
		if strings.Contains(e.Name(), "key") {
			want = 0o600
		}
		if info.Mode().Perm() != want {
			t.Errorf("%s has mode %v, want %v", e.Name(), info.Mode().Perm(), want)
		}
	}
	if len(entries) != 4 {
		t.Errorf("%d files, want 4", len(entries))
	}
}

func TestDirNeverReplacesAnAuthority(t *testing.T) {
	tests := []struct {
		name   string
		damage func(path string) error
		want   string
	}{
		{"key gone", func(p string) error { return os.Remove(filepath.Join(p, "ca-key.pem")) }, "incomplete"},
		{"certificate gone", func(p string) error { return os.Remove(filepath.Join(p, "ca.pem")) }, "incomplete"},
		{"damaged", func(p string) error { return os.WriteFile(filepath.Join(p, "ca.pem"), []byte("x"), 0o644) }, "cannot use the certificate authority"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			path := t.TempDir()
			if _, err := tlsfiles.Open(path, tlsfiles.Hosts()); err != nil {
				t.Fatal(err)
			}
			if err := test.damage(path); err != nil {
				t.Fatal(err)
			}
			if _, err := tlsfiles.Open(path, tlsfiles.Hosts()); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("Open = %v, want %q", err, test.want)
			}
		})
	}
}
