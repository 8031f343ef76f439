package site_test

import (
	"os"
	"strings"
	"testing"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/environs/all"
	"github.com/slipway-project/slipway/internal/hostkey"
	"github.com/slipway-project/slipway/internal/site"
)

func TestOnlyControllersWithTheKeysOfHostsStart(t *testing.T) {
	dir := bootstrap(t)
	if info, err := os.Stat(dir.HostKeys()); err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("hosts.key = %v, %v, want it there with mode 0600", info, err)
	}
	end(t, serve(t, dir))
	own, err := os.ReadFile(dir.HostKeys())
	if err != nil {
		t.Fatal(err)
	}
	refused := func(name string, kind error) {
		t.Helper()
		s, err := site.Open(t.Context(), site.Options{Dir: dir, Registry: all.Registry(all.Backends{})})
		if err == nil {
			end(t, s)
		}
		if err == nil || !errors.Is(err, kind) || strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), "hosts.key") {
			t.Errorf("start with %s = %v, want it refused in one line that names the file", name, err)
		}
	}
	if err := hostkey.New().Write(dir.HostKeys()); err != nil {
		t.Fatal(err)
	}
	refused("another key", hostkey.ErrWrongKey)
	if err := os.Remove(dir.HostKeys()); err != nil {
		t.Fatal(err)
	}
	refused("no key", hostkey.ErrWrongKey)
	if _, err := os.Stat(dir.HostKeys()); !os.IsNotExist(err) {
		t.Errorf("a key that is not the site's was left: %v", err)
	}
	if err := os.WriteFile(dir.HostKeys(), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	refused("a damaged key", errors.NotValid)
	if err := os.WriteFile(dir.HostKeys(), own, 0o600); err != nil {
		t.Fatal(err)
	}
	end(t, serve(t, dir))
}

func TestASiteWithoutKeysOfHostsGetsThem(t *testing.T) {
	dir := bootstrap(t)
	if err := os.Remove(dir.HostKeys()); err != nil { // as an older version prepared it
		t.Fatal(err)
	}
	for range 2 {
		end(t, serve(t, dir))
		if _, err := hostkey.Read(dir.HostKeys()); err != nil {
			t.Errorf("keys after the start: %v", err)
		}
	}
}
