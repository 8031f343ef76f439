package site_test

import (
	"fmt"
	"maps"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/slipway-project/slipway/api/client"
	"github.com/slipway-project/slipway/internal/site"
	"github.com/slipway-project/slipway/params"
	"github.com/slipway-project/slipway/state"
	"github.com/slipway-project/slipway/store"
	"github.com/slipway-project/slipway/store/mongo"
	"github.com/slipway-project/slipway/store/mongo/mongotest"
	"github.com/slipway-project/slipway/store/sqlite"
)

// documents returns every document of a store that no server writes by itself.
func documents(t *testing.T, s store.Store) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, c := range state.Collections() {
		if c.Name == "servers" || c.Name == "beats" {
			continue
		}
		page, err := s.List(t.Context(), store.Query{Collection: c.Name})
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range page.Docs {
			all[d.Collection+" "+d.ID] = string(d.Data)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return all
}

func embedded(t *testing.T, dir site.Dir) store.Store {
	t.Helper()
	s, err := sqlite.Open(t.Context(), sqlite.Config{Dir: dir.Store(), Collections: state.Collections()})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func remote(t *testing.T, url string) store.Store {
	t.Helper()
	s, err := mongo.Open(t.Context(), mongo.Config{URL: url, Collections: state.Collections()})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// load adds machines through a server until the server ends, and returns how
// many were acknowledged.
func load(t *testing.T, dir site.Dir, s *site.Site) (wait func() int) {
	t.Helper()
	var wg sync.WaitGroup
	total := 0
	c := client.New(connect(t, dir, s.Addr()))
	started := make(chan struct{})
	wg.Go(func() {
		for n := 0; ; n++ {
			added, err := c.AddMachines(t.Context(), params.AddMachineParams{Group: fmt.Sprint("g", n%3), Jobs: []string{"JobHostUnits"}})
			if err != nil {
				return // the server has ended
			}
			if added[0].Err != nil {
				t.Error(added[0].Err)
			}
			if total++; total == 5 {
				close(started)
			}
		}
	})
	<-started
	return func() int { wg.Wait(); return total }
}

// machines returns how many machines a site has in model default.
func machines(t *testing.T, dir site.Dir, addr string) int {
	t.Helper()
	status, err := client.New(connect(t, dir, addr)).FullStatus(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return len(status.Machines)
}

func TestStateMovesThereAndBackUnderLoad(t *testing.T) {
	_, url := double(t, mongotest.Config{})
	o := options(t)
	o.ModelConfig = map[string]any{"rack-url": "http://127.0.0.1:9", "rack-token": "none"} // nobody asks it
	if err := site.Bootstrap(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	serving := serve(t, o.Dir)
	total := 0
	move := func(from, to string) {
		t.Helper()
		finished := load(t, o.Dir, serving)
		said := false
		r, err := site.Migrate(t.Context(), site.MigrateOptions{From: from, To: to, Say: func(string) {
			said = true
			serving.Kill() // as an operator would
		}})
		if err != nil || !said || r.Documents < 10 {
			t.Fatalf("Migrate = %+v, %v; it asked for a stop: %v", r, err, said)
		}
		end(t, serving)
		total += finished()
		t.Logf("moved %d documents, %d changes meanwhile, %d repaired; no writes for %v", r.Documents, r.Changes, r.Repaired, r.Fenced)
	}
	move(string(o.Dir), url)
	if old, now := documents(t, embedded(t, o.Dir)), documents(t, remote(t, url)); !maps.Equal(old, now) {
		t.Errorf("the new store has %d documents, the old one %d, and they differ", len(now), len(old))
	}
	serving = serve(t, o.Dir)
	counted := func() {
		t.Helper()
		n := machines(t, o.Dir, serving.Addr())
		if n != total && n != total+1 { // the last answer may have been lost
			t.Errorf("%d machines after the move, want the %d that were acknowledged", n, total)
		}
		total = n
	}
	counted()

	_, err := site.Migrate(t.Context(), site.MigrateOptions{From: url, To: string(o.Dir), Say: func(string) {}})
	if err == nil || !strings.Contains(err.Error(), "holds a site already") {
		t.Errorf("Migrate over the old store = %v, want a refusal", err)
	}
	if err := os.RemoveAll(o.Dir.Store()); err != nil {
		t.Fatal(err)
	}
	move(url, string(o.Dir))
	serving = serve(t, o.Dir)
	counted()
	end(t, serving)
	withState(t, o.Dir, func(*state.Controller) {}) // it is the embedded store again
}

func TestMigrateRefusesInOneLine(t *testing.T) {
	_, url := double(t, mongotest.Config{})
	dir := bootstrap(t)
	for name, c := range map[string]struct {
		from, to string
		text     string
	}{
		"nothing":           {"", url, "--from"},
		"two directories":   {string(dir), string(newDir(t)), "one of --from and --to"},
		"two URLs":          {url, url + "2", "one of --from and --to"},
		"no site":           {string(newDir(t)), url, "holds no site yet"},
		"another scheme":    {string(dir), "postgres://db/slipway", "mongodb://"},
		"another directory": {url, string(dir), "is not of a controller whose state is at"},
	} {
		_, err := site.Migrate(t.Context(), site.MigrateOptions{From: c.from, To: c.to, Say: func(string) {}})
		if err == nil || !strings.Contains(err.Error(), c.text) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want one line with %q", name, err, c.text)
		}
	}
}
