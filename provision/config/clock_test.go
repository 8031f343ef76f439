package config_test

import (
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/slipway-project/slipway/provision/config"
)

func TestServerClock(t *testing.T) {
	want := time.Date(2031, 5, 4, 3, 2, 1, 0, time.UTC) // beyond nothing but the server's own word
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			t.Error("a credential was sent")
		}
		w.Header().Set("Date", want.Format(http.TimeFormat))
		w.WriteHeader(http.StatusNotFound)
	})
	srv, other := httptest.NewTLSServer(handler), httptest.NewUnstartedServer(handler)
	defer srv.Close()
	other.Start()
	defer other.Close()
	ca := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw}))
	boot := &config.Boot{Server: srv.URL, CA: ca, Host: "h", Token: "t"}
	if got, err := config.ServerClock(t.Context(), boot); err != nil || !got.Equal(want) {
		t.Errorf("ServerClock = %v, %v, want %v", got, err, want)
	}
	boot.CA = ""
	if _, err := config.ServerClock(t.Context(), boot); err == nil {
		t.Error("a server of an unknown authority was believed")
	}
	boot.Server = other.URL
	if got, err := config.ServerClock(t.Context(), boot); err != nil || !got.Equal(want) {
		t.Errorf("ServerClock over loopback http = %v, %v", got, err)
	}
}
