package metrics_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/apiserver"
	"github.com/slipway-project/slipway/internal/metrics"
	"github.com/slipway-project/slipway/internal/tlsfiles"
	"github.com/slipway-project/slipway/state"
	"github.com/slipway-project/slipway/state/statetest"
	"github.com/slipway-project/slipway/store"
	"github.com/slipway-project/slipway/store/storetest"
)

// scrape returns the lines of our metrics.
func scrape(t *testing.T, m *metrics.Metrics) string {
	t.Helper()
	server := httptest.NewServer(m.Handler())
	defer server.Close()
	answer, err := http.Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("metrics: %s, %v\n%s", answer.Status, err, text)
	}
	return string(text)
}

func wants(t *testing.T, text string, lines ...string) {
	t.Helper()
	for _, l := range lines {
		if !strings.Contains(text, l+"\n") {
			t.Errorf("metrics lack %q:\n%s", l, ours(text))
		}
	}
}

// ours leaves out what is not ours, and help.
func ours(text string) string {
	var out strings.Builder
	for l := range strings.Lines(text) {
		if strings.HasPrefix(l, "slipway_") {
			out.WriteString(l)
		}
	}
	return out.String()
}

func TestCallsAndLoginsAreCounted(t *testing.T) {
	m := metrics.New()
	who := apiserver.Origin{Who: "user-planted-secret", Remote: "planted-secret"}
	m.LoggedIn(apiserver.Login{Origin: who})
	m.LoggedIn(apiserver.Login{Origin: apiserver.Origin{Who: "machine-1"}, Code: "try again"})
	m.LoggedIn(apiserver.Login{Code: "error"})
	m.Called(apiserver.Call{Origin: who, Facade: "Client", Method: "FullStatus", Took: 2 * time.Millisecond})
	m.Called(apiserver.Call{Facade: "Client", Method: "DestroyMachines", Code: "unauthorized access", Writes: true, More: 3,
		Entities: []apiserver.Entity{{Name: "planted-secret"}}})
	m.Called(apiserver.Call{Facade: "NotifyWatcher", Method: "Next", Took: time.Hour, Waits: true})
	text := scrape(t, m)
	wants(t, text,
		`slipway_logins_total{kind="user",outcome="ok"} 1`,
		`slipway_logins_total{kind="machine",outcome="try again"} 1`,
		`slipway_logins_total{kind="other",outcome="error"} 1`,
		`slipway_rpc_calls_total{method="Client.FullStatus",outcome="ok"} 1`,
		`slipway_rpc_calls_total{method="Client.DestroyMachines",outcome="unauthorized access"} 1`,
		`slipway_rpc_call_seconds_bucket{method="Client.FullStatus",le="0.001"} 0`,
		`slipway_rpc_call_seconds_bucket{method="Client.FullStatus",le="0.003"} 1`,
		`slipway_rpc_calls_total{method="NotifyWatcher.Next",outcome="ok"} 1`,
		`slipway_rpc_entities_written_total 4`,
	)
	if strings.Contains(text, `seconds_count{method="NotifyWatcher.Next"}`) {
		t.Error("a call that waits counts as slow")
	}
	if strings.Contains(text, "planted-secret") {
		t.Error("the metrics hold what a client sent")
	}
}

func TestStoreIsTimed(t *testing.T) {
	m := metrics.New()
	tap := storetest.NewTap(storetest.New(t, []store.Collection{{Name: "c"}}))
	s := m.Store(tap)
	ctx := t.Context()
	op := store.Insert(store.Key{Collection: "c", ID: "1"}, []byte("{}"), nil)
	if err := s.Apply(ctx, []store.Op{op}); err != nil {
		t.Fatal(err)
	}
	if err := s.Apply(ctx, []store.Op{op}); !errors.Is(err, store.ErrConflict) {
		t.Fatal(err)
	}
	if _, err := s.Get(ctx, store.Key{Collection: "c", ID: "2"}); !errors.Is(err, errors.NotFound) {
		t.Fatal(err)
	}
	if _, err := s.GetAll(ctx, nil); err != nil {
		t.Fatal(err)
	}
	tap.SetBefore(func(context.Context, storetest.Call) error { return errors.New("disk full") })
	if _, err := s.List(ctx, store.Query{Collection: "c"}); err == nil {
		t.Fatal("List succeeds")
	}
	wants(t, scrape(t, m),
		`slipway_store_seconds_count{op="apply",outcome="ok"} 1`,
		`slipway_store_seconds_count{op="apply",outcome="conflict"} 1`,
		`slipway_store_seconds_count{op="get",outcome="ok"} 1`,
		`slipway_store_seconds_count{op="get-all",outcome="ok"} 1`,
		`slipway_store_seconds_count{op="list",outcome="error"} 1`,
	)
}

func TestLiveValues(t *testing.T) {
	site, _ := statetest.OpenMemory(t)
	statetest.AddMachine(t, site.Default, state.MachineSpec{})
	statetest.AddMachine(t, site.Default, state.MachineSpec{})
	files, err := tlsfiles.Open(t.TempDir(), tlsfiles.Hosts())
	if err != nil {
		t.Fatal(err)
	}
	server, err := apiserver.New(t.Context(), apiserver.Config{
		Controller: site.Controller, Listen: "127.0.0.1:0", Certificate: files.Certificate, CACert: files.AuthorityPEM(),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		server.Kill()
		if err := server.Wait(); err != nil {
			t.Error(err)
		}
	}()
	failing := false
	m := metrics.New()
	m.Follow(metrics.Live{Controller: site.Controller, Server: server, Probe: func(ctx context.Context) (state.Probe, error) {
		if failing {
			return state.Probe{}, errors.New("disk full")
		}
		return state.Probe{Notice: 20 * time.Millisecond}, nil
	}})
	w := site.Users().Watch()
	defer w.Kill()
	text := scrape(t, m)
	wants(t, text,
		`slipway_connections{kind="anonymous"} 0`, `slipway_connections{kind="user"} 0`,
		`slipway_state_up 1`, `slipway_hub_lag_seconds 0.02`,
		`slipway_machines{life="alive",model="default",status="pending"} 2`,
		`slipway_machines{life="alive",model="controller",status="started"} 1`,
	)
	if !strings.Contains(text, "slipway_watchers ") || strings.Contains(text, "slipway_watchers 0\n") {
		t.Errorf("watchers are not counted:\n%s", ours(text))
	}
	failing = true
	if text := scrape(t, m); !strings.Contains(text, "slipway_state_up 0\n") || strings.Contains(text, "hub_lag_seconds 0") {
		t.Errorf("a state that fails is not told:\n%s", ours(text))
	}
	statetest.AddMachine(t, site.Default, state.MachineSpec{})
	if text := scrape(t, m); !strings.Contains(text, `status="pending"} 2`) {
		t.Errorf("machines were counted again at once:\n%s", ours(text))
	}
}
