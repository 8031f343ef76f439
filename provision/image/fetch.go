package image

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/provision/config"
)

const (
	// headSize is how much of a file is read to tell what it is.
	headSize = 2048
	// maxSmall bounds signatures, manifests and tokens.
	maxSmall = 4 << 20
	// maxResumes is how often in a row a connection may break without a byte between.
	maxResumes = 10
	// longestPause is the longest pause before a resumption.
	longestPause = 30 * time.Second
)

// fetcher makes requests.
type fetcher struct {
	client *http.Client
	arch   string
	stall  time.Duration
	pause  time.Duration
}

func newFetcher(c Config) fetcher {
	f := fetcher{client: c.Client, arch: c.Arch, stall: c.Stall, pause: c.Pause}
	if f.client == nil {
		f.client = &http.Client{}
	}
	client := *f.client
	client.CheckRedirect = func(r *http.Request, via []*http.Request) error {
		if len(via) >= 10 {
			return errors.New("too many redirects")
		}
		if via[0].URL.Scheme == "https" && r.URL.Scheme != "https" {
			return errors.New("redirect from https to " + r.URL.Scheme)
		}
		return nil
	}
	f.client = &client
	if f.arch == "" {
		f.arch = runtime.GOARCH
	}
	if f.stall <= 0 {
		f.stall = time.Minute
	}
	if f.pause <= 0 {
		f.pause = time.Second
	}
	return f
}

// remote is a file on a server, and its beginning.
type remote struct {
	f      fetcher
	url    string
	header http.Header // sent with every request
	size   int64       // bytes; -1 if the server does not tell
	etag   string      // a strong one, or ""
	ranges bool        // the server serves parts
	digest string      // "sha256:..." that the bytes must have; "" for none
	head   []byte
	format string
}

// statusError is an answer that is no success.
type statusError struct {
	code   int
	status string
}

func (e *statusError) Error() string { return "server answered " + e.status }

// passing reports whether another request may be answered otherwise.
func (e *statusError) passing() bool {
	return e.code >= 500 || e.code == http.StatusTooManyRequests || e.code == http.StatusRequestTimeout
}

// open asks for the beginning of a file and detects its format.
func (f fetcher) open(ctx context.Context, address string) (*remote, error) {
	r := &remote{f: f, url: address, header: http.Header{}}
	if strings.HasPrefix(address, "oci://") {
		if err := f.resolveOCI(ctx, r); err != nil {
			return nil, err
		}
	}
	if err := r.readHead(ctx); err != nil {
		return nil, err
	}
	var err error
	r.format, err = detect(r.head)
	return r, err
}

// readHead fetches the beginning, and learns size, tag and whether parts are served.
func (r *remote) readHead(ctx context.Context) error {
	pause := r.f.pause
	for try := 1; ; try++ {
		err := r.readHeadOnce(ctx)
		var status *statusError
		if err == nil || try == 4 || ctx.Err() != nil || errors.As(err, &status) && !status.passing() {
			return err
		}
		if err := sleep(ctx, &pause); err != nil {
			return err
		}
	}
}

func (r *remote) readHeadOnce(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, r.f.stall)
	defer cancel()
	resp, err := r.request(ctx, 0, headSize, "")
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	r.size = resp.ContentLength
	if resp.StatusCode == http.StatusPartialContent {
		r.ranges = true
		if _, r.size, err = contentRange(resp.Header.Get("Content-Range")); err != nil {
			return err
		}
	}
	if tag := resp.Header.Get("ETag"); strings.HasPrefix(tag, `"`) {
		r.etag = tag
	}
	r.head, err = io.ReadAll(io.LimitReader(resp.Body, headSize))
	if err != nil {
		return errors.Annotate(err, "cannot read beginning of image")
	}
	return nil
}

// request asks for n bytes from offset, or for all from offset if n is 0. A part is
// asked for of the version match only, unless that is "".
func (r *remote) request(ctx context.Context, offset, n int64, match string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.url, nil)
	if err != nil {
		return nil, errors.Trace(err)
	}
	for k, v := range r.header {
		req.Header[k] = v
	}
	req.Header.Set("Accept-Encoding", "identity") // the bytes that the checksum is of
	if offset > 0 || n > 0 {
		end := ""
		if n > 0 {
			end = strconv.FormatInt(offset+n-1, 10)
		}
		req.Header.Set("Range", fmt.Sprintf("bytes=%d-%s", offset, end))
	}
	if match != "" {
		req.Header.Set("If-Match", match)
	}
	resp, err := r.f.client.Do(req)
	if err != nil {
		return nil, errors.Annotatef(err, "cannot ask for %s", config.RedactURL(r.url))
	}
	switch resp.StatusCode {
	case http.StatusOK, http.StatusPartialContent:
		return resp, nil
	case http.StatusRequestedRangeNotSatisfiable:
		if n > 0 && offset == 0 { // an empty file
			resp.StatusCode, resp.ContentLength = http.StatusOK, 0
			return resp, nil
		}
	case http.StatusPreconditionFailed:
		_ = resp.Body.Close()
		return nil, errors.Annotate(ErrMismatch, "the file on the server changed while it was read")
	}
	_ = resp.Body.Close()
	err = &statusError{resp.StatusCode, resp.Status}
	if resp.StatusCode == http.StatusNotFound || resp.StatusCode == http.StatusGone {
		err = errors.WithType(err, errors.NotFound)
	}
	return nil, errors.Trace(err)
}

// contentRange reads "bytes 0-9/100"; an unknown total is -1.
func contentRange(s string) (start, total int64, err error) {
	spec, ok := strings.CutPrefix(s, "bytes ")
	part, all, ok2 := strings.Cut(spec, "/")
	first, _, ok3 := strings.Cut(part, "-")
	if !ok || !ok2 || !ok3 {
		return 0, 0, errors.NotValidf("Content-Range %q", s)
	}
	if start, err = strconv.ParseInt(first, 10, 64); err != nil {
		return 0, 0, errors.NotValidf("Content-Range %q", s)
	}
	if all == "*" {
		return start, -1, nil
	}
	if total, err = strconv.ParseInt(all, 10, 64); err != nil || total < 0 {
		return 0, 0, errors.NotValidf("Content-Range %q", s)
	}
	return start, total, nil
}

// small reads a small file whole.
func (f fetcher) small(ctx context.Context, address string) ([]byte, error) {
	if u, err := url.Parse(address); err != nil || u.Scheme != "https" && u.Scheme != "http" {
		return nil, errors.NotValidf("URL %q", config.RedactURL(address))
	}
	ctx, cancel := context.WithTimeout(ctx, f.stall)
	defer cancel()
	r := &remote{f: f, url: address, header: http.Header{}}
	resp, err := r.request(ctx, 0, 0, "")
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxSmall+1))
	if err == nil && len(b) > maxSmall {
		err = errors.NotValidf("file of more than %d bytes", maxSmall)
	}
	return b, err
}

// sleep waits and doubles the pause.
func sleep(ctx context.Context, pause *time.Duration) error {
	select {
	case <-ctx.Done():
		return errors.Trace(ctx.Err())
	case <-time.After(*pause):
	}
	*pause = min(*pause*2, longestPause)
	return nil
}

// stream reads a remote file from its beginning to its end, or a section of it, over as
// many connections as it takes.
type stream struct {
	ctx    context.Context
	r      *remote
	at     int64
	to     int64 // where a section ends; 0 for the whole file
	broken int   // times in a row without a byte
	pause  time.Duration
	body   io.ReadCloser
	cancel context.CancelFunc
	timer  *time.Timer
}

// stream returns a reader of the whole file. It ends when ctx does; Close it.
func (r *remote) stream(ctx context.Context) *stream {
	return &stream{ctx: ctx, r: r, pause: r.f.pause}
}

// section returns a reader of the bytes from one place to another of a file that was opened, whose
// size is known and whose server serves parts. It ends when ctx does; Close it.
func (r *remote) section(ctx context.Context, from, to int64) *stream {
	return &stream{ctx: ctx, r: r, at: from, to: to, pause: r.f.pause}
}

// end returns where the stream ends, -1 if the server does not tell.
func (s *stream) end() int64 {
	if s.to > 0 {
		return s.to
	}
	return s.r.size
}

// Read implements io.Reader.
func (s *stream) Read(p []byte) (int, error) {
	for {
		if s.at == s.end() {
			return 0, io.EOF
		}
		if s.body == nil {
			if err := s.connect(); err != nil {
				if err := s.retry(err); err != nil {
					return 0, err
				}
				continue
			}
		}
		s.timer.Reset(s.r.f.stall)
		n, err := s.body.Read(p)
		s.at += int64(n)
		if n > 0 {
			s.broken, s.pause = 0, s.r.f.pause
		}
		if end := s.end(); end >= 0 && s.at > end {
			return 0, errors.Annotate(ErrMismatch, "server sent more than it had announced")
		}
		switch {
		case n > 0:
			if err != nil {
				s.disconnect()
			}
			if err == io.EOF && s.r.size < 0 {
				s.r.size = s.at
			}
			return n, nil
		case err == io.EOF && s.r.size < 0:
			return 0, io.EOF // the server told no size: the end is where it ends
		case err != nil:
			s.disconnect()
			if err := s.retry(err); err != nil {
				return 0, err
			}
		}
	}
}

// retry decides whether a break may be mended, and waits.
func (s *stream) retry(err error) error {
	var status *statusError
	switch {
	case s.ctx.Err() != nil:
		return errors.Trace(s.ctx.Err())
	case errors.Is(err, ErrMismatch), errors.As(err, &status) && !status.passing():
		return err
	case s.at > 0 && (!s.r.ranges || s.r.size < 0):
		return errors.Annotatef(err, "connection broke at byte %d and the server serves no parts", s.at)
	}
	if s.broken++; s.broken > maxResumes {
		return errors.Annotatef(err, "gave up at byte %d after %d tries", s.at, maxResumes)
	}
	logger.Warningf("image: connection broke at byte %d: %v", s.at, err)
	return sleep(s.ctx, &s.pause)
}

// connect opens a connection at the present place.
func (s *stream) connect() error {
	ctx, cancel := context.WithCancel(s.ctx)
	timer := time.AfterFunc(s.r.f.stall, cancel)
	match, n := "", int64(0)
	part := s.at > 0 || s.to > 0
	if part {
		match = s.r.etag
	}
	if s.to > 0 {
		n = s.to - s.at
	}
	resp, err := s.r.request(ctx, s.at, n, match)
	if err == nil && part {
		err = checkPart(resp, s.at, s.r.size)
		if err != nil {
			_ = resp.Body.Close()
		}
	}
	if err != nil {
		timer.Stop()
		cancel()
		return err
	}
	s.body, s.cancel, s.timer = resp.Body, cancel, timer
	return nil
}

// checkPart refuses an answer that is not the part asked for of the same file.
func checkPart(resp *http.Response, at, size int64) error {
	if resp.StatusCode != http.StatusPartialContent {
		return errors.Annotate(ErrMismatch, "server sent the whole file instead of a part")
	}
	start, total, err := contentRange(resp.Header.Get("Content-Range"))
	if err != nil {
		return err
	}
	if start != at || total >= 0 && total != size {
		return errors.Annotate(ErrMismatch, "server sent a part of another file")
	}
	return nil
}

func (s *stream) disconnect() {
	if s.body != nil {
		s.timer.Stop()
		s.cancel()
		_ = s.body.Close()
		s.body = nil
	}
}

// Close implements io.Closer.
func (s *stream) Close() error {
	s.disconnect()
	return nil
}
