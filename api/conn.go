package api

import (
	"context"
	"crypto/x509"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/juju/errors"
	"github.com/juju/loggo"
	"gopkg.in/tomb.v2"

	"github.com/slipway-project/slipway/params"
	"github.com/slipway-project/slipway/rpc"
)

var logger = loggo.GetLogger("slipway.api")

// Caller makes calls. *Conn is one.
type Caller interface {
	// Call makes a request and decodes the reply into result. Nil params are
	// sent as none; a nil result discards the reply.
	Call(ctx context.Context, r rpc.Request, params, result any) error
}

var _ Caller = (*Conn)(nil)

// Conn is a connection that has logged in. Its methods may be called
// concurrently. It must be closed, also after it has broken.
type Conn struct {
	client *rpc.Client
	tomb   tomb.Tomb // of the pinger
	info   Info
	opts   DialOptions
	addr   string
	login  params.LoginResult
}

// Open connects to the first of the API servers that answers, and logs in.
//
// Besides what Validate returns, its errors satisfy errors.Unauthorized for a
// wrong name or password and for a user without access, errors.NotProvisioned
// for a machine whose instance is not recorded yet, kind.ModelNotFound for an
// unknown model, and ErrUntrusted for a certificate of somebody else.
func Open(ctx context.Context, info Info, o DialOptions) (*Conn, error) {
	if err := info.Validate(); err != nil {
		return nil, errors.Annotate(err, "cannot connect")
	}
	o = o.withDefaults()
	ctx, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	client, addr, err := dialAny(ctx, info, o)
	if err != nil {
		return nil, errors.Trace(err)
	}
	c := &Conn{client: client, info: info, opts: o, addr: addr}
	if err := c.logIn(ctx); err != nil {
		_ = client.Close() // the login's failure says more
		return nil, errors.Annotatef(err, "cannot log in as %s", info.Tag)
	}
	c.tomb.Go(c.ping)
	return c, nil
}

// logIn logs in and checks that the server is the one meant.
func (c *Conn) logIn(ctx context.Context) error {
	err := c.Call(ctx, rpc.Request{Type: "Admin", Version: 3, Method: "Login"}, params.LoginRequest{
		AuthTag:     c.info.Tag,
		Credentials: c.info.Password,
		Nonce:       c.info.Nonce,
		CLIArgs:     c.info.Purpose,
		Trusted:     params.TrustOf(c.info.CACert),
		Ticket:      c.info.ticket,
		WantTicket:  c.info.wantTicket,
	}, &c.login)
	if err != nil {
		return err
	}
	if got := strings.TrimPrefix(c.login.ModelTag, "model-"); c.info.ModelUUID != "" && got != c.info.ModelUUID {
		return errors.Errorf("server answered for model %q instead of %q", got, c.info.ModelUUID)
	}
	if x509.NewCertPool().AppendCertsFromPEM([]byte(c.login.CACert)) {
		c.info.CACert = c.login.CACert // the one that was trusted vouches for it
	}
	return nil
}

// ping shows the server that this side lives, and finds out whether the server
// does. A ping without an answer in time ends the connection.
func (c *Conn) ping() error {
	tick := time.NewTicker(c.opts.PingInterval)
	defer tick.Stop()
	for {
		select {
		case <-c.tomb.Dying():
			return nil
		case <-c.client.Dead():
			return nil
		case <-tick.C:
		}
		ctx, cancel := context.WithTimeout(c.tomb.Context(nil), c.opts.PingTimeout)
		err := c.client.Call(ctx, rpc.Request{Type: "Pinger", Version: 1, Method: "Ping"}, nil, nil)
		cancel()
		if err != nil && c.tomb.Alive() {
			logger.Warningf("connection to %s does not answer, closing it: %v", c.addr, err)
			_ = c.client.Close() // why it ended is known
			return nil
		}
	}
}

// Call implements Caller. A failure of the call is a *params.Error, and so of
// the kind that the server gave it. Calls of a watcher's Next and of Singular's
// Wait last as long as ctx; all others end after the CallTimeout.
func (c *Conn) Call(ctx context.Context, r rpc.Request, args, result any) error {
	if waits := r.Method == "Next" || r.Type == "Singular" && r.Method == "Wait"; !waits {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.opts.CallTimeout)
		defer cancel()
	}
	err := c.client.Call(ctx, r, args, result)
	var failure *rpc.Error
	if errors.As(err, &failure) {
		return &params.Error{Message: failure.Message, Code: failure.Code, Info: failure.Info}
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return errors.Annotatef(err, "no answer to %s.%s in time", r.Type, r.Method)
	}
	return err
}

// Broken is closed when the connection has ended, for whatever reason.
func (c *Conn) Broken() <-chan struct{} { return c.client.Dead() }

// Close ends the connection and waits for it. Calls under way return ErrBroken.
// It may be called more than once.
func (c *Conn) Close() error {
	c.tomb.Kill(nil)
	_ = c.client.Close() // an earlier end is no failure to close
	return c.tomb.Wait()
}

// Addr returns the address, host:port, that the connection goes to.
func (c *Conn) Addr() string { return c.addr }

// Addrs returns where the API servers said they can be reached, host:port
// each, the address in use first. Addresses that only make sense on a server's
// own machine are left out.
func (c *Conn) Addrs() []string {
	out := []string{c.addr}
	for _, server := range c.login.Servers {
		for _, hp := range server {
			if hp.Scope == "local-machine" || hp.Scope == "link-local" {
				continue
			}
			addr := net.JoinHostPort(hp.Value, strconv.Itoa(hp.Port))
			if !slices.Contains(out, addr) {
				out = append(out, addr)
			}
		}
	}
	return out
}

// Tag returns the tag that logged in.
func (c *Conn) Tag() string { return c.info.Tag }

// ModelUUID returns the model's UUID, empty for a connection to the controller
// itself.
func (c *Conn) ModelUUID() string { return c.info.ModelUUID }

// ControllerUUID returns the controller's UUID.
func (c *Conn) ControllerUUID() string {
	return strings.TrimPrefix(c.login.ControllerTag, "controller-")
}

// ServerVersion returns the server's version.
func (c *Conn) ServerVersion() string { return c.login.ServerVersion }

// CACert returns the certificates of the authorities that are to be trusted from
// now on, in PEM: those that the server has named, or else those that the
// connection was opened with.
func (c *Conn) CACert() string { return c.info.CACert }

// UserInfo returns what the server says of the user that logged in, or nil for
// an agent.
func (c *Conn) UserInfo() *params.AuthUserInfo { return c.login.UserInfo }

// BestVersion returns the highest of the wanted versions that the server
// offers of a facade, or 0 if it offers none.
func (c *Conn) BestVersion(facade string, wanted ...int) int {
	best := 0
	for _, f := range c.login.Facades {
		if f.Name != facade {
			continue
		}
		for _, v := range f.Versions {
			if slices.Contains(wanted, v) {
				best = max(best, v)
			}
		}
	}
	return best
}
