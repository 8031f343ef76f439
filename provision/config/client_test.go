package config_test

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/provision/config"
)

func client(t *testing.T, b config.Boot) *config.Client {
	t.Helper()
	if b.Host == "" {
		b.Host = "h"
	}
	if b.Token == "" {
		b.Token = "t"
	}
	c, err := config.NewClient(&b)
	if err != nil {
		t.Fatal(err)
	}
	c.SetPause(time.Millisecond)
	return c
}

func TestExchangeThenConfig(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /installer/token", func(w http.ResponseWriter, r *http.Request) {
		var e config.Exchange
		if err := json.NewDecoder(r.Body).Decode(&e); err != nil {
			t.Error(err)
		}
		if e.Token != "t" || !ed25519.Verify(e.PublicKey, e.Message(), e.Signature) {
			http.Error(w, "no", http.StatusForbidden)
			return
		}
		_, _ = io.WriteString(w, `{"credential":"cred"}`)
	})
	mux.HandleFunc("GET /installer/config", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer cred" {
			http.Error(w, "no", http.StatusUnauthorized)
			return
		}
		_ = json.NewEncoder(w).Encode(valid())
	})
	srv := httptest.NewTLSServer(mux)
	defer srv.Close()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw})
	c := client(t, config.Boot{Server: srv.URL + "/installer", CA: string(ca)})

	if _, err := c.GetConfig(t.Context()); !errors.Is(err, config.ErrRefused) {
		t.Errorf("GetConfig before the exchange = %v, want ErrRefused", err)
	}
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	e := config.Exchange{Host: "h", Boot: 1, Token: "t", PublicKey: public}
	e.Signature = ed25519.Sign(private, e.Message())
	if err := c.Exchange(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	m, err := c.GetConfig(t.Context())
	if err != nil || m.Hostname != "node-7.example.com" {
		t.Errorf("GetConfig = %v, %v", m, err)
	}
	if now, ok := c.ServerTime(); !ok || time.Since(now).Abs() > time.Minute {
		t.Errorf("ServerTime = %v %v, want about now", now, ok)
	}
}

func TestAnUnknownAuthorityIsNotBelieved(t *testing.T) {
	srv := httptest.NewTLSServer(http.NotFoundHandler())
	defer srv.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := client(t, config.Boot{Server: srv.URL}).Heartbeat(ctx); err == nil {
		t.Error("Heartbeat to a server of an unknown authority succeeded")
	}
}

func TestRetries(t *testing.T) {
	for _, tc := range []struct {
		name    string
		codes   []int // answered in turn; the last one for ever
		calls   int32
		refused bool
		ok      bool
	}{
		{"busy, then served", []int{503, 429, 204}, 3, false, true},
		{"busy for ever", []int{500}, 5, false, false},
		{"a bad request is final", []int{400}, 1, false, false},
		{"refused is final", []int{403}, 1, true, false},
		{"gone is final", []int{410}, 1, true, false},
		{"a redirect is not followed", []int{302}, 1, false, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var calls atomic.Int32
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				n := int(calls.Add(1))
				w.Header().Set("Location", "/elsewhere")
				w.WriteHeader(tc.codes[min(n, len(tc.codes))-1])
			}))
			defer srv.Close()
			err := client(t, config.Boot{Server: srv.URL}).ReportStatus(t.Context(), config.Status{State: config.StateInit})
			if (err == nil) != tc.ok || errors.Is(err, config.ErrRefused) != tc.refused || calls.Load() != tc.calls {
				t.Errorf("ReportStatus = %v after %d calls, want ok %v refused %v after %d", err, calls.Load(), tc.ok, tc.refused, tc.calls)
			}
		})
	}
}

func TestATokenNeverTravelsInTheClear(t *testing.T) {
	c := client(t, config.Boot{Server: "http://192.0.2.1:9"})
	err := c.Exchange(t.Context(), config.Exchange{Token: "planted"})
	if !errors.Is(err, errors.NotSupported) || strings.Contains(err.Error(), "planted") {
		t.Errorf("Exchange over plain http = %v, want NotSupported", err)
	}
}

func TestACancelledCallStops(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(503) }))
	defer srv.Close()
	c := client(t, config.Boot{Server: srv.URL})
	c.SetPause(time.Hour)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := c.Heartbeat(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Heartbeat = %v, want deadline exceeded", err)
	}
}

var _ config.Provider = (*config.Client)(nil)
