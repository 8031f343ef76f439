package api

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/params"
)

// Upload is an agent binary to send to a controller.
type Upload struct {
	Version string    // such as 2.0.0-jammy-amd64; required
	Content io.Reader // required
	Size    int64     // bytes of Content
	SHA256  string    // that the controller is to check, in hexadecimal; empty means none
}

// UploadBinary sends an agent binary and returns what the controller keeps. It tries the
// first of the API servers alone, for what was read cannot be sent again. A
// refusal is a *params.Error.
func UploadBinary(ctx context.Context, info Info, u Upload) (params.Tools, error) {
	if err := info.Validate(); err != nil {
		return params.Tools{}, errors.Annotate(err, "cannot connect")
	}
	config, err := info.tlsConfig()
	if err != nil {
		return params.Tools{}, errors.Trace(err)
	}
	path := "/tools"
	if info.ModelUUID != "" {
		path = "/model/" + info.ModelUUID + path
	}
	query := url.Values{"binaryVersion": {u.Version}, "sha256": {u.SHA256}}
	to := url.URL{Scheme: "https", Host: info.Addrs[0], Path: path, RawQuery: query.Encode()}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, to.String(), u.Content)
	if err != nil {
		return params.Tools{}, errors.Trace(err)
	}
	r.ContentLength = u.Size
	r.Header.Set("Content-Type", "application/x-tar-gz")
	r.SetBasicAuth(info.Tag, string(info.Password))
	transport := &http.Transport{TLSClientConfig: config, Proxy: nil}
	defer transport.CloseIdleConnections()
	answer, err := transport.RoundTrip(r)
	if err != nil {
		return params.Tools{}, errors.Trace(explainTLS(err))
	}
	defer answer.Body.Close() // it has been read
	var kept params.ToolsResult
	if err := json.NewDecoder(io.LimitReader(answer.Body, 1<<20)).Decode(&kept); err != nil {
		return params.Tools{}, errors.Errorf("the controller answered %s, which says nothing more", answer.Status)
	}
	switch {
	case kept.Error != nil:
		return params.Tools{}, kept.Error
	case len(kept.Tools) != 1:
		return params.Tools{}, errors.Errorf("the controller says that it keeps %d binaries, not one", len(kept.Tools))
	}
	return kept.Tools[0], nil
}
