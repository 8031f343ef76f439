package config

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/juju/errors"
	"github.com/juju/loggo"

	"github.com/slipway-project/slipway/provision/health"
)

var logger = loggo.GetLogger("slipway.provision.config")

const (
	// maxReply bounds an answer of the controller; a config with files may be large.
	maxReply = 64 << 20
	// requestTimeout bounds one try of one request.
	requestTimeout = 30 * time.Second
	// tries is how often a request is sent before it is given up.
	tries = 5
)

// ErrRefused is in the chain of an error when the controller has answered that
// it will not serve this installer: its token is used or its order withdrawn. A
// new try is pointless.
const ErrRefused = errors.ConstError("the controller refuses this installer")

// Client speaks to the controller's installer endpoints. It is a Provider and
// a health reporter, and may be used by several goroutines at once.
//
// Credentials are sent over TLS only, or to a loopback address; redirects are
// not followed, so that nobody can be handed them. A request that fails by the
// network or with status 429 or 5xx is sent again, with growing pauses; any other 4xx is final.
type Client struct {
	base     *url.URL
	http     *http.Client
	insecure bool
	ca       string
	pause    time.Duration

	mu         sync.Mutex
	credential Secret
	serverTime time.Time // last Date header
	seenAt     time.Time // when that came, with a monotonic reading
}

// NewClient returns a client for the server that boot names. It returns an
// error satisfying errors.NotValid if boot cannot be used.
func NewClient(boot *Boot) (*Client, error) {
	if err := boot.Validate(); err != nil {
		return nil, errors.Annotate(err, "cannot use boot file")
	}
	base, err := url.Parse(strings.TrimSuffix(boot.Server, "/") + "/")
	if err != nil {
		return nil, errors.NotValidf("server URL")
	}
	conf, err := tlsConfig(boot.CA)
	if err != nil {
		return nil, err
	}
	return &Client{
		base:     base,
		insecure: boot.Insecure,
		ca:       boot.CA,
		pause:    time.Second,
		http: &http.Client{
			Timeout:       requestTimeout,
			Transport:     &http.Transport{TLSClientConfig: conf, Proxy: nil, TLSHandshakeTimeout: 15 * time.Second, DialContext: (&net.Dialer{Timeout: 15 * time.Second}).DialContext},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}, nil
}

// tlsConfig believes only the authorities in ca, if there are any.
func tlsConfig(ca string) (*tls.Config, error) {
	conf := &tls.Config{MinVersion: tls.VersionTLS12}
	if ca == "" {
		return conf, nil
	}
	conf.RootCAs = x509.NewCertPool()
	if !conf.RootCAs.AppendCertsFromPEM([]byte(ca)) {
		return nil, errors.NotValidf("certificate authority of the boot file")
	}
	return conf, nil
}

// HTTPClient returns a client for images, without a limit on a whole exchange. It
// believes the authority of the boot file and those of the system: images may lie on public
// servers, and are verified by themselves.
func (c *Client) HTTPClient() *http.Client {
	conf := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.ca != "" {
		pool, err := x509.SystemCertPool()
		if err != nil {
			pool = x509.NewCertPool()
		}
		pool.AppendCertsFromPEM([]byte(c.ca))
		conf.RootCAs = pool
	}
	return &http.Client{Transport: &http.Transport{
		TLSClientConfig: conf, TLSHandshakeTimeout: 15 * time.Second, ResponseHeaderTimeout: time.Minute,
		DialContext: (&net.Dialer{Timeout: 15 * time.Second}).DialContext, ForceAttemptHTTP2: false,
	}}
}

// Close ends connections that are not in use. The client can be used nevertheless.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// SetCredential replaces what requests carry as their bearer.
func (c *Client) SetCredential(s Secret) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.credential = s
}

// SetPause sets the first pause between tries, 1 second unless set; tests use less.
func (c *Client) SetPause(d time.Duration) { c.pause = d }

// ServerTime returns what the controller's clock shows now, going by the last
// reply, and false before the first.
func (c *Client) ServerTime() (time.Time, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.serverTime.IsZero() {
		return time.Time{}, false
	}
	return c.serverTime.Add(time.Since(c.seenAt)), true
}

// Exchange proves this boot by token and receives a credential for the rest of
// the run. publicKey is the installer's own; repeated with the same key the
// exchange is answered again, so a lost reply does no harm. An error may have
// ErrRefused in its chain.
func (c *Client) Exchange(ctx context.Context, e Exchange) error {
	var reply struct {
		Credential Secret `json:"credential"`
	}
	if err := c.call(ctx, http.MethodPost, "token", e, &reply); err != nil {
		return errors.Annotate(err, "cannot exchange installer token")
	}
	if reply.Credential == "" {
		return errors.NotValidf("reply to the token exchange without a credential")
	}
	c.SetCredential(reply.Credential)
	return nil
}

// Exchange is how an installer shows that it was ordered.
type Exchange struct {
	Host      string `json:"host"`
	Boot      int    `json:"boot"`
	Token     Secret `json:"token"`
	PublicKey []byte `json:"public-key"` // ed25519, made in this boot
	Signature []byte `json:"signature"`  // of host, boot number and token by that key
}

// Message returns what Signature signs.
func (e *Exchange) Message() []byte {
	return fmt.Appendf(nil, "slipway installer\n%s\n%d\n%s", e.Host, e.Boot, string(e.Token))
}

// GetConfig reads what the machine is to become, and validates it.
func (c *Client) GetConfig(ctx context.Context) (*MachineConfig, error) {
	var m MachineConfig
	if err := c.call(ctx, http.MethodGet, "config", nil, &m); err != nil {
		return nil, errors.Annotate(err, "cannot get machine config")
	}
	if err := m.Validate(); err != nil {
		return nil, errors.Annotate(err, "cannot use machine config")
	}
	return &m, nil
}

// ReportStatus implements Provider.
func (c *Client) ReportStatus(ctx context.Context, s Status) error {
	return errors.Annotatef(c.call(ctx, http.MethodPost, "status", s, nil), "cannot report status %q", s.State)
}

// ReportInventory implements Provider.
func (c *Client) ReportInventory(ctx context.Context, inventory []byte) error {
	return errors.Annotate(c.call(ctx, http.MethodPost, "inventory", json.RawMessage(inventory), nil), "cannot report inventory")
}

// ReportFirmware implements Provider.
func (c *Client) ReportFirmware(ctx context.Context, firmware []byte) error {
	return errors.Annotate(c.call(ctx, http.MethodPost, "firmware", json.RawMessage(firmware), nil), "cannot report firmware")
}

// ReportHealthChecks delivers the results of the health checks.
func (c *Client) ReportHealthChecks(ctx context.Context, results []health.CheckResult) error {
	return errors.Annotate(c.call(ctx, http.MethodPost, "health", results, nil), "cannot report health checks")
}

// Heartbeat implements Provider.
func (c *Client) Heartbeat(ctx context.Context) error {
	return errors.Annotate(c.call(ctx, http.MethodPost, "heartbeat", struct{}{}, nil), "cannot send heartbeat")
}

// ShipLog implements Provider.
func (c *Client) ShipLog(ctx context.Context, lines []string) error {
	return errors.Annotate(c.call(ctx, http.MethodPost, "log", lines, nil), "cannot ship log")
}

// call sends one request until it is answered, refused, or given up.
func (c *Client) call(ctx context.Context, method, name string, body, reply any) error {
	var data []byte
	if body != nil {
		var err error
		if data, err = json.Marshal(body); err != nil {
			return errors.Annotatef(err, "cannot encode %s", name)
		}
	}
	pause := c.pause
	for try := 1; ; try++ {
		again, err := c.once(ctx, method, name, data, reply)
		if err == nil || !again {
			return err
		}
		if try == tries {
			return errors.Annotatef(err, "gave up after %d tries", tries)
		}
		logger.Debugf("%s %s: try %d of %d: %v", method, name, try, tries, err)
		select {
		case <-ctx.Done():
			return errors.Trace(ctx.Err())
		case <-time.After(pause):
		}
		pause = min(pause*2, 30*time.Second)
	}
}

// once sends one request; again says whether another try may help.
func (c *Client) once(ctx context.Context, method, name string, data []byte, reply any) (again bool, err error) {
	target := c.base.JoinPath(name)
	if err := c.checkTransport(target); err != nil {
		return false, err
	}
	req, err := http.NewRequestWithContext(ctx, method, target.String(), bytes.NewReader(data))
	if err != nil {
		return false, errors.Trace(err)
	}
	if data != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	c.mu.Lock()
	if c.credential != "" {
		req.Header.Set("Authorization", "Bearer "+string(c.credential))
	}
	c.mu.Unlock()
	resp, err := c.http.Do(req)
	if err != nil {
		return ctx.Err() == nil, errors.Trace(err)
	}
	defer func() {
		_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 1<<16))
		_ = resp.Body.Close()
	}()
	c.noteTime(resp.Header.Get("Date"))
	switch code := resp.StatusCode; {
	case code == http.StatusUnauthorized, code == http.StatusForbidden, code == http.StatusGone:
		return false, errors.Annotatef(ErrRefused, "%s answered %s", name, resp.Status)
	case code == http.StatusTooManyRequests, code >= 500:
		return true, errors.Errorf("%s answered %s", name, resp.Status)
	case code < 200 || code > 299:
		return false, errors.Errorf("%s answered %s: %s", name, resp.Status, firstLine(resp.Body))
	}
	if reply == nil {
		return false, nil
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxReply)).Decode(reply); err != nil {
		return ctx.Err() == nil, errors.Annotatef(err, "cannot decode answer to %s", name)
	}
	return false, nil
}

// checkTransport refuses to send anything to another machine in the clear.
func (c *Client) checkTransport(u *url.URL) error {
	if u.Scheme == "https" || c.insecure || isLoopback(u.Hostname()) {
		return nil
	}
	return errors.NewNotSupported(nil, fmt.Sprintf("refused to speak plain http to %s (use https, or insecure in the boot file)", u.Hostname()))
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// noteTime remembers the server's clock.
func (c *Client) noteTime(date string) {
	t, err := http.ParseTime(date)
	if err != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.serverTime, c.seenAt = t, time.Now()
}

func firstLine(r io.Reader) string {
	b, _ := io.ReadAll(io.LimitReader(r, 300))
	line, _, _ := strings.Cut(strings.TrimSpace(string(b)), "\n")
	return Redact(line)
}
