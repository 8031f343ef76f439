package simulated

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/environs"
)

// DialConfig says where a rack is.
type DialConfig struct {
	URL   string // http://host:port
	Token string // as Token returns it

	StartTimeout time.Duration // for a start; 0 means 10 minutes
	Timeout      time.Duration // for everything else; 0 means 1 minute
}

// Validate returns an error satisfying errors.NotValid that names what is wrong.
func (c DialConfig) Validate() error {
	u, err := url.Parse(c.URL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" {
		return errors.NotValidf("address of the rack %q (want http://host:port)", c.URL)
	}
	if c.Token == "" {
		return errors.NotValidf("missing token of the rack at %s", c.URL)
	}
	return nil
}

// String leaves the token out.
func (c DialConfig) String() string { return "rack at " + c.URL + " [token redacted]" }

// GoString is String, so that no verb of fmt prints the token.
func (c DialConfig) GoString() string { return c.String() }

// Client reaches a Rack in another process. It does what the Rack does, and
// its errors are of the same kinds; that the rack cannot be reached is
// environs.ErrBusy. Its methods may be called by many goroutines at once.
type Client struct {
	config DialConfig // complete: no field is zero
	http   *http.Client
}

// Dial returns a Client. It does not connect: each call does, or uses a
// connection that is left from an earlier one.
func Dial(c DialConfig) (*Client, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if c.StartTimeout == 0 {
		c.StartTimeout = 10 * time.Minute
	}
	if c.Timeout == 0 {
		c.Timeout = time.Minute
	}
	c.URL = strings.TrimRight(c.URL, "/")
	return &Client{config: c, http: &http.Client{
		Transport: &http.Transport{MaxIdleConnsPerHost: 32, IdleConnTimeout: time.Minute},
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse // the token is for one place
		},
	}}, nil
}

// Close gives up idle connections. The Client may still be used.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// call makes one request within a time limit. A nil q sends no body. What the
// rack reports as an error comes back as one of the same kind.
func (c *Client) call(ctx context.Context, method, path string, limit time.Duration, q, a any) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var body bytes.Buffer
	if q != nil {
		if err := json.NewEncoder(&body).Encode(q); err != nil {
			return errors.Trace(err)
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, c.config.URL+path, &body)
	if err != nil {
		return errors.Trace(err)
	}
	req.Header.Set("Authorization", "Bearer "+c.config.Token)
	resp, err := c.http.Do(req)
	if err != nil {
		return c.unreachable(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxBody))
	if err != nil {
		return c.unreachable(err)
	}
	if resp.StatusCode != http.StatusOK {
		var w wireError
		if err := json.Unmarshal(data, &w); err != nil || w.Message == "" {
			return errors.Errorf("rack at %s answered %s", c.config.URL, resp.Status)
		}
		return w.error()
	}
	return errors.Annotatef(json.Unmarshal(data, a), "cannot read answer of rack at %s", c.config.URL)
}

// unreachable is the error for a rack that did not answer, which is worth
// another try.
func (c *Client) unreachable(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err // the rest repeats the URL
	}
	return errors.WithType(errors.Annotatef(err, "cannot reach rack at %s", c.config.URL), environs.ErrBusy)
}

// Describe returns what the rack has.
func (c *Client) Describe(ctx context.Context) (Description, error) {
	var d Description
	err := c.call(ctx, http.MethodGet, pathRack, c.config.Timeout, nil, &d)
	return d, err
}

// Start is Rack.Start. When its time is up, or ctx is done, the rack hears of
// it and gives the start up.
func (c *Client) Start(ctx context.Context, q StartRequest) (StartReply, error) {
	var a StartReply
	err := c.call(ctx, http.MethodPost, pathStart, c.config.StartTimeout, q, &a)
	return a, err
}

// List is Rack.List.
func (c *Client) List(ctx context.Context, q ListRequest) ([]environs.Instance, error) {
	var a []environs.Instance
	err := c.call(ctx, http.MethodPost, pathList, c.config.Timeout, q, &a)
	return a, err
}

// Stop is Rack.Stop: one result for each id, in the same order.
func (c *Client) Stop(ctx context.Context, q StopRequest) ([]error, error) {
	var a stopReply
	if err := c.call(ctx, http.MethodPost, pathStop, c.config.Timeout, q, &a); err != nil {
		return nil, err
	}
	if len(a.Results) != len(q.IDs) {
		return nil, errors.Errorf("rack at %s gave %d results for %d instances", c.config.URL, len(a.Results), len(q.IDs))
	}
	results := make([]error, len(a.Results))
	for i, w := range a.Results {
		results[i] = w.error()
	}
	return results, nil
}

// Behaviour is Rack.Behaviour.
func (c *Client) Behaviour(ctx context.Context) (Behaviour, error) {
	var b Behaviour
	err := c.call(ctx, http.MethodGet, pathBehaviour, c.config.Timeout, nil, &b)
	return b, err
}

// SetBehaviour is Rack.SetBehaviour.
func (c *Client) SetBehaviour(ctx context.Context, b Behaviour) error {
	return c.call(ctx, http.MethodPut, pathBehaviour, c.config.Timeout, b, new(struct{}))
}

// AddFault is Rack.AddFault.
func (c *Client) AddFault(ctx context.Context, f MachineFault) error {
	return c.call(ctx, http.MethodPost, pathFaults, c.config.Timeout, f, new(struct{}))
}
