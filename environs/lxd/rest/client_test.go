package rest_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/environs/lxd/lxdtest"
	"github.com/slipway-project/slipway/environs/lxd/rest"
	"github.com/slipway-project/slipway/internal/tlsfiles"
)

func newClient(t *testing.T, c rest.Config) *rest.Client {
	t.Helper()
	client, err := rest.New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.CloseIdle)
	return client
}

// The server must have a pinned certificate, and the client's must be shown.
func TestTLSIsMutual(t *testing.T) {
	pair := func() tlsfiles.Pair {
		ca, err := tlsfiles.NewAuthority("x", time.Now())
		if err != nil {
			t.Fatal(err)
		}
		return ca
	}
	client, stranger := pair(), pair()
	var shown int
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		shown = len(r.TLS.PeerCertificates)
		fmt.Fprint(w, `{"type":"sync","metadata":{"auth":"trusted"}}`)
	}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.TLS = &tls.Config{ClientAuth: tls.RequestClientCert}
	server.StartTLS()
	defer server.Close()
	own := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	for pinned, want := range map[string]bool{own: true, string(stranger.Cert) + own: true, string(stranger.Cert): false} {
		c := newClient(t, rest.Config{Address: server.URL, ClientCert: string(client.Cert), ClientKey: string(client.Key), ServerCerts: pinned})
		_, err := c.Server(t.Context())
		if (err == nil) != want || err != nil && !errors.Is(err, rest.ErrUnreachable) {
			t.Errorf("Server = %v, want success %v", err, want)
		}
	}
	if shown != 1 {
		t.Errorf("the client showed %d certificates, want 1", shown)
	}
}

func TestRefusalsHaveKinds(t *testing.T) {
	s := lxdtest.NewServer(t)
	c := newClient(t, rest.Config{Address: s.Address})
	for code, kind := range map[int]error{
		400: errors.NotValid, 401: errors.Unauthorized, 403: errors.Unauthorized, 404: errors.NotFound,
		409: errors.AlreadyExists, 503: rest.ErrUnreachable,
	} {
		s.Fail(func(string) *lxdtest.Failure { return &lxdtest.Failure{Code: code, Text: "why"} })
		if _, err := c.Instances(t.Context()); !errors.Is(err, kind) || !strings.Contains(err.Error(), "why") {
			t.Errorf("code %d: %v, want %v", code, err, kind)
		}
	}
}

func TestOperationsAreWaitedFor(t *testing.T) {
	answers := []string{
		`{"type":"sync","metadata":{"status":"Running","metadata":{"download_progress":"50%"}}}`,
		`{"type":"sync","metadata":{"status":"Running","metadata":{"download_progress":"50%"}}}`,
		`{"type":"sync","metadata":{"status":"Success"}}`,
	}
	for name, c := range map[string]struct {
		answers  []string
		want     error
		progress int
	}{
		"success": {answers: answers, progress: 1},
		"failure": {answers: []string{`{"type":"sync","metadata":{"status":"Failure","err":"why"}}`}, want: rest.ErrFailed},
		"exists":  {answers: []string{`{"type":"sync","metadata":{"status":"Failure","err":"it already exists"}}`}, want: errors.AlreadyExists},
		"lost":    {answers: []string{`{"type":"error","error_code":404,"error":"Operation not found"}`}, want: rest.ErrLost},
	} {
		t.Run(name, func(t *testing.T) {
			next := 0
			client := rest.NewOver("http://lxd", roundTripper(func(r *http.Request) string {
				if r.Method == http.MethodPost {
					return `{"type":"async","operation":"/1.0/operations/x"}`
				}
				next++
				return c.answers[next-1]
			}))
			heard := 0
			err := client.Create(t.Context(), rest.NewInstance{Name: "x"}, func(string) { heard++ })
			if c.want == nil && err != nil || c.want != nil && !errors.Is(err, c.want) {
				t.Errorf("Create = %v, want %v", err, c.want)
			}
			if heard != c.progress {
				t.Errorf("progress was told %d times, want %d", heard, c.progress)
			}
		})
	}
}

// roundTripper answers with text.
type roundTripper func(*http.Request) string

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Status: "200 OK", Body: io.NopCloser(strings.NewReader(f(r)))}, nil
}

// An operation that hangs is given up in the end, one that goes on is not.
func TestOperationThatHangsIsGivenUp(t *testing.T) {
	for name, goesOn := range map[string]bool{"hangs": false, "goes on": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				client := rest.NewOver("http://lxd", roundTripper(func(r *http.Request) string {
					if r.Method == http.MethodPost {
						return `{"type":"async","operation":"/1.0/operations/x"}`
					}
					<-time.After(2 * time.Second) // as long as the call asks LXD to wait
					switch done := time.Since(began); {
					case !goesOn:
						return `{"type":"sync","metadata":{"status":"Running"}}`
					case done > time.Hour:
						return `{"type":"sync","metadata":{"status":"Success"}}`
					default:
						return fmt.Sprintf(`{"type":"sync","metadata":{"status":"Running","metadata":{"download_progress":"%d"}}}`, done)
					}
				}))
				err := client.Create(t.Context(), rest.NewInstance{Name: "x"}, nil)
				if goesOn != (err == nil) || err != nil && !errors.Is(err, rest.ErrUnreachable) {
					t.Errorf("Create = %v", err)
				}
				if took := time.Since(began); !goesOn && took > 11*time.Minute {
					t.Errorf("given up after %v", took)
				}
			})
		})
	}
}

// A daemon that takes a call and never answers is not waited for for ever.
func TestCallThatHangsIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		client := rest.NewOver("http://lxd", silent{})
		_, err := client.Instances(t.Context())
		if !errors.Is(err, rest.ErrUnreachable) || time.Since(began) != time.Minute {
			t.Errorf("Instances = %v after %v, want ErrUnreachable after a minute", err, time.Since(began))
		}
	})
}

// silent never answers.
type silent struct{}

func (silent) RoundTrip(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

func TestWriteFileMakesDirectories(t *testing.T) {
	s := lxdtest.NewServer(t, "base")
	c := newClient(t, rest.Config{Address: s.Address})
	if err := c.Create(t.Context(), rest.NewInstance{Name: "x", Source: rest.Source{Type: "image", Alias: "base"}}, nil); err != nil {
		t.Fatal(err)
	}
	if err := c.WriteFile(t.Context(), "x", rest.File{Path: "/a/b/c", Mode: 0o600, Content: bytes.NewReader([]byte("hi"))}); err != nil {
		t.Fatal(err)
	}
	if err := c.WriteFile(t.Context(), "x", rest.File{Path: "/a/l", Link: "/a/b"}); err != nil {
		t.Fatal(err)
	}
	files := s.Containers()["x"].Files
	if got := files["/a/b/c"]; got.Content != "hi" || got.Mode != "0600" || got.Kind != "file" {
		t.Errorf("file = %+v", got)
	}
	if got := files["/a/l"]; got.Content != "/a/b" || got.Kind != "symlink" {
		t.Errorf("link = %+v", got)
	}
	dir, err := c.Directory(t.Context(), "x", "/a")
	if err != nil || dir.Mode != 0o755 || !slices.Equal(dir.Names, []string{"b", "l"}) {
		t.Errorf("Directory = %+v, %v", dir, err)
	}
	if _, err := c.Directory(t.Context(), "x", "/z"); !errors.Is(err, errors.NotFound) {
		t.Errorf("Directory that is not there = %v, want NotFound", err)
	}
	if err := c.Run(t.Context(), "x", "chmod", "0700", "/a"); !errors.Is(err, errors.NotValid) {
		t.Errorf("Run in an instance that does not run = %v, want NotValid", err)
	}
	if err := c.WriteFile(t.Context(), "no", rest.File{Path: "/a", Content: bytes.NewReader(nil)}); !errors.Is(err, errors.NotFound) {
		t.Errorf("WriteFile to no instance = %v, want NotFound", err)
	}
}

func TestServerThatIsNotThereIsUnreachable(t *testing.T) {
	c := newClient(t, rest.Config{Address: "unix:///nonexistent/socket"})
	if _, err := c.Server(t.Context()); !errors.Is(err, rest.ErrUnreachable) {
		t.Errorf("Server = %v, want ErrUnreachable", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Server(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Server = %v, want the context's error", err)
	}
}

func TestConfigPrintsNoKey(t *testing.T) {
	c := rest.Config{Address: "https://x", ClientKey: "hush"}
	if got := fmt.Sprintf("%v %+v %#v", c, c, c); strings.Contains(got, "hush") {
		t.Errorf("prints %s", got)
	}
}
