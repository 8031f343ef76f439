// Package metrics counts what a controller does, for Prometheus.
//
// Labels hold names of facades, methods, models and statuses, and codes of
// failures: never anything that a client sent.
package metrics

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/slipway-project/slipway/apiserver"
	"github.com/slipway-project/slipway/core/tag"
	"github.com/slipway-project/slipway/internal/buildinfo"
)

// namespace begins the name of every metric of ours.
const namespace = "slipway"

// outcomeOK is the outcome of what succeeded; a failure's is its code.
const outcomeOK = "ok"

// Metrics are the metrics of one controller.
type Metrics struct {
	registry *prometheus.Registry
	logins   *prometheus.CounterVec
	calls    *prometheus.CounterVec
	latency  *prometheus.HistogramVec
	store    *prometheus.HistogramVec
	entities prometheus.Counter
}

var _ apiserver.Observer = (*Metrics)(nil)

// buckets are the upper bounds of latencies, in seconds: from 0.1 ms to 30 s.
func buckets() []float64 {
	return []float64{.0001, .0003, .001, .003, .01, .03, .1, .3, 1, 3, 10, 30}
}

// New returns metrics of nothing yet but the process.
func New() *Metrics {
	m := &Metrics{
		registry: prometheus.NewRegistry(),
		logins: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: namespace, Name: "logins_total", Help: "Tries to log in, by who and what came of it.",
		}, []string{"kind", "outcome"}),
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: namespace, Name: "rpc_calls_total", Help: "Calls of facade methods, by what came of them.",
		}, []string{"method", "outcome"}),
		latency: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: namespace, Name: "rpc_call_seconds", Help: "How long calls took, without those that wait for a change.",
			Buckets: buckets(),
		}, []string{"method"}),
		store: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: namespace, Name: "store_seconds", Help: "How long operations of the store took, by what came of them.",
			Buckets: buckets(),
		}, []string{"op", "outcome"}),
		entities: prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: namespace, Name: "rpc_entities_written_total", Help: "Entities that calls wrote to.",
		}),
	}
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Namespace: namespace, Name: "build_info", Help: "Always 1; the version is a label.",
		ConstLabels: prometheus.Labels{"version": buildinfo.Version},
	})
	build.Set(1)
	m.registry.MustRegister(m.logins, m.calls, m.latency, m.store, m.entities, build,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// Handler serves the metrics.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{
		MaxRequestsInFlight: 4, Timeout: 20 * time.Second, ErrorLog: errorLog{},
	})
}

// LoggedIn implements apiserver.Observer.
func (m *Metrics) LoggedIn(l apiserver.Login) {
	kind := "other"
	if t, err := tag.ParseTag(l.Who); err == nil && (t.Kind() == tag.UserKind || t.Kind() == tag.MachineKind) {
		kind = t.Kind()
	}
	m.logins.WithLabelValues(kind, outcome(l.Code)).Inc()
}

// Called implements apiserver.Observer.
func (m *Metrics) Called(c apiserver.Call) {
	method := c.Facade + "." + c.Method
	m.calls.WithLabelValues(method, outcome(c.Code)).Inc()
	if !c.Waits {
		m.latency.WithLabelValues(method).Observe(c.Took.Seconds())
	}
	if c.Writes {
		m.entities.Add(float64(len(c.Entities) + c.More))
	}
}

func outcome(code string) string {
	if code == "" {
		return outcomeOK
	}
	return code
}
