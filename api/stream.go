package api

import (
	"context"
	"encoding/base64"
	"net/http"
	"net/url"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/params"
	"github.com/slipway-project/slipway/rpc"
)

// nonceHeader carries the nonce of a machine.
const nonceHeader = "X-Juju-Nonce"

// OpenStream opens a stream at a path below the model, such as "log", at the first
// of the API servers that answers; without a model, below the controller. The
// server's refusal is a *params.Error. The stream must be closed.
func OpenStream(ctx context.Context, info Info, o DialOptions, path string, query url.Values) (*rpc.Stream, error) {
	if err := info.Validate(); err != nil {
		return nil, errors.Annotate(err, "cannot connect")
	}
	config, err := info.tlsConfig()
	if err != nil {
		return nil, errors.Trace(err)
	}
	o = o.withDefaults()
	ctx, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	if info.ModelUUID != "" {
		path = "model/" + info.ModelUUID + "/" + path
	}
	header := http.Header{}
	header.Set("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(info.Tag+":"+string(info.Password))))
	if info.Nonce != "" {
		header.Set(nonceHeader, info.Nonce)
	}
	var worst error
	for _, addr := range info.Addrs {
		to := url.URL{Scheme: "wss", Host: addr, Path: "/" + path, RawQuery: query.Encode()}
		s, err := rpc.DialStream(ctx, rpc.DialConfig{URL: to.String(), TLS: config, Header: header, Timeout: o.Timeout, NetDial: o.NetDial})
		if err != nil {
			if err = explainTLS(err); worst == nil || errors.Is(err, ErrUntrusted) {
				worst = err
			}
			continue
		}
		if err := greeted(ctx, s); err != nil {
			return nil, errors.Trace(err)
		}
		return s, nil
	}
	return nil, errors.Trace(worst)
}

// greeted reads a stream's first value, which says whether it is granted.
func greeted(ctx context.Context, s *rpc.Stream) error {
	stop := context.AfterFunc(ctx, func() { _ = s.Close() })
	defer stop()
	var first struct {
		Error *params.Error `json:"error"`
	}
	err := s.Receive(&first)
	if err == nil {
		err = ErrorOf(first.Error)
	}
	if err != nil {
		_ = s.Close() // of no use
	}
	return err
}
