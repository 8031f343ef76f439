// Package apitest is an API server for tests of clients: real TLS and a real
// websocket on loopback, with answers that the test gives.
package apitest

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/core/network"
	"github.com/slipway-project/slipway/params"
	"github.com/slipway-project/slipway/rpc"
)

// The names that the server goes by, and whom it lets in.
const (
	ControllerUUID = "deadbeef-0bad-400d-8000-4b1d0d06f00d"
	ModelUUID      = "11111111-0bad-400d-8000-4b1d0d06f00d"
	UserTag        = "user-admin"
	Password       = "dummy-secret"
)

// Request is a call that the server received.
type Request struct {
	rpc.Request
	Path   string // of the connection
	Params []byte // JSON; empty means none
}

// Read decodes the parameters into v.
func (r Request) Read(v any) error {
	if len(r.Params) == 0 {
		return nil
	}
	return json.Unmarshal(r.Params, v)
}

// Handler answers one method. Its result is encoded as JSON; the kind of its
// error goes over the wire.
type Handler func(ctx context.Context, r Request) (any, error)

// Server is a server for one test.
type Server struct {
	Addr   string // host:port
	CACert string // PEM

	http     *httptest.Server
	mu       sync.Mutex
	password params.Secret // of UserTag
	handlers map[string]Handler
	calls    []string
	conns    map[*rpc.Conn]bool
	over     bool           // the test ends
	serving  sync.WaitGroup // connections, for which the HTTP server does not wait
}

// Options say what is unusual about a server. The zero value is usable.
type Options struct {
	NotAfter time.Time    // of the certificate; zero means in an hour
	Listener net.Listener // with a *net.TCPAddr; the server closes it; nil means one on loopback
}

// NewServer returns a running server that lets UserTag log in with Password, and
// any machine, answers pings, and nothing else. It ends with the test.
func NewServer(t testing.TB, o Options) *Server {
	t.Helper()
	if o.NotAfter.IsZero() {
		o.NotAfter = time.Now().Add(time.Hour)
	}
	ca, leaf := certificates(t, o.NotAfter)
	s := &Server{CACert: ca, password: Password, handlers: make(map[string]Handler), conns: make(map[*rpc.Conn]bool)}
	s.http = httptest.NewUnstartedServer(http.HandlerFunc(s.serve))
	if o.Listener != nil {
		_ = s.http.Listener.Close() // nobody knows it
		s.http.Listener = o.Listener
	}
	s.http.Config.ErrorLog = log.New(io.Discard, "", 0) // refused handshakes are expected
	s.http.TLS = &tls.Config{Certificates: []tls.Certificate{leaf}, MinVersion: tls.VersionTLS12}
	s.http.StartTLS()
	s.Addr = s.http.Listener.Addr().String()
	t.Cleanup(func() {
		s.mu.Lock()
		s.over = true
		s.mu.Unlock()
		s.Disconnect()
		s.http.Close()
		s.serving.Wait()
	})
	s.Handle("Admin.Login", s.login)
	s.Handle("Pinger.Ping", func(context.Context, Request) (any, error) { return nil, nil })
	return s
}

// Handle has a method, "Facade.Method", answered by h from now on.
func (s *Server) Handle(method string, h Handler) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.handlers[method] = h
}

// Reply has a method answered with result.
func (s *Server) Reply(method string, result any) {
	s.Handle(method, func(context.Context, Request) (any, error) { return result, nil })
}

// SetPassword has UserTag log in with another password from now on.
func (s *Server) SetPassword(p params.Secret) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.password = p
}

// Calls returns the calls so far but pings, as "Facade(version).Method".
func (s *Server) Calls() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.calls...)
}

// Disconnect closes all connections.
func (s *Server) Disconnect() {
	s.mu.Lock()
	conns := make([]*rpc.Conn, 0, len(s.conns))
	for c := range s.conns {
		conns = append(conns, c)
	}
	s.mu.Unlock()
	for _, c := range conns {
		c.Kill()
	}
	for _, c := range conns {
		_ = c.Wait() // only its end matters
	}
}

// serve is one connection.
func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	s.serving.Add(1)
	defer s.serving.Done()
	conn, err := rpc.Accept(w, r, rpc.ConnConfig{})
	if err != nil {
		return // the client has been told
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.mu.Lock()
	s.conns[conn] = true
	conn.Start(root{server: s, path: r.URL.Path, ctx: ctx, kill: cancel})
	over := s.over
	s.mu.Unlock()
	if over {
		conn.Kill() // it came when the others were disconnected
	}
	<-conn.Dead()
	cancel()
	s.mu.Lock()
	delete(s.conns, conn)
	s.mu.Unlock()
}

func (s *Server) login(_ context.Context, r Request) (any, error) {
	var login params.LoginRequest
	if err := r.Read(&login); err != nil {
		return nil, err
	}
	s.mu.Lock()
	password := s.password
	s.mu.Unlock()
	if login.AuthTag == UserTag && login.Credentials != password {
		return nil, errors.Unauthorizedf("invalid entity name or password")
	}
	host, _, err := net.SplitHostPort(s.Addr)
	if err != nil {
		return nil, err
	}
	port := s.http.Listener.Addr().(*net.TCPAddr).Port
	result := params.LoginResult{
		Servers: [][]network.HostPort{{{
			Address: network.Address{Value: host, Type: network.IPv4, Scope: network.ScopeCloudLocal}, Port: port,
		}}},
		ControllerTag: "controller-" + ControllerUUID,
		Facades:       []params.FacadeVersions{{Name: "Client", Versions: []int{1}}, {Name: "Provisioner", Versions: []int{3, 11}}},
		ServerVersion: "2.0.0",
	}
	if uuid, ok := strings.CutPrefix(r.Path, "/model/"); ok {
		result.ModelTag = "model-" + strings.TrimSuffix(uuid, "/api")
	}
	if strings.HasPrefix(login.AuthTag, "user-") {
		result.UserInfo = &params.AuthUserInfo{Identity: login.AuthTag, ControllerAccess: "superuser", ModelAccess: "admin"}
	}
	return result, nil
}

// root answers the calls of one connection.
type root struct {
	server *Server
	path   string
	ctx    context.Context // ends when waiting calls are to return
	kill   context.CancelFunc
}

// Kill implements rpc.Root.
func (r root) Kill() { r.kill() }

// Call implements rpc.Root.
func (r root) Call(ctx context.Context, q rpc.Request, raw []byte) (any, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(r.ctx, cancel)()
	method := q.Type + "." + q.Method
	r.server.mu.Lock()
	h := r.server.handlers[method]
	if method != "Pinger.Ping" {
		r.server.calls = append(r.server.calls, fmt.Sprintf("%s(%d).%s", q.Type, q.Version, q.Method))
	}
	r.server.mu.Unlock()
	if h == nil {
		return nil, &rpc.Error{Message: "no such request - method " + method + " is not implemented", Code: params.CodeNotImplemented}
	}
	result, err := h(ctx, Request{Request: q, Path: r.path, Params: append([]byte(nil), raw...)})
	if err != nil {
		wire := params.ErrorOf(err)
		return nil, &rpc.Error{Message: wire.Message, Code: wire.Code, Info: wire.Info}
	}
	return result, nil
}

// certificates makes a CA, and a certificate for the server that it signed.
func certificates(t testing.TB, notAfter time.Time) (ca string, leaf tls.Certificate) {
	t.Helper()
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	authority := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test CA"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	caDER, err := x509.CreateCertificate(rand.Reader, authority, authority, &caKey.PublicKey, caKey)
	if err != nil {
		t.Fatal(err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "test server"},
		DNSNames: []string{"juju-apiserver", "localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: notAfter,
	}, authority, &key.PublicKey, caKey)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: caDER})),
		tls.Certificate{Certificate: [][]byte{der, caDER}, PrivateKey: key}
}
