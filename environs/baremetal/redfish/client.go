package redfish

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/environs/baremetal/bmc"
)

// Limits for each BMC.
const (
	maxInFlight = 4
	maxBody     = 4 << 20 // bytes of one answer; the largest real ones are some 100 kB
	rootPath    = "/redfish/v1/"
	systemsPath = "/redfish/v1/Systems"
	sessions    = "/redfish/v1/SessionService/Sessions"
)

// conn is the one way to a BMC, shared by all hosts behind it.
type conn struct {
	endpoint string
	creds    bmc.Credentials
	trust    string // what the TLS settings were made from
	http     *http.Client
	timeout  time.Duration // for one request

	slots chan struct{} // filled by requests in flight
	login chan struct{} // filled by whoever logs in

	mu      sync.Mutex
	token   string
	session string // its path; empty: none
	basic   bool   // sessions do not work here
	systems map[string]*known
}

// known is what we remember of a system. All of it can be found out again.
type known struct {
	verified time.Time // when access was last proven
	cd       string    // path of the virtual CD
	power    *powerCommand
	override int // how often the boot source was overridden without being kept
	step     string
	busy     bool // a power command is being sent
}

// newConn returns a way to the BMC.
func newConn(endpoint string, creds bmc.Credentials, transport *http.Transport, timeout time.Duration) *conn {
	return &conn{
		endpoint: endpoint,
		creds:    creds,
		timeout:  timeout,
		slots:    make(chan struct{}, maxInFlight),
		login:    make(chan struct{}, 1),
		systems:  make(map[string]*known),
		http: &http.Client{
			Transport:     transport,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
}

// newTransport returns a transport that keeps few connections for a short while.
func newTransport(dial time.Duration) *http.Transport {
	return &http.Transport{
		DialContext:            (&net.Dialer{Timeout: dial, KeepAlive: 30 * time.Second}).DialContext,
		TLSHandshakeTimeout:    dial,
		MaxIdleConnsPerHost:    1,
		MaxConnsPerHost:        maxInFlight,
		IdleConnTimeout:        90 * time.Second,
		MaxResponseHeaderBytes: 64 << 10,
		DisableCompression:     true, // some BMCs announce it and get it wrong
	}
}

// system returns what is remembered of the system at path.
func (c *conn) system(path string) *known {
	c.mu.Lock()
	defer c.mu.Unlock()
	k, ok := c.systems[path]
	if !ok {
		k = new(known)
		c.systems[path] = k
	}
	return k
}

// answer is what a BMC said.
type answer struct {
	header http.Header
	body   []byte
}

// get reads the resource at path into v and returns its ETag.
func (c *conn) get(ctx context.Context, path string, v any) (etag string, err error) {
	a, err := c.do(ctx, http.MethodGet, path, nil, nil)
	if err != nil {
		return "", errors.Trace(err)
	}
	if err := json.Unmarshal(a.body, v); err != nil {
		return "", notRedfish(path, err)
	}
	return a.header.Get("ETag"), nil
}

// notRedfish is the verdict about an answer that cannot be understood.
func notRedfish(path string, err error) error {
	return verdictf("what the BMC answers at %s is not what Redfish prescribes: %s", path, err)
}

// do sends a request as one who is logged in, and logs in if need be. A session
// that the BMC no longer knows is replaced, once.
func (c *conn) do(ctx context.Context, method, path string, payload any, header http.Header) (answer, error) {
	for try := 0; ; try++ {
		token, basic, err := c.authenticate(ctx)
		if err != nil {
			return answer{}, errors.Trace(err)
		}
		h := header.Clone()
		if h == nil {
			h = make(http.Header)
		}
		if !basic {
			h.Set("X-Auth-Token", token)
		}
		a, err := c.send(ctx, request{method: method, path: path, payload: payload, header: h, basic: basic})
		if statusOf(err) != http.StatusUnauthorized {
			return a, errors.Trace(err)
		}
		if basic || try > 0 {
			return answer{}, verdictf("the BMC refuses the user name or password; correct the host's credentials")
		}
		c.replace(ctx, token)
	}
}

// replace opens a session in place of the one with that token. The old one has
// most likely expired; in case it has not, it is ended, or it would use up one of
// the few that a BMC can have.
func (c *conn) replace(ctx context.Context, token string) {
	c.mu.Lock()
	if c.token != token {
		c.mu.Unlock()
		return // somebody else has replaced it
	}
	old := c.session
	c.token, c.session = "", ""
	c.mu.Unlock()
	fresh, basic, err := c.authenticate(ctx)
	if err != nil || basic || old == "" {
		return // the next request tells what is wrong
	}
	h := http.Header{"X-Auth-Token": {fresh}}
	if _, err := c.send(ctx, request{method: http.MethodDelete, path: old, header: h}); err != nil {
		logger.Debugf("%s: the old session is gone already: %v", c.endpoint, err)
	}
}

// authenticate returns the session's token, after logging in if there is none, or
// basic set if the BMC has no sessions.
func (c *conn) authenticate(ctx context.Context) (token string, basic bool, err error) {
	select {
	case c.login <- struct{}{}:
		defer func() { <-c.login }()
	case <-ctx.Done():
		return "", false, errTimeout
	}
	c.mu.Lock()
	token, basic = c.token, c.basic
	c.mu.Unlock()
	if token != "" || basic {
		return token, basic, nil
	}
	body := map[string]string{"UserName": c.creds.Username, "Password": c.creds.Password}
	a, err := c.send(ctx, request{method: http.MethodPost, path: sessions, payload: body})
	switch status := statusOf(err); {
	case err == nil:
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return "", false, verdictf("the BMC refuses the user name or password; correct the host's credentials")
	case status == http.StatusNotFound, status == http.StatusMethodNotAllowed, status == http.StatusNotImplemented:
		logger.Debugf("%s has no sessions: basic authentication from now on", c.endpoint)
		c.setBasic()
		return "", true, nil
	case status != 0:
		// Probably its sessions are used up, by others or by ourselves before a
		// restart: a password with each request does without one.
		if _, berr := c.send(ctx, request{method: http.MethodGet, path: systemsPath, basic: true}); berr == nil {
			c.setBasic()
			return "", true, nil
		}
		if isSessionLimit(err) {
			return "", false, verdictf("the BMC has no free session and takes no password without one; end sessions there, or wait until they expire")
		}
		return "", false, errors.Annotate(err, "cannot log in")
	default:
		return "", false, errors.Trace(err)
	}
	token = a.header.Get("X-Auth-Token")
	if token == "" {
		return "", false, verdictf("the BMC opens a session but gives no token for it")
	}
	location := a.header.Get("Location")
	if i := strings.Index(location, "/redfish/"); i >= 0 {
		location = location[i:]
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.token, c.session = token, location
	return token, false, nil
}

// setBasic sends the password with each request from now on.
func (c *conn) setBasic() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.basic = true
}

// request is one HTTP request to a BMC.
type request struct {
	method, path string
	payload      any // nil: no body
	header       http.Header
	basic        bool // send the password along
}

// send sends one request, within the limits, and reads the answer.
func (c *conn) send(ctx context.Context, r request) (answer, error) {
	if !strings.HasPrefix(r.path, "/") || strings.HasPrefix(r.path, "//") {
		return answer{}, verdictf("the BMC refers to %q, which is not a path of its own", r.path)
	}
	select {
	case c.slots <- struct{}{}:
		defer func() { <-c.slots }()
	case <-ctx.Done():
		return answer{}, errTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	req, err := c.build(ctx, r)
	if err != nil {
		return answer{}, errors.Trace(err)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return answer{}, fromNetwork(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxBody+1))
	switch {
	case err != nil:
		return answer{}, fromNetwork(err)
	case len(body) > maxBody:
		return answer{}, verdictf("the BMC's answer at %s has more than %d MiB", r.path, maxBody>>20)
	case resp.StatusCode >= 300 && resp.StatusCode < 400:
		return answer{}, verdictf("the BMC sends %s on to %s; we do not follow with its credentials, give that address if it is the right one", r.path, clean(resp.Header.Get("Location"), c.creds.Password))
	case resp.StatusCode < 200 || resp.StatusCode >= 300:
		return answer{}, newRefusal(r.method, r.path, resp.StatusCode, body)
	}
	return answer{resp.Header, body}, nil
}

// build makes the HTTP request.
func (c *conn) build(ctx context.Context, r request) (*http.Request, error) {
	var body io.Reader
	if r.payload != nil {
		data, err := json.Marshal(r.payload)
		if err != nil {
			return nil, errors.Trace(err)
		}
		body = bytes.NewReader(data)
	}
	req, err := http.NewRequestWithContext(ctx, r.method, c.endpoint+r.path, body)
	if err != nil {
		return nil, verdictf("the BMC refers to %q, which is not a path", r.path)
	}
	for key, values := range r.header {
		req.Header[key] = values
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("OData-Version", "4.0")
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if r.basic {
		req.SetBasicAuth(c.creds.Username, c.creds.Password)
	}
	return req, nil
}

// logout ends the session, if there is one.
func (c *conn) logout(ctx context.Context) {
	c.mu.Lock()
	token, session := c.token, c.session
	c.token, c.session = "", ""
	c.mu.Unlock()
	if token != "" && session != "" {
		h := http.Header{"X-Auth-Token": {token}}
		if _, err := c.send(ctx, request{method: http.MethodDelete, path: session, header: h}); err != nil {
			logger.Debugf("cannot log out of %s: %v", c.endpoint, err)
		}
	}
	c.http.CloseIdleConnections()
}
