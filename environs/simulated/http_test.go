package simulated_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/environs"
	"github.com/slipway-project/slipway/environs/config"
	"github.com/slipway-project/slipway/environs/providertest"
	"github.com/slipway-project/slipway/environs/simulated"
	"github.com/slipway-project/slipway/internal/testport"
)

func dial(t *testing.T, c simulated.DialConfig) *simulated.Client {
	t.Helper()
	client, err := simulated.Dial(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

func TestErrorsKeepTheirKindOverHTTP(t *testing.T) {
	rack := newRack(t, instant())
	client := dial(t, serve(t, rack))
	ctx := t.Context()
	if _, err := client.Start(ctx, request(t, "0")); err != nil {
		t.Fatal(err)
	}
	another := request(t, "0")
	another.Agent.Nonce = "another"
	place := request(t, "1")
	place.Placement = "zone=x"
	for _, c := range []struct {
		name string
		q    simulated.StartRequest
		kind errors.ConstError
	}{
		{"second instance", another, errors.AlreadyExists},
		{"bad placement", place, errors.NotValid},
		{"constraints", request(t, "1", "mem=1P"), environs.ErrPermanent},
	} {
		if _, err := client.Start(ctx, c.q); !errors.Is(err, c.kind) {
			t.Errorf("%s: Start = %v, want %v", c.name, err, c.kind)
		}
	}
	for kind, want := range map[simulated.FaultKind]errors.ConstError{simulated.FaultBusy: environs.ErrBusy, simulated.FaultPermanent: environs.ErrPermanent} {
		if err := client.AddFault(ctx, simulated.MachineFault{MachineID: "1", Times: 1, Kind: kind}); err != nil {
			t.Fatal(err)
		}
		if _, err := client.Start(ctx, request(t, "1")); !errors.Is(err, want) {
			t.Errorf("%s: Start = %v, want %v", kind, err, want)
		}
	}
	if err := client.AddFault(ctx, simulated.MachineFault{}); !errors.Is(err, errors.NotValid) {
		t.Errorf("AddFault = %v, want NotValid", err)
	}
	if err := client.SetBehaviour(ctx, simulated.Behaviour{Seed: 9, Faults: map[simulated.Call]map[simulated.FaultKind]float64{
		simulated.CallStop: {simulated.FaultTransient: 1},
	}}); err != nil {
		t.Fatal(err)
	}
	if b, err := client.Behaviour(ctx); err != nil || b.Seed != 9 {
		t.Errorf("Behaviour = %+v, %v", b, err)
	}
	results, err := client.Stop(ctx, stop(mustList(t, client)[0].ID, "unknown"))
	if err != nil || len(results) != 2 || results[0] == nil || results[1] != nil {
		t.Errorf("Stop = %v, %v", results, err)
	}
}

func TestTokenIsNeeded(t *testing.T) {
	good := serve(t, newRack(t, instant()))
	bad := good
	bad.Token = "wrong"
	if _, err := dial(t, bad).Describe(t.Context()); !errors.Is(err, errors.Unauthorized) {
		t.Errorf("Describe with a wrong token = %v, want Unauthorized", err)
	}
	for _, header := range []string{"", "Bearer", "Bearer ", "Basic " + good.Token, good.Token} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, good.URL+"/v1/list", strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", header)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusUnauthorized {
			t.Errorf("Authorization %q: %s, want 401", header, resp.Status)
		}
	}
	http.DefaultClient.CloseIdleConnections()
	if text := fmt.Sprintf("%v %+v %#v", good, good, good); strings.Contains(text, good.Token) {
		t.Errorf("the token is in %s", text)
	}
}

func TestTokenFile(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "rack")
	token, err := simulated.Token(dir)
	if err != nil || len(token) < 40 {
		t.Fatalf("Token = %q, %v", token, err)
	}
	if again, err := simulated.Token(dir); err != nil || again != token {
		t.Errorf("Token again = %q, %v, want the same", again, err)
	}
	path := filepath.Join(dir, "rack.token")
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode of the token's file = %v, %v", info.Mode(), err)
	}
	if err := os.WriteFile(path, []byte("x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := simulated.Token(dir); !errors.Is(err, errors.NotValid) {
		t.Errorf("Token = %v, want NotValid", err)
	}
}

func TestMalformedRequest(t *testing.T) {
	d := serve(t, newRack(t, instant()))
	for _, body := range []string{"", "x", `{"owner":3}`} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, d.URL+"/v1/start", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+d.Token)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusBadRequest || !strings.Contains(string(text), "malformed request") {
			t.Errorf("%q: %s %s, want 400", body, resp.Status, text)
		}
	}
	http.DefaultClient.CloseIdleConnections()
}

func TestRackThatDoesNotAnswer(t *testing.T) {
	release := make(chan struct{})
	silent := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	defer silent.Close()
	defer close(release)
	client := dial(t, simulated.DialConfig{URL: silent.URL, Token: "any", Timeout: time.Millisecond})
	if _, err := client.Describe(t.Context()); !errors.Is(err, environs.ErrBusy) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Describe = %v, want ErrBusy for a deadline", err)
	}
	other := httptest.NewServer(http.NotFoundHandler())
	defer other.Close()
	foreign := dial(t, simulated.DialConfig{URL: other.URL, Token: "any"})
	if _, err := foreign.Describe(t.Context()); err == nil || !strings.Contains(err.Error(), "answered 404") {
		t.Errorf("Describe of something else = %v", err)
	}
	away := "http://" + testport.Refusing(t)
	refused := dial(t, simulated.DialConfig{URL: away, Token: "any"})
	if _, err := refused.Describe(t.Context()); !errors.Is(err, environs.ErrBusy) || !strings.Contains(err.Error(), "cannot reach rack at "+away) {
		t.Errorf("Describe = %v, want ErrBusy", err)
	}
}

func TestDialRefuses(t *testing.T) {
	for _, c := range []simulated.DialConfig{
		{}, {URL: "127.0.0.1:1", Token: "t"}, {URL: "ftp://h", Token: "t"}, {URL: "http://", Token: "t"},
		{URL: "http://h/path", Token: "t"}, {URL: "http://h"},
	} {
		if _, err := simulated.Dial(c); !errors.Is(err, errors.NotValid) {
			t.Errorf("Dial(%s) = %v, want NotValid", c, err)
		}
	}
}

func TestProviderSettings(t *testing.T) {
	model := func(attrs map[string]any) *config.Config {
		attrs["name"], attrs["type"], attrs["uuid"] = "m", simulated.Name, providertest.Model
		cfg, err := config.New(attrs)
		if err != nil {
			t.Fatal(err)
		}
		return cfg
	}
	p := simulated.Provider{}
	for _, c := range []struct {
		attrs map[string]any
		want  string
	}{
		{map[string]any{"rack-url": "nowhere"}, `invalid rack-url "nowhere": address of the rack "nowhere" (want http://host:port) not valid`},
		{map[string]any{"rack-url": "http://h:1"}, "rack-token missing from model configuration: rack-url needs it"},
	} {
		if _, err := p.Validate(model(c.attrs), nil); !errors.Is(err, errors.NotValid) || err.Error() != c.want {
			t.Errorf("Validate(%v) = %v, want %q", c.attrs, err, c.want)
		}
	}
	_, err := p.Open(t.Context(), environs.OpenParams{Config: model(map[string]any{})})
	if !errors.Is(err, errors.NotValid) || !strings.Contains(err.Error(), "rack-url missing") {
		t.Errorf("Open without a rack = %v", err)
	}
}

func TestSetConfigMovesToAnotherRack(t *testing.T) {
	first, second := newRack(t, instant()), newRack(t, instant())
	d := serve(t, second)
	model := func(attrs map[string]any) *config.Config {
		attrs["name"], attrs["type"], attrs["uuid"] = "m", simulated.Name, providertest.Model
		cfg, err := config.New(attrs)
		if err != nil {
			t.Fatal(err)
		}
		return cfg
	}
	e, err := simulated.Provider{Rack: first}.Open(t.Context(), environs.OpenParams{ControllerUUID: providertest.Site, Config: model(map[string]any{})})
	if err != nil {
		t.Fatal(err)
	}
	mustStart(t, second, request(t, "0"))
	if all, err := e.AllInstances(t.Context()); err != nil || len(all) != 0 {
		t.Errorf("AllInstances = %v, %v", all, err)
	}
	if err := e.SetConfig(t.Context(), model(map[string]any{"rack-url": d.URL, "rack-token": d.Token})); err != nil {
		t.Fatal(err)
	}
	if all, err := e.AllInstances(t.Context()); err != nil || len(all) != 1 {
		t.Errorf("AllInstances of the other rack = %v, %v", all, err)
	}
	if zones, err := e.(environs.Zoned).AvailabilityZones(t.Context()); err != nil || len(zones) != 3 {
		t.Errorf("AvailabilityZones = %v, %v", zones, err)
	}
	if err := e.SetConfig(t.Context(), model(map[string]any{})); err != nil { // back, closing idle connections
		t.Fatal(err)
	}
}
