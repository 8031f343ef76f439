package site

import (
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/state"
)

// The limits of looks at the site's health. Who asks need not log in, so that
// asking often must cost little.
const (
	healthFresh   = 2 * time.Second // how long an answer counts
	healthTimeout = 5 * time.Second
)

// The words of health.
const (
	healthy   = "ok"
	unhealthy = "not ok"
)

// health knows whether the site can do its work.
type health struct {
	probe func(context.Context) (state.Probe, error)
	audit func() error // why the audit log cannot be written; nil if there is none

	mu   sync.Mutex // held while somebody looks
	at   time.Time  // of the last look; zero before the first
	last state.Probe
	err  error
}

// healthBody is the answer: of each check "ok" or "not ok", and of the first that
// is not its name as the reason.
type healthBody struct {
	Status string            `json:"status"`
	Reason string            `json:"reason,omitempty"`
	Checks map[string]string `json:"checks"`
}

// look returns what the last probe found, which is a new one unless there was
// one just now.
func (h *health) look(ctx context.Context) (state.Probe, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.at.IsZero() && time.Since(h.at) < healthFresh {
		return h.last, h.err
	}
	// Not the asker's own context: the answer is for others too.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), healthTimeout)
	defer cancel()
	before := h.err
	h.last, h.err = h.probe(ctx)
	h.at = time.Now()
	switch {
	case h.err != nil && before == nil:
		logger.Errorf("the site is not healthy: %v", h.err)
	case h.err == nil && before != nil:
		logger.Infof("the site is healthy again")
	}
	return h.last, h.err
}

// ServeHTTP tells whether the site is healthy, and nothing else of it.
func (h *health) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, err := h.look(r.Context())
	body := healthBody{Status: healthy, Checks: map[string]string{"store": healthy, "changes": healthy}}
	fail := func(check string) {
		body.Checks[check] = unhealthy
		if body.Reason == "" {
			body.Status, body.Reason = unhealthy, check
		}
	}
	switch {
	case errors.Is(err, state.ErrUnnoticed):
		fail("changes")
	case err != nil:
		fail("store")
		delete(body.Checks, "changes") // of which nothing is known then
	}
	if h.audit != nil {
		body.Checks["audit-log"] = healthy
		if h.audit() != nil {
			fail("audit-log")
		}
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	if body.Reason != "" {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_ = json.NewEncoder(w).Encode(body) // a client that has gone needs no answer
}
