package metrics

import (
	"context"
	"sync"
	"time"

	"github.com/juju/errors"
	"github.com/juju/loggo"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/slipway-project/slipway/apiserver"
	"github.com/slipway-project/slipway/state"
)

var logger = loggo.GetLogger("slipway.metrics")

// errorLog takes what the handler has to say.
type errorLog struct{}

// Println implements promhttp.Logger.
func (errorLog) Println(v ...any) { logger.Warningf("cannot serve metrics: %v", v) }

// Live is what metrics are taken of when they are asked for.
type Live struct {
	Controller *state.Controller
	Server     *apiserver.Server
	// Probe returns what the last probe of the state found, or why it failed.
	Probe func(ctx context.Context) (state.Probe, error)
}

// Follow has the metrics include what is live.
func (m *Metrics) Follow(l Live) { m.registry.MustRegister(newCollector(l)) }

// The limits of a collection.
const (
	collectTimeout = 10 * time.Second
	freshFor       = 15 * time.Second // that machines are at least not counted again
	costShare      = 50               // nor for so many times as long as it took
)

// collector collects what is live.
type collector struct {
	live Live

	connections, watchers, up, lag, machines, age *prometheus.Desc

	mu      sync.Mutex
	counted map[machineKind]int
	at      time.Time
	cost    time.Duration
}

// machineKind is what machines are counted by.
type machineKind struct{ model, status, life string }

func newCollector(l Live) *collector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(namespace+"_"+name, help, labels, nil)
	}
	return &collector{
		live:        l,
		connections: desc("connections", "Connections that are open, by who is logged in on them.", "kind"),
		watchers:    desc("watchers", "Watchers that are open."),
		up:          desc("state_up", "Whether the state can be written and read, and changes are noticed: 1 or 0."),
		lag:         desc("hub_lag_seconds", "How long after a change watchers hear of it."),
		machines:    desc("machines", "Machines and containers, by model, status and life.", "model", "status", "life"),
		age:         desc("machines_counted_seconds", "How long ago the machines were counted."),
	}
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.connections, c.watchers, c.up, c.lag, c.machines, c.age} {
		ch <- d
	}
}

// Collect implements prometheus.Collector. What cannot be had is left out.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), collectTimeout)
	defer cancel()
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	for kind, n := range c.live.Server.Connections() {
		gauge(c.connections, float64(n), kind)
	}
	gauge(c.watchers, float64(c.live.Controller.Watchers()))
	if p, err := c.live.Probe(ctx); err == nil {
		gauge(c.up, 1)
		gauge(c.lag, p.Notice.Seconds())
	} else {
		gauge(c.up, 0)
	}
	counted, at, err := c.count(ctx)
	if err != nil {
		logger.Warningf("cannot count machines: %v", err)
		return
	}
	for k, n := range counted {
		gauge(c.machines, float64(n), k.model, k.status, k.life)
	}
	gauge(c.age, time.Since(at).Seconds())
}

// count returns how many machines there are of each kind, as of now or of some
// time ago: so that counting is never more than a small part of all work.
func (c *collector) count(ctx context.Context) (map[machineKind]int, time.Time, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.counted != nil && time.Since(c.at) < max(freshFor, costShare*c.cost) {
		return c.counted, c.at, nil
	}
	start := time.Now()
	models, err := c.live.Controller.Models().All(ctx)
	if err != nil {
		return nil, start, errors.Trace(err)
	}
	counted := make(map[machineKind]int)
	for _, m := range models {
		st, err := c.live.Controller.State(ctx, m.UUID())
		if errors.Is(err, errors.NotFound) {
			continue // it has gone meanwhile
		}
		if err != nil {
			return nil, start, errors.Trace(err)
		}
		machines, err := st.Machines().All(ctx)
		if err != nil {
			return nil, start, errors.Trace(err)
		}
		for _, machine := range machines {
			counted[machineKind{m.Name(), known(string(machine.Status().Status)), string(machine.Life())}]++
		}
	}
	c.counted, c.at, c.cost = counted, start, time.Since(start)
	return counted, start, nil
}

// known returns a status as a label: agents may send any text.
func known(s string) string {
	switch s {
	case "pending", "started", "stopped", "error", "down":
		return s
	}
	return "other"
}
