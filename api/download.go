package api

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/juju/errors"
)

// downloadPause is how long a download may make no progress.
const downloadPause = time.Minute

// Download is something to fetch from a controller's web server.
type Download struct {
	Path string    // such as /tools/2.0.0-jammy-amd64; required
	To   io.Writer // required
	Size int64     // what is fetched must have that many bytes
}

// Fetch fetches something, which needs no login, from the first of info's API
// servers that can be reached. It trusts info's CA alone, follows no redirection
// and uses no proxy. After an error, some of it may have been written.
func Fetch(ctx context.Context, info Info, d Download) error {
	if err := info.Validate(); err != nil {
		return errors.Annotate(err, "cannot connect")
	}
	config, err := info.tlsConfig()
	if err != nil {
		return errors.Trace(err)
	}
	transport := &http.Transport{TLSClientConfig: config, Proxy: nil, TLSHandshakeTimeout: downloadPause}
	defer transport.CloseIdleConnections()
	for _, addr := range info.Addrs {
		var answer *http.Response
		if answer, err = ask(ctx, transport, url.URL{Scheme: "https", Host: addr, Path: d.Path}); err == nil {
			return errors.Trace(d.read(answer))
		}
	}
	return errors.Trace(explainTLS(err))
}

// ask begins to fetch something. The answer ends when it stalls.
func ask(ctx context.Context, transport *http.Transport, from url.URL) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	stalled := time.AfterFunc(downloadPause, func() { cancel(errors.Timeoutf("%s: progress of the download", from.Host)) })
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, from.String(), nil)
	if err == nil {
		var answer *http.Response
		if answer, err = transport.RoundTrip(r); err == nil {
			answer.Body = &progress{ReadCloser: answer.Body, ctx: ctx, cancel: cancel, stalled: stalled}
			return answer, nil
		}
	}
	stalled.Stop()
	cancel(nil)
	return nil, errors.Trace(err)
}

// progress is a body that ends when nothing comes of it for too long.
type progress struct {
	io.ReadCloser
	ctx     context.Context // of this body alone
	cancel  context.CancelCauseFunc
	stalled *time.Timer
}

// Read implements io.Reader.
func (p *progress) Read(b []byte) (int, error) {
	n, err := p.ReadCloser.Read(b)
	if n > 0 {
		p.stalled.Reset(downloadPause)
	}
	if err != nil && err != io.EOF && p.ctx.Err() != nil {
		err = context.Cause(p.ctx)
	}
	return n, err
}

// Close implements io.Closer.
func (p *progress) Close() error {
	p.stalled.Stop()
	p.cancel(nil)
	return p.ReadCloser.Close()
}

// read writes an answer to where it is wanted.
func (d Download) read(answer *http.Response) error {
	defer answer.Body.Close() // it has been read
	if answer.StatusCode != http.StatusOK {
		return errors.Errorf("the controller answered %s", answer.Status)
	}
	n, err := io.Copy(d.To, io.LimitReader(answer.Body, d.Size+1))
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF), err == nil && n < d.Size:
		return errors.Errorf("the controller sent %d of %d bytes", n, d.Size)
	case err != nil:
		return errors.Trace(err)
	case n > d.Size:
		return errors.Errorf("the controller sent more than %d bytes", d.Size)
	}
	return nil
}
