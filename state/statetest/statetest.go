// Package statetest gives tests a site with state in it.
package statetest

import (
	"context"
	"strconv"
	"strings"
	"testing"

	"github.com/slipway-project/slipway/core/job"
	"github.com/slipway-project/slipway/core/network"
	"github.com/slipway-project/slipway/internal/hostkey"
	"github.com/slipway-project/slipway/state"
	"github.com/slipway-project/slipway/store"
	"github.com/slipway-project/slipway/store/storetest"
)

// What Open puts into a site.
const (
	AdminName       = "admin"
	AdminPassword   = "admin-password"
	MachinePassword = "machine-0-password-of-24-bytes" // of machine 0 in the controller model
	MachineNonce    = "machine-0-nonce"
	ProviderType    = "simulated"
)

// Site is a controller with its two models, ready for use.
type Site struct {
	*state.Controller
	Store      store.Store
	Default    *state.State // an ordinary model, without machines
	Management *state.State // the controller model, with the manager machine 0
}

// Config says how to open a site. The zero Config is usable.
type Config struct {
	Store            store.Store // nil means a new embedded one, which is closed at the end of the test
	Options          state.Options
	ModelConfig      map[string]any // beside name, uuid and type
	ControllerConfig map[string]any
}

// Open returns a new site. It ends with the test.
func Open(t testing.TB) *Site {
	t.Helper()
	return OpenWith(t, Config{})
}

// OpenMemory is Open with a store in memory, and returns a tap of it that counts
// and can fail the site's calls.
func OpenMemory(t testing.TB) (*Site, *storetest.Tap) {
	t.Helper()
	tap := storetest.NewTap(storetest.New(t, state.Collections()))
	return OpenWith(t, Config{Store: tap}), tap
}

// OpenTapped is Open with a tap of its store.
func OpenTapped(t testing.TB) (*Site, *storetest.Tap) {
	t.Helper()
	tap := storetest.NewTap(newStore(t))
	return OpenWith(t, Config{Store: tap}), tap
}

// OpenWith is Open with a choice.
func OpenWith(t testing.TB, cfg Config) *Site {
	t.Helper()
	ctx := context.Background()
	if cfg.Store == nil {
		cfg.Store = newStore(t)
	}
	if cfg.Options.HostKeys == nil {
		cfg.Options.HostKeys = hostkey.New()
	}
	attrs := map[string]any{"type": ProviderType}
	for k, v := range cfg.ModelConfig {
		attrs[k] = v
	}
	c, err := state.Initialize(ctx, cfg.Store, state.InitializeParams{
		AdminName: AdminName, AdminPassword: AdminPassword,
		ModelConfig: attrs, ControllerConfig: cfg.ControllerConfig,
		Machine: state.FirstMachine{Nonce: MachineNonce, Password: MachinePassword},
		Options: cfg.Options,
	})
	if err != nil {
		t.Fatalf("cannot make a site: %v", err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("cannot close the site: %v", err)
		}
	})
	site := &Site{Controller: c, Store: cfg.Store}
	if site.Management, err = c.State(ctx, c.ControllerModelUUID()); err != nil {
		t.Fatalf("cannot open the controller model: %v", err)
	}
	m, err := c.Models().ByName(ctx, AdminName, state.DefaultModelName)
	if err != nil {
		t.Fatalf("cannot open the default model: %v", err)
	}
	site.Default = m.State()
	return site
}

// AddMachine adds a machine; the series is jammy and the job to host units, unless
// spec says otherwise.
func AddMachine(t testing.TB, st *state.State, spec state.MachineSpec) *state.Machine {
	t.Helper()
	if spec.Series == "" {
		spec.Series = "jammy"
	}
	if spec.Jobs == nil {
		spec.Jobs = []job.Job{job.HostUnits}
	}
	results, err := st.Machines().Add(context.Background(), []state.MachineSpec{spec})
	if err == nil {
		err = results[0].Err
	}
	if err != nil {
		t.Fatalf("cannot add a machine: %v", err)
	}
	return results[0].Machine
}

// SetAPIHostPorts publishes the addresses of API servers 0, 1 and so on, and
// takes back what others have published.
func (s *Site) SetAPIHostPorts(ctx context.Context, servers [][]network.HostPort) error {
	for i, addresses := range servers {
		if err := s.Publish(ctx, strconv.Itoa(i), addresses); err != nil {
			return err
		}
	}
	page, err := s.Store.List(ctx, store.Query{Collection: "servers"})
	if err != nil {
		return err
	}
	var ops []store.Op
	for _, d := range page.Docs {
		if i, err := strconv.Atoi(strings.TrimPrefix(d.ID, "_:")); err != nil || i >= len(servers) {
			ops = append(ops, store.Remove(d.Key, d.Rev))
		}
	}
	return s.Store.Apply(ctx, ops)
}
