package ironic_test

import (
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/environs/baremetal/bmc"
	"github.com/slipway-project/slipway/environs/baremetal/ironic"
	metal3v1alpha1 "github.com/slipway-project/slipway/environs/baremetal/metal3/v1alpha1"
	"github.com/slipway-project/slipway/environs/baremetal/provisioner"
)

// How requests say who asks, and whom they trust.
func TestAccess(t *testing.T) {
	var mu sync.Mutex
	var seen []http.Header
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, r.Header.Clone())
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	defer server.Close()
	authority := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	// ask makes one request, and returns with which headers it came, if it did.
	ask := func(c ironic.Config) http.Header {
		t.Helper()
		mu.Lock()
		seen = nil
		mu.Unlock()
		c.Endpoint = server.URL + "/v1"
		b, err := ironic.New(c)
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		h := new(metal3v1alpha1.BareMetalHost)
		h.Metadata.Name, h.Spec.BMC.Address = "a", "ipmi://192.0.2.1"
		p, err := b.Factory(t.Context())(h, bmc.Credentials{Username: "u", Password: "p"}, func(string, string) {})
		if err != nil {
			t.Fatal(err)
		}
		if up, err := p.(provisioner.ReadyChecker).IsReady(); up && err == nil {
			t.Error("a server that answers 503 is taken for ready")
		}
		mu.Lock()
		defer mu.Unlock()
		if len(seen) == 0 {
			return nil
		}
		return seen[0]
	}
	if got := ask(ironic.Config{}); got != nil {
		t.Error("a certificate of an unknown authority is trusted")
	}
	if got := ask(ironic.Config{SkipVerify: true}); got == nil || got.Get("Authorization") != "" {
		t.Errorf("without a login: %v", got)
	}
	got := ask(ironic.Config{CABundle: authority, Username: "admin", Password: "secret"})
	if user, password, ok := (&http.Request{Header: got}).BasicAuth(); !ok || user != "admin" || password != "secret" {
		t.Errorf("basic authentication: %q", user)
	}
	n := 0
	token := func() (string, error) { n++; return "token", nil }
	if got := ask(ironic.Config{CABundle: authority, Token: token}); got.Get("X-Auth-Token") != "token" || n == 0 {
		t.Errorf("token: %v", got)
	}
	broken := func() (string, error) { return "", errors.New("no such file") }
	if got := ask(ironic.Config{CABundle: authority, Token: broken}); got != nil {
		t.Error("a request is made without its token")
	}
	if err := (ironic.Config{Endpoint: "http://h", Username: "u", Password: "p", Token: token}).Validate(); !errors.Is(err, errors.NotValid) {
		t.Errorf("a user name and a token: %v, want NotValid", err)
	}
}
