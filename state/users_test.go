package state_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/core/access"
	"github.com/slipway-project/slipway/core/kind"
	"github.com/slipway-project/slipway/core/life"
	"github.com/slipway-project/slipway/environs/config"
	"github.com/slipway-project/slipway/state"
	"github.com/slipway-project/slipway/state/statetest"
)

func TestUsersLogIn(t *testing.T) {
	site, _ := statetest.OpenMemory(t)
	users := site.Users()
	bob, err := users.Add(ctx, state.UserSpec{Name: "Bob", DisplayName: "Bob B.", Password: "secret", CreatedBy: "admin"})
	must(t, err)
	if bob.Name() != "Bob" || bob.Tag().String() != "user-bob" || bob.Access() != access.Login || bob.CreatedBy() != "admin" {
		t.Errorf("user %s, tag %s, access %s", bob.Name(), bob.Tag(), bob.Access())
	}
	_, err = users.Add(ctx, state.UserSpec{Name: "bOB"})
	if !errors.Is(err, errors.AlreadyExists) {
		t.Errorf("second user of the name: %v", err)
	}
	for _, bad := range []string{"", "a b", "../x", "x@elsewhere"} {
		if _, err := users.Add(ctx, state.UserSpec{Name: bad}); !errors.Is(err, errors.NotValid) {
			t.Errorf("Add(%q) = %v, want not valid", bad, err)
		}
	}
	_, err = users.Add(ctx, state.UserSpec{Name: "mute"})
	must(t, err)
	logIn := func(name, password string, want bool) {
		t.Helper()
		u, err := users.Authenticate(ctx, name, password)
		if want {
			if err != nil || u == nil {
				t.Errorf("%s cannot log in: %v", name, err)
			}
			return
		}
		wantError(t, err, "invalid entity name or password", state.ErrBadCredentials)
	}
	logIn("bob", "secret", true)
	logIn("bob@local", "secret", true)
	logIn("bob", "Secret", false)
	logIn("nobody", "secret", false)
	logIn("mute", "", false)
	logIn("bob", "", false)
	w := users.Watch()
	t.Cleanup(w.Kill)
	wantNotice(t, w)
	must(t, bob.Disable(ctx))
	wantNotice(t, w)
	logIn("bob", "secret", false)
	must(t, bob.Enable(ctx))
	must(t, bob.SetPassword(ctx, "other"))
	logIn("bob", "secret", false)
	logIn("bob", "other", true)
	if err := bob.SetPassword(ctx, ""); !errors.Is(err, errors.NotValid) {
		t.Errorf("empty password: %v", err)
	}
	_, err = users.Get(ctx, "nobody")
	wantError(t, err, `user "nobody" not found`, errors.NotFound)
	if !errors.Is(err, errors.UserNotFound) {
		t.Error("the error does not say that it is about a user")
	}
	all, err := users.All(ctx)
	must(t, err)
	if len(all) != 3 || all[0].Name() != "admin" || all[2].Name() != "mute" {
		t.Errorf("all users: %v", all)
	}
}

func TestLastLogin(t *testing.T) {
	site, _ := statetest.OpenMemory(t)
	admin, err := site.Users().Get(ctx, "admin")
	must(t, err)
	if at, err := admin.LastLogin(ctx); err != nil || !at.IsZero() {
		t.Errorf("last login %v, %v; want never", at, err)
	}
	late := time.Date(2024, 5, 6, 7, 8, 9, 0, time.UTC)
	must(t, admin.RecordLogin(ctx, late))
	must(t, admin.RecordLogin(ctx, late.Add(-time.Hour))) // two connections at once
	if at, err := admin.LastLogin(ctx); err != nil || !at.Equal(late) {
		t.Errorf("last login %v, %v; want %v", at, err, late)
	}
	m, err := site.Default.Model(ctx)
	must(t, err)
	must(t, m.RecordLogin(ctx, "admin", late))
	if logins, err := m.LastLogins(ctx); err != nil || len(logins) != 1 || !logins["admin"].Equal(late) {
		t.Errorf("logins %v, %v", logins, err)
	}
}

func TestHashingWaitsForItsTurn(t *testing.T) {
	site, _ := statetest.OpenMemory(t)
	stop, cancel := context.WithCancel(ctx)
	cancel()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if _, err := site.Users().Authenticate(ctx, "admin", statetest.AdminPassword); err != nil {
				t.Errorf("one of many logins: %v", err)
			}
		})
	}
	wg.Wait()
	if _, err := site.Users().Authenticate(stop, "admin", statetest.AdminPassword); !errors.Is(err, context.Canceled) {
		t.Errorf("a login of which nobody waits for the answer: %v", err)
	}
}

func TestModelsAndAccess(t *testing.T) {
	site, _ := statetest.OpenMemory(t)
	models := site.Models()
	for _, name := range []string{"ann", "bob"} {
		_, err := site.Users().Add(ctx, state.UserSpec{Name: name})
		must(t, err)
	}
	spec := state.ModelSpec{Name: "web", Owner: "ann", Config: map[string]any{"type": "simulated"}}
	web, err := models.Add(ctx, spec)
	must(t, err)
	_, err = models.Add(ctx, spec)
	wantError(t, err, `cannot add model "web": model "web" of user ann already exists`, errors.AlreadyExists)
	spec.Owner = "bob" // the name is free among bob's
	_, err = models.Add(ctx, spec)
	must(t, err)
	for _, bad := range []state.ModelSpec{
		{Name: "Web", Owner: "ann", Config: spec.Config},
		{Name: strings.Repeat("w", 256), Owner: "ann", Config: spec.Config},
		{Name: "x", Owner: "ann"},
		{Name: "x", Owner: "ann", Config: map[string]any{"type": "simulated", config.ProvisionWorkers: 0}},
	} {
		if _, err := models.Add(ctx, bad); !errors.Is(err, errors.NotValid) {
			t.Errorf("Add(%+v) = %v, want not valid", bad, err)
		}
	}
	if _, err := models.Add(ctx, state.ModelSpec{Name: "x", Owner: "eve", Config: spec.Config}); !errors.Is(err, errors.NotFound) {
		t.Errorf("model of an unknown owner: %v", err)
	}
	found, err := models.ByName(ctx, "ann", "web")
	must(t, err)
	if found.UUID() != web.UUID() || found.Owner() != "ann" || found.Life() != life.Alive {
		t.Errorf("found %s of %s", found.UUID(), found.Owner())
	}
	_, err = site.State(ctx, "no-such")
	wantError(t, err, `model "no-such" not found`, kind.ModelNotFound)
	cfg, err := web.State().ModelConfig().Get(ctx)
	must(t, err)
	if cfg.Name() != "web" || cfg.UUID() != web.UUID() {
		t.Errorf("config of %s, %s", cfg.Name(), cfg.UUID())
	}

	wantAccess := func(user string, want access.Model) {
		t.Helper()
		if got, err := models.Access(ctx, user, web.UUID()); err != nil || got != want {
			t.Errorf("access of %s: %q, %v; want %q", user, got, err, want)
		}
	}
	wantAccess("ann", access.Admin)
	wantAccess("bob", "")
	wantAccess("admin", access.Admin) // a superuser
	wantAccess("eve", "")
	must(t, web.Grant(ctx, "bob", access.Write))
	wantAccess("bob", access.Write)
	if err := web.Grant(ctx, "bob", access.Read); !errors.Is(err, errors.AlreadyExists) {
		t.Errorf("granting less: %v", err)
	}
	if list, err := models.ForUser(ctx, "bob"); err != nil || len(list) != 2 {
		t.Errorf("bob's models: %v, %v", list, err)
	}
	must(t, web.Revoke(ctx, "bob", access.Write))
	wantAccess("bob", access.Read)
	must(t, web.Revoke(ctx, "bob", access.Read))
	wantAccess("bob", "")
	if err := web.Revoke(ctx, "bob", access.Read); !errors.Is(err, errors.NotFound) {
		t.Errorf("revoking what is not there: %v", err)
	}
	if err := web.Revoke(ctx, "ann", access.Admin); !errors.Is(err, errors.NotValid) {
		t.Errorf("revoking the owner's access: %v", err)
	}
	ann, err := site.Users().Get(ctx, "ann")
	must(t, err)
	must(t, ann.Disable(ctx))
	wantAccess("ann", "")
}

func TestModelConfigChanges(t *testing.T) {
	site, _ := statetest.OpenMemory(t)
	mc := site.Default.ModelConfig()
	must(t, mc.Update(ctx, config.Update{Set: map[string]any{"resource-tags": "a=b", config.ProvisionWorkers: 4}}))
	cfg, err := mc.Get(ctx)
	must(t, err)
	if cfg.ProvisionWorkers() != 4 || cfg.ResourceTags()["a"] != "b" {
		t.Errorf("workers %d, tags %v", cfg.ProvisionWorkers(), cfg.ResourceTags())
	}
	if err := mc.Update(ctx, config.Update{Set: map[string]any{"name": "other"}}); !errors.Is(err, errors.NotValid) {
		t.Errorf("changing the name: %v", err)
	}
	must(t, mc.Update(ctx, config.Update{Reset: []string{config.ProvisionWorkers}}))
	must(t, mc.SetAgentVersion(ctx, "3.5.0"))
	cfg, err = mc.Get(ctx)
	must(t, err)
	if v, ok := cfg.AgentVersion(); cfg.ProvisionWorkers() == 4 || !ok || v.String() != "3.5.0" {
		t.Errorf("workers %d, agent version %v", cfg.ProvisionWorkers(), v)
	}
}

func TestControllerConfig(t *testing.T) {
	site := statetest.OpenWith(t, statetest.Config{ControllerConfig: map[string]any{"api-port": 17070}})
	must(t, site.UpdateControllerConfig(ctx, map[string]any{"a": "b", "c": "d"}, nil))
	must(t, site.UpdateControllerConfig(ctx, nil, []string{"c"}))
	cfg, err := site.ControllerConfig(ctx)
	must(t, err)
	if cfg["api-port"] != 17070.0 || cfg["a"] != "b" || cfg["controller-uuid"] != site.ControllerUUID() || len(cfg) != 3 {
		t.Errorf("config %v", cfg)
	}
	if err := site.UpdateControllerConfig(ctx, map[string]any{"controller-uuid": "x"}, nil); !errors.Is(err, errors.NotValid) {
		t.Errorf("changing the UUID: %v", err)
	}
}

func TestWorkers(t *testing.T) {
	site, _ := statetest.OpenMemory(t)
	spec := state.WorkerSpec{Name: "rack-2", Nonce: "n", Password: statetest.MachinePassword}
	m, err := site.Workers().Add(ctx, spec)
	must(t, err)
	m = get(t, site.Management, m.Id())
	if !m.IsManager() || m.Worker() != "rack-2" || !m.CheckProvisioned("n") || !m.PasswordValid(statetest.MachinePassword) {
		t.Errorf("worker %s of machine %s cannot work", m.Worker(), m.Id())
	}
	wantError(t, m.Destroy(ctx), "machine 1 is required by the model", state.ErrRequired)
	if _, err := site.Workers().Add(ctx, spec); !errors.Is(err, errors.AlreadyExists) {
		t.Errorf("second worker of the name: %v", err)
	}
	if _, err := site.Workers().Add(ctx, state.WorkerSpec{Name: "a b", Nonce: "n", Password: spec.Password}); !errors.Is(err, errors.NotValid) {
		t.Errorf("bad name: %v", err)
	}
	if all, err := site.Workers().All(ctx); err != nil || len(all) != 1 || all[0].Id() != m.Id() {
		t.Errorf("all workers: %v, %v", all, err)
	}
	must(t, site.Workers().Remove(ctx, "rack-2"))
	if err := site.Workers().Remove(ctx, "rack-2"); !errors.Is(err, errors.NotFound) {
		t.Errorf("removing it twice: %v", err)
	}
	if _, err := site.Management.Machines().Get(ctx, m.Id()); !errors.Is(err, errors.NotFound) {
		t.Errorf("the identity is still there: %v", err)
	}
	m, err = site.Workers().Add(ctx, spec) // the name is free again, the id is not
	must(t, err)
	if m.Id() != "2" {
		t.Errorf("id %s, want 2", m.Id())
	}
}
