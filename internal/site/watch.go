package site

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/apiserver"
	"github.com/slipway-project/slipway/internal/audit"
	"github.com/slipway-project/slipway/internal/metrics"
)

// eyes are what watches over a site: its audit log, metrics and health. The
// first two may be nil.
type eyes struct {
	audit   *audit.Log
	metrics *metrics.Metrics
	health  *health
}

// openEyes opens what the options ask for.
func (s *Site) openEyes(o Options) error {
	s.eyes = &eyes{health: &health{}}
	if o.MetricsListen != "" {
		if _, _, err := splitListen(o.MetricsListen); err != nil {
			return errors.Trace(err)
		}
		s.eyes.metrics = metrics.New()
	}
	if o.AuditLog == "" {
		return nil
	}
	log, err := audit.Open(o.AuditLog)
	if err != nil {
		return errors.Trace(err)
	}
	s.eyes.audit, s.eyes.health.audit = log, log.Failing
	s.add(part{name: "audit log", kill: log.Kill, wait: log.Wait})
	return nil
}

// LoggedIn implements apiserver.Observer.
func (e *eyes) LoggedIn(l apiserver.Login) {
	if e.audit != nil {
		e.audit.LoggedIn(l)
	}
	if e.metrics != nil {
		e.metrics.LoggedIn(l)
	}
}

// Called implements apiserver.Observer.
func (e *eyes) Called(c apiserver.Call) {
	if e.audit != nil {
		e.audit.Called(c)
	}
	if e.metrics != nil {
		e.metrics.Called(c)
	}
}

// observer returns who is to be told of calls, nil if nobody is.
func (e *eyes) observer() apiserver.Observer {
	if e.audit == nil && e.metrics == nil {
		return nil
	}
	return e
}

// metricsPattern is where metrics are served, on an address of their own.
const metricsPattern = "GET /metrics"

// startMetrics serves the metrics: on this machine's own addresses without
// encryption, on others as the API is served, to superusers.
func (s *Site) startMetrics(listen string, live metrics.Live, certificate func() (*tls.Certificate, error)) error {
	if s.eyes.metrics == nil {
		return nil
	}
	s.eyes.metrics.Follow(live)
	listener, err := net.Listen("tcp", listen)
	if err != nil {
		return listenError(errors.Annotatef(err, "cannot serve metrics on %s", listen), listen, "--metrics-listen")
	}
	handler := s.eyes.metrics.Handler()
	local := isLoopback(listener.Addr())
	if !local {
		handler = live.Server.RequireSuperuser(handler)
		listener = tls.NewListener(listener, &tls.Config{
			MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"},
			GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return certificate() },
		})
	}
	mux := http.NewServeMux()
	mux.Handle(metricsPattern, handler)
	server := &http.Server{
		Handler: mux, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 16 << 10,
		ReadTimeout: 30 * time.Second, WriteTimeout: 2 * time.Minute, // who is slower is so on purpose
	}
	done := make(chan struct{})
	var failure error
	go func() { // ends with the server, which the site waits for
		defer close(done)
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			failure = errors.Annotate(err, "cannot serve metrics")
		}
	}()
	s.metricsAddress = listener.Addr().String()
	logger.Infof("metrics at %s", metricsURL(s.metricsAddress, local))
	s.add(part{name: "metrics", kill: func() { stopHTTP(server) }, wait: func() error { <-done; return failure }, dead: done})
	return nil
}

// metricsURL returns where metrics are served.
func metricsURL(address string, local bool) string {
	if local {
		return fmt.Sprintf("http://%s/metrics", address)
	}
	return fmt.Sprintf("https://%s/metrics, for superusers", address)
}

// stopHTTP lets requests under way end, for a while.
func stopHTTP(s *http.Server) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if s.Shutdown(ctx) != nil {
		_ = s.Close() // of its listener there is nothing left to close
	}
}

// isLoopback reports whether only this machine can reach an address.
func isLoopback(a net.Addr) bool {
	tcp, ok := a.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}
