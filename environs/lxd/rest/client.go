package rest

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/juju/errors"
)

// callTimeout bounds a call that begins no operation.
const callTimeout = time.Minute

// answerLimit is how many bytes of an answer are read.
const answerLimit = 64 << 20

// Config says where a daemon is and how to prove who is asking.
type Config struct {
	// Address is unix:///path/of/the/socket or https://host:port. Required.
	Address string
	// ClientCert and ClientKey, in PEM, are what the daemon knows the client
	// by. Required for https.
	ClientCert, ClientKey string
	// ServerCerts are the certificates, in PEM, of which the daemon must have
	// one: it is compared as a whole. Required for https.
	ServerCerts string
	// Project is the LXD project that is used; empty means "default".
	Project string
}

// String names the daemon, and nothing secret.
func (c Config) String() string { return c.Address }

// GoString is String, so that no verb of fmt prints a secret.
func (c Config) GoString() string { return c.String() }

// Client makes calls to one daemon. Its methods may be called concurrently.
// Besides what they say themselves, their errors satisfy ErrUnreachable if the
// daemon did not answer, errors.Unauthorized if it does not trust the client,
// and errors.NotValid if it refuses what was asked for.
type Client struct {
	base    string // of URLs
	project string
	http    *http.Client
}

// New returns a client, without connecting. It returns an error satisfying
// errors.NotValid if c cannot work.
func New(c Config) (*Client, error) {
	transport := &http.Transport{MaxIdleConnsPerHost: 16, IdleConnTimeout: 10 * time.Second}
	client := &Client{project: c.Project, http: &http.Client{Transport: transport}}
	u, err := url.Parse(c.Address)
	switch {
	case err != nil:
		return nil, errors.NewNotValid(nil, fmt.Sprintf("LXD address %q is no URL", c.Address))
	case u.Scheme == "unix" && u.Host == "" && u.Path != "":
		client.base = "http://lxd"
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", u.Path)
		}
	case u.Scheme == "https" && u.Host != "" && u.User == nil && strings.Trim(u.Path, "/") == "":
		client.base = "https://" + u.Host
		if transport.TLSClientConfig, err = tlsConfig(c); err != nil {
			return nil, err
		}
	default:
		return nil, errors.NewNotValid(nil, fmt.Sprintf("LXD address %q is neither unix:///path nor https://host:port", c.Address))
	}
	return client, nil
}

// tlsConfig returns a configuration that accepts the pinned certificates alone.
func tlsConfig(c Config) (*tls.Config, error) {
	pair, err := tls.X509KeyPair([]byte(c.ClientCert), []byte(c.ClientKey))
	if err != nil {
		return nil, errors.NewNotValid(nil, "the client certificate and key for LXD do not make a pair")
	}
	var pinned [][]byte
	for rest := []byte(c.ServerCerts); ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		pinned = append(pinned, block.Bytes)
	}
	if len(pinned) == 0 {
		return nil, errors.NewNotValid(nil, "no certificate of an LXD server is known")
	}
	return &tls.Config{
		Certificates: []tls.Certificate{pair},
		MinVersion:   tls.VersionTLS12,
		// LXD's certificates are self-signed and name hosts as the host was
		// called once: the whole certificate is compared instead.
		InsecureSkipVerify: true,
		VerifyConnection: func(s tls.ConnectionState) error {
			return checkPinned(s.PeerCertificates, pinned)
		},
	}, nil
}

func checkPinned(got []*x509.Certificate, pinned [][]byte) error {
	for _, cert := range pinned {
		if len(got) > 0 && bytes.Equal(got[0].Raw, cert) {
			return nil
		}
	}
	return errors.New("the LXD server's certificate is not one of those known (lxd-server-certs)")
}

// CloseIdle closes the connections that no call uses.
func (c *Client) CloseIdle() { c.http.CloseIdleConnections() }

// answer is what LXD wraps all its answers in.
type answer struct {
	Type      string          `json:"type"`
	Operation string          `json:"operation"`
	Code      int             `json:"error_code"`
	Error     string          `json:"error"`
	Metadata  json.RawMessage `json:"metadata"`

	header http.Header // the answer's own
}

// get reads what is at a path.
func (c *Client) get(ctx context.Context, path string, query url.Values, result any) error {
	a, err := c.call(ctx, request{method: http.MethodGet, path: path, query: query})
	if err != nil {
		return err
	}
	return errors.Annotate(json.Unmarshal(a.Metadata, result), "cannot understand LXD")
}

// request is one call.
type request struct {
	method, path string
	query        url.Values
	header       http.Header
	body         io.Reader // nil means none
	timeout      time.Duration
}

// call makes a call.
func (c *Client) call(ctx context.Context, r request) (answer, error) {
	if r.timeout == 0 {
		r.timeout = callTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	if c.project != "" {
		if r.query == nil {
			r.query = url.Values{}
		}
		r.query.Set("project", c.project)
	}
	target := c.base + r.path
	if len(r.query) > 0 {
		target += "?" + r.query.Encode()
	}
	q, err := http.NewRequestWithContext(ctx, r.method, target, r.body)
	if err != nil {
		return answer{}, errors.Trace(err)
	}
	if r.header != nil {
		q.Header = r.header
	}
	response, err := c.http.Do(q)
	if err != nil {
		return answer{}, unreachable(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, answerLimit))
	if err != nil {
		return answer{}, unreachable(err)
	}
	a := answer{header: response.Header}
	if err := json.Unmarshal(text, &a); err != nil {
		return answer{}, errors.Errorf("what answers is not LXD: %s", response.Status)
	}
	if a.Type == "error" || response.StatusCode >= http.StatusBadRequest {
		return answer{}, refusal(max(a.Code, response.StatusCode), a.Error)
	}
	return a, nil
}

// send is call with a JSON body.
func (c *Client) send(ctx context.Context, method, path string, body any) (answer, error) {
	text, err := json.Marshal(body)
	if err != nil {
		return answer{}, errors.Trace(err)
	}
	return c.call(ctx, request{
		method: method, path: path, body: bytes.NewReader(text),
		header: http.Header{"Content-Type": {"application/json"}},
	})
}
