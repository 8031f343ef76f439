//go:build e2e

package install_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/slipway-project/slipway/provision/config"
)

// address is where the machine sees the controller.
const address = "10.0.2.100"

// controller is what the installer speaks to: it checks the token, hands out one
// config, and keeps what is reported.
type controller struct {
	*httptest.Server
	t      *testing.T
	ca     string
	config config.MachineConfig
	image  []byte
	limit  int64         // bytes of the image that are served; then it hangs
	held   chan struct{} // closed when the limit was reached

	mu       sync.Mutex
	token    string
	statuses []config.Status
	beats    int
	log      []string
	health   string
	hold     sync.Once
}

func newController(t *testing.T, image []byte) *controller {
	c := &controller{t: t, image: image, limit: -1, held: make(chan struct{}), token: "secret-token"}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /installer/token", c.exchange)
	mux.HandleFunc("GET /installer/config", c.authorized(func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(c.config)
	}))
	mux.HandleFunc("POST /installer/status", c.authorized(func(_ http.ResponseWriter, r *http.Request) {
		var s config.Status
		c.decode(r, &s)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.statuses = append(c.statuses, s)
		t.Logf("status %s %s %s %dms %s", s.State, s.Step, s.Result, s.Millis, s.Message)
	}))
	mux.HandleFunc("POST /installer/log", c.authorized(func(_ http.ResponseWriter, r *http.Request) {
		var lines []string
		c.decode(r, &lines)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.log = append(c.log, lines...)
	}))
	mux.HandleFunc("POST /installer/heartbeat", c.authorized(func(http.ResponseWriter, *http.Request) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.beats++
	}))
	for _, name := range []string{"health", "inventory", "firmware"} {
		mux.HandleFunc("POST /installer/"+name, c.authorized(func(_ http.ResponseWriter, r *http.Request) {
			b, _ := io.ReadAll(r.Body)
			c.mu.Lock()
			defer c.mu.Unlock()
			c.health += name + " " + string(b) + "\n"
		}))
	}
	mux.HandleFunc("GET /images/", c.serveImage)
	c.Server = httptest.NewUnstartedServer(mux)
	c.TLS = &tls.Config{Certificates: []tls.Certificate{c.certificate()}, MinVersion: tls.VersionTLS12}
	c.Config.ErrorLog = nil
	c.StartTLS()
	t.Cleanup(func() {
		c.CloseClientConnections()
		c.Close()
	})
	return c
}

// certificate makes an authority and a certificate for address.
func (c *controller) certificate() tls.Certificate {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		c.t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "controller"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IPAddresses: []net.IP{net.ParseIP(address)}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		c.t.Fatal(err)
	}
	c.ca = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

func (c *controller) decode(r *http.Request, v any) {
	if err := json.NewDecoder(r.Body).Decode(v); err != nil {
		c.t.Errorf("%s: %v", r.URL.Path, err)
	}
}

// exchange takes a token once.
func (c *controller) exchange(w http.ResponseWriter, r *http.Request) {
	var e config.Exchange
	c.decode(r, &e)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.token == "" || string(e.Token) != c.token || !ed25519.Verify(e.PublicKey, e.Message(), e.Signature) {
		http.Error(w, "no", http.StatusForbidden)
		return
	}
	c.token = ""
	_, _ = io.WriteString(w, `{"credential":"credential-of-the-run"}`)
}

func (c *controller) authorized(h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer credential-of-the-run" {
			http.Error(w, "no", http.StatusUnauthorized)
			return
		}
		h(w, r)
	}
}

// serveImage serves the image with parts, as far as the limit.
func (c *controller) serveImage(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("ETag", `"v1"`)
	c.mu.Lock()
	limit := c.limit
	c.mu.Unlock()
	if limit < 0 || strings.HasPrefix(r.Header.Get("Range"), "bytes=0-") {
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(c.image))
		return
	}
	w.Header().Set("Content-Length", fmt.Sprint(len(c.image)))
	_, _ = w.Write(c.image[:limit])
	w.(http.Flusher).Flush()
	c.hold.Do(func() { close(c.held) })
	<-r.Context().Done()
}

// order prepares for the next boot: a config, and a new token.
func (c *controller) order(cfg config.MachineConfig, boot int) *config.Boot {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.config, c.statuses, c.log, c.beats = cfg, nil, nil, 0
	c.token = fmt.Sprintf("secret-token-%d", boot)
	return &config.Boot{
		Server: "https://" + address + "/installer", CA: c.ca, Host: "host-7", Number: boot, Token: config.Secret(c.token),
		Network: config.Network{Timeout: 120},
	}
}

// last returns the last status.
func (c *controller) last() config.Status {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.statuses) == 0 {
		return config.Status{}
	}
	return c.statuses[len(c.statuses)-1]
}

// steps returns the steps that ended well, in order.
func (c *controller) steps() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []string
	for _, s := range c.statuses {
		if s.State == config.StateStep && s.Result == "done" {
			out = append(out, s.Step)
		}
	}
	return strings.Join(out, " ")
}
