package api

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"sync"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/rpc"
)

// ErrBroken says that the connection has ended; whether the call that got it
// was carried out is unknown.
const ErrBroken = rpc.ErrShutdown

// ErrUntrusted says that a server's certificate does not come from the CA that
// is trusted, or is out of date.
const ErrUntrusted = errors.ConstError("the server's certificate is not to be trusted")

// DialOptions say how hard to try and how long to wait. The zero value is
// usable.
type DialOptions struct {
	Timeout      time.Duration // for connecting and logging in; 0 means 30 seconds
	Stagger      time.Duration // between the starts of two addresses; 0 means 50 milliseconds
	PingInterval time.Duration // 0 means 1 minute; servers drop agents after 3 minutes of silence
	PingTimeout  time.Duration // for a ping's answer; 0 means 30 seconds
	CallTimeout  time.Duration // for any call but those that wait for a change; 0 means 2 minutes

	// NetDial makes the TCP connection; nil means the net package's dialer.
	NetDial func(ctx context.Context, network, addr string) (net.Conn, error)
}

func (o DialOptions) withDefaults() DialOptions {
	set := func(d *time.Duration, to time.Duration) {
		if *d == 0 {
			*d = to
		}
	}
	set(&o.Timeout, 30*time.Second)
	set(&o.Stagger, 50*time.Millisecond)
	set(&o.PingInterval, time.Minute)
	set(&o.PingTimeout, 30*time.Second)
	set(&o.CallTimeout, 2*time.Minute)
	return o
}

// dialed is one answer to dialing.
type dialed struct {
	client *rpc.Client
	addr   string
	err    error
}

// dialAny connects to whichever address answers first. A later address is begun
// when the stagger has passed or all before it have failed. It returns when
// all that it began has ended.
func dialAny(ctx context.Context, info Info, o DialOptions) (*rpc.Client, string, error) {
	config, err := info.tlsConfig()
	if err != nil {
		return nil, "", err
	}
	ctx, cancel := context.WithCancel(ctx)
	answers := make(chan dialed, len(info.Addrs))
	var running sync.WaitGroup
	begin := func(addr string) {
		running.Go(func() {
			client, err := dialOne(ctx, info.url(addr), config, o)
			answers <- dialed{client, addr, err}
		})
	}
	winner, err := firstOf(ctx, info.Addrs, o.Stagger, begin, answers)
	cancel()
	running.Wait()
	close(answers)
	for late := range answers {
		if late.client != nil {
			_ = late.client.Close() // nobody uses it
		}
	}
	return winner.client, winner.addr, err
}

// firstOf begins the addresses one after another and returns the first success,
// or the most telling failure.
func firstOf(ctx context.Context, addrs []string, stagger time.Duration, begin func(string), answers <-chan dialed) (dialed, error) {
	begun, failed := 0, 0
	var worst error
	next := time.NewTimer(0)
	defer next.Stop()
	for failed < len(addrs) {
		select {
		case <-ctx.Done():
			if worst == nil {
				worst = ctx.Err()
			}
			return dialed{}, errors.Annotatef(worst, "cannot reach the API server at %s in time", addrs[0])
		case <-next.C:
			if begun < len(addrs) {
				begin(addrs[begun])
				begun++
				next.Reset(stagger)
			}
		case a := <-answers:
			if a.err == nil {
				return a, nil
			}
			failed++
			if worst == nil || errors.Is(a.err, ErrUntrusted) {
				worst = a.err
			}
			next.Reset(0)
		}
	}
	return dialed{}, worst
}

// dialOne connects to one address.
func dialOne(ctx context.Context, url string, config *tls.Config, o DialOptions) (*rpc.Client, error) {
	client, err := rpc.Dial(ctx, rpc.DialConfig{URL: url, TLS: config, Timeout: o.Timeout, NetDial: o.NetDial})
	return client, explainTLS(err)
}

// explainTLS turns the failures to verify a certificate into ErrUntrusted with
// a text that says which it is.
func explainTLS(err error) error {
	var invalid x509.CertificateInvalidError
	var unknown x509.UnknownAuthorityError
	var host x509.HostnameError
	var why string
	switch {
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		why = "it has expired or is not valid yet; check the clocks, or let the controller make a new one"
	case errors.As(err, &unknown):
		why = "another CA signed it; is this the right address, and the right CA?"
	case errors.As(err, &host):
		why = "it belongs to something other than a controller"
	case errors.As(err, &invalid):
		why = invalid.Error()
	default:
		return err
	}
	return errors.WithType(errors.Annotatef(errors.New(why), "%v", ErrUntrusted), ErrUntrusted)
}
