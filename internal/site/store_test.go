package site_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/environs/all"
	"github.com/slipway-project/slipway/internal/site"
	"github.com/slipway-project/slipway/internal/testport"
	"github.com/slipway-project/slipway/store/mongo/mongotest"
)

// double starts a double of a replica set and returns the URL of a database.
func double(t *testing.T, c mongotest.Config) (*mongotest.Server, string) {
	t.Helper()
	server, err := mongotest.Start(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() }) // some tests have closed it
	return server, server.URL("slipway")
}

// options returns what prepares a site in a new directory.
func options(t *testing.T) site.BootstrapOptions {
	t.Helper()
	return site.BootstrapOptions{
		Dir: site.Dir(filepath.Join(t.TempDir(), "site")), Listen: "127.0.0.1:0", Registry: all.Registry(all.Backends{}),
	}
}

// serve opens a site, and ends it with the test.
func serve(t *testing.T, dir site.Dir) *site.Site {
	t.Helper()
	s, err := site.Open(t.Context(), site.Options{Dir: dir, Registry: all.Registry(all.Backends{})})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { end(t, s) })
	return s
}

// end ends a site, which may have ended.
func end(t *testing.T, s *site.Site) {
	t.Helper()
	s.Kill()
	if err := s.Wait(); err != nil {
		t.Errorf("site ended with %v", err)
	}
}

func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestStateIsKeptWhereTheURLSays(t *testing.T) {
	_, url := double(t, mongotest.Config{Users: map[string]string{"slipway": "s3cret"}})
	o := options(t)
	o.Store = site.StoreSettings{URL: url, CredentialsFile: write(t, "credentials", "slipway:s3cret\n")}
	if err := site.Bootstrap(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	if files, err := os.ReadDir(o.Dir.Store()); err != nil || len(files) != 0 {
		t.Errorf("the embedded store's folder holds %v (%v), want nothing", files, err)
	}
	text, err := os.ReadFile(o.Dir.SettingsFile())
	if err != nil || !strings.Contains(string(text), "url: "+url) || strings.Contains(string(text), "s3cret") {
		t.Errorf("settings are %q (%v), want the URL and no secret in them", text, err)
	}
	end(t, serve(t, o.Dir))
	serve(t, o.Dir) // and again, from what controller.yaml says

	other := options(t)
	other.Store = o.Store
	err = site.Bootstrap(t.Context(), other)
	if err == nil || !strings.Contains(err.Error(), "holds a site already: name another database") {
		t.Errorf("Bootstrap in the same database = %v, want a refusal", err)
	}
}

func TestStoresAreRefusedInOneLine(t *testing.T) {
	_, alone := double(t, mongotest.Config{Standalone: true})
	_, old := double(t, mongotest.Config{WireVersion: 7})
	_, guarded := double(t, mongotest.Config{Users: map[string]string{"slipway": "s3cret"}})
	unreachable := "mongodb://" + testport.Refusing(t) + "/slipway?replicaSet=rs0"
	wrong := write(t, "wrong", "slipway:guess\n")
	for _, c := range []struct {
		name  string
		store site.StoreSettings
		text  string
	}{
		{"unreachable", site.StoreSettings{URL: unreachable}, "cannot reach MongoDB at"},
		{"wrong password", site.StoreSettings{URL: guarded, CredentialsFile: wrong}, `MongoDB refuses user "slipway"`},
		{"no replica set", site.StoreSettings{URL: alone}, "--replSet"},
		{"too old", site.StoreSettings{URL: old}, "MongoDB 4.2 or later"},
		{"another scheme", site.StoreSettings{URL: "postgres://db/slipway"}, "must start with mongodb://"},
		{"a password in it", site.StoreSettings{URL: "mongodb://slipway:guess@db/slipway"}, "put them into the credentials file"},
		{"files without a store", site.StoreSettings{CAFile: "ca.pem"}, "give --store"},
		{"a missing file", site.StoreSettings{URL: guarded, CredentialsFile: filepath.Join(t.TempDir(), "none")}, "cannot read the store's credentials"},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := options(t)
			o.Store = c.store
			err := site.Bootstrap(t.Context(), o)
			if err == nil || !strings.Contains(err.Error(), c.text) || strings.ContainsAny(err.Error(), "\n") {
				t.Fatalf("Bootstrap = %v, want one line with %q", err, c.text)
			}
			if strings.Contains(err.Error(), "guess") {
				t.Errorf("Bootstrap = %v, which holds a password", err)
			}
			if _, err := site.Open(t.Context(), site.Options{Dir: o.Dir, Registry: o.Registry}); !errors.Is(err, errors.NotFound) {
				t.Errorf("Open of what was not prepared = %v, want not found", err)
			}
		})
	}
}
