package site_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/api/agentfile"
	"github.com/slipway-project/slipway/api/clientstore"
	"github.com/slipway-project/slipway/environs/all"
	"github.com/slipway-project/slipway/internal/archive"
	"github.com/slipway-project/slipway/internal/site"
	"github.com/slipway-project/slipway/state"
	"github.com/slipway-project/slipway/store/mongo/mongotest"
	"github.com/slipway-project/slipway/store/sqlite"
)

var passphrase = []byte("correct horse battery staple")

// bootstrap prepares a site on an embedded store.
func bootstrap(t *testing.T) site.Dir {
	t.Helper()
	o := options(t)
	if err := site.Bootstrap(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	return o.Dir
}

// withState opens the state of a site that nobody serves, and closes it again.
func withState(t *testing.T, dir site.Dir, do func(*state.Controller)) {
	t.Helper()
	db, err := sqlite.Open(t.Context(), sqlite.Config{Dir: dir.Store(), Collections: state.Collections()})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	c, err := state.Open(t.Context(), db, state.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	do(c)
}

// backup backs a site up and returns the file's name.
func backup(t *testing.T, dir site.Dir, secrets bool) string {
	t.Helper()
	o := site.BackupOptions{Dir: dir, Out: filepath.Join(t.TempDir(), "backup"), Secrets: secrets, Registry: all.Registry(all.Backends{})}
	if secrets {
		o.Passphrase = passphrase
	}
	if err := site.Backup(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	if left, _ := filepath.Glob(filepath.Join(string(dir), ".backup-*")); len(left) > 0 {
		t.Errorf("a backup left %v", left)
	}
	return o.Out
}

// newDir names a directory that is not there.
func newDir(t *testing.T) site.Dir { return site.Dir(filepath.Join(t.TempDir(), "restored")) }

func account(t *testing.T, dir site.Dir) clientstore.Account {
	t.Helper()
	c, err := clientstore.New(dir.Client()).Read()
	if err != nil {
		t.Fatal(err)
	}
	return c.Accounts[c.Current]
}

// checkLogins checks that the site's first user and first worker can log in with
// what is in their files.
func checkLogins(t *testing.T, dir site.Dir) {
	t.Helper()
	withState(t, dir, func(c *state.Controller) {
		a := account(t, dir)
		if _, err := c.Users().Authenticate(t.Context(), a.User, string(a.Password)); err != nil {
			t.Errorf("%s cannot log in: %v", a.User, err)
		}
		agent, err := agentfile.Read(dir.AgentFile())
		if err != nil {
			t.Fatal(err)
		}
		st, err := c.State(t.Context(), agent.ModelUUID)
		if err != nil {
			t.Fatal(err)
		}
		m, err := st.Machines().Get(t.Context(), "0")
		if err != nil || !m.PasswordValid(agent.Password) || !m.CheckProvisioned(agent.Nonce) {
			t.Errorf("the first worker cannot log in (%v)", err)
		}
	})
}

func TestBackupWithSecretsRestoresEverything(t *testing.T) {
	dir := bootstrap(t)
	s := serve(t, dir) // the backup is taken from beside a controller that runs
	file := backup(t, dir, true)
	end(t, s)
	before := account(t, dir)
	if text, err := os.ReadFile(file); err != nil || bytes.Contains(text, []byte(before.Password)) {
		t.Errorf("the backup shows a password (%v)", err)
	}
	if info, err := os.Stat(file); err != nil || info.Mode() != 0o600 {
		t.Errorf("the backup has mode %v (%v), want 0600", info.Mode(), err)
	}
	restored := newDir(t)
	m, err := site.Restore(t.Context(), site.RestoreOptions{Dir: restored, From: file, Passphrase: passphrase})
	if err != nil || m.Name != "slipway" || !m.Secrets {
		t.Fatalf("Restore = %+v, %v", m, err)
	}
	if got := account(t, restored); got.Password != before.Password {
		t.Error("the first user has another password than before")
	}
	for _, name := range []string{"ca.pem", "ca-key.pem"} {
		was, err := os.ReadFile(filepath.Join(string(dir), name))
		if err != nil {
			t.Fatal(err)
		}
		if is, err := os.ReadFile(filepath.Join(string(restored), name)); err != nil || !bytes.Equal(is, was) {
			t.Errorf("%s is not what it was (%v)", name, err)
		}
	}
	checkLogins(t, restored)
	serve(t, restored)
}

func TestBackupWithoutSecretsGivesNewOnes(t *testing.T) {
	dir := bootstrap(t)
	withState(t, dir, func(c *state.Controller) {
		if _, err := c.Users().Add(t.Context(), state.UserSpec{Name: "bob", Password: "bob's password"}); err != nil {
			t.Fatal(err)
		}
	})
	file := backup(t, dir, false)
	unpacked := t.TempDir()
	r, err := archive.Open(file, archive.Backup, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Extract(unpacked); err != nil {
		t.Fatal(err)
	}
	db, err := os.ReadFile(filepath.Join(unpacked, "store", "slipway.db"))
	if err != nil || bytes.Contains(db, []byte("argon2id")) || bytes.Contains(db, []byte("password-hash")) || !bytes.Contains(db, []byte("bob")) {
		t.Errorf("the store in the backup has password hashes, or no users (%v)", err)
	}
	if r.Has("ca-key.pem") || r.Has("agents/machine-0.yaml") || r.Has("client/accounts.yaml") {
		t.Error("the backup has files with secrets")
	}
	restored := newDir(t)
	if _, err := site.Restore(t.Context(), site.RestoreOptions{Dir: restored, From: file}); err != nil {
		t.Fatal(err)
	}
	if account(t, restored).Password == account(t, dir).Password {
		t.Error("the first user has the old password, of which there is no hash")
	}
	checkLogins(t, restored)
	withState(t, restored, func(c *state.Controller) {
		for _, password := range []string{"bob's password", ""} {
			if _, err := c.Users().Authenticate(t.Context(), "bob", password); !errors.Is(err, state.ErrBadCredentials) {
				t.Errorf("bob logs in with %q: %v", password, err)
			}
		}
	})
	serve(t, restored)
}

func TestAnInterruptedRestoreIsBegunAnew(t *testing.T) {
	file := backup(t, bootstrap(t), true)
	o := site.RestoreOptions{Dir: newDir(t), From: file, Passphrase: passphrase}
	if _, err := site.Restore(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(o.Dir.SettingsFile())
	if err != nil {
		t.Fatal(err)
	}
	unfinished := strings.Replace(string(text), "ready: true", "ready: false", 1)
	if err := os.WriteFile(o.Dir.SettingsFile(), []byte(unfinished), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = site.Open(t.Context(), site.Options{Dir: o.Dir, Registry: all.Registry(all.Backends{})})
	if !errors.Is(err, errors.NotFound) {
		t.Errorf("Open of what was restored in part = %v, want not found", err)
	}
	if _, err := site.Restore(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	checkLogins(t, o.Dir)
}

func TestBackupUnderLoadIsOneMoment(t *testing.T) {
	dir := bootstrap(t)
	var files []string
	withState(t, dir, func(c *state.Controller) {
		ctx, stop := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		added := make(chan struct{}, 1)
		wg.Go(func() {
			for n := 0; ctx.Err() == nil; n++ { // a model is three documents in one batch
				name := fmt.Sprintf("m%d", n)
				if _, err := c.Models().Add(t.Context(), state.ModelSpec{Name: name, Owner: "admin", Config: map[string]any{"type": "simulated"}}); err != nil {
					t.Error(err)
					return
				}
				select {
				case added <- struct{}{}:
				default:
				}
			}
		})
		for range 3 {
			<-added
			<-added
			files = append(files, backup(t, dir, true))
		}
		stop()
		wg.Wait()
	})
	for _, file := range files {
		restored := newDir(t)
		if _, err := site.Restore(t.Context(), site.RestoreOptions{Dir: restored, From: file, Passphrase: passphrase}); err != nil {
			t.Fatal(err)
		}
		withState(t, restored, func(c *state.Controller) {
			models, err := c.Models().All(t.Context())
			if err != nil || len(models) < 3 {
				t.Errorf("%d models restored, %v", len(models), err)
			}
			for _, m := range models {
				cfg, err := m.State().ModelConfig().Get(t.Context())
				if err != nil || cfg.Name() != m.Name() {
					t.Errorf("model %s was restored without its configuration: %v", m.Name(), err)
				}
			}
		})
	}
}

func TestBackupAndRestoreRefuseInOneLine(t *testing.T) {
	dir := bootstrap(t)
	registry := all.Registry(all.Backends{})
	file := backup(t, dir, true)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	text[len(text)/2] ^= 1
	damaged := write(t, "damaged", string(text))
	_, url := double(t, mongotest.Config{})
	elsewhere := options(t)
	elsewhere.Store.URL = url
	if err := site.Bootstrap(t.Context(), elsewhere); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "out")
	foreign := t.TempDir()
	if err := os.WriteFile(filepath.Join(foreign, "photo"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	save := func(o site.BackupOptions) func() error {
		o.Registry = registry
		return func() error { return site.Backup(t.Context(), o) }
	}
	load := func(o site.RestoreOptions) func() error {
		return func() error { _, err := site.Restore(t.Context(), o); return err }
	}
	for name, c := range map[string]struct {
		do   func() error
		text string
	}{
		"no directory":           {save(site.BackupOptions{Out: out}), "--data-dir"},
		"no file":                {save(site.BackupOptions{Dir: dir}), "--out"},
		"secrets in the clear":   {save(site.BackupOptions{Dir: dir, Out: out, Secrets: true}), "--passphrase-file"},
		"passphrase for nothing": {save(site.BackupOptions{Dir: dir, Out: out, Passphrase: passphrase}), "--with-secrets"},
		"short passphrase":       {save(site.BackupOptions{Dir: dir, Out: out, Secrets: true, Passphrase: []byte("short")}), "at least 12"},
		"file is there":          {save(site.BackupOptions{Dir: dir, Out: file}), "is there already"},
		"no site":                {save(site.BackupOptions{Dir: newDir(t), Out: out}), "holds no site yet"},
		"state in MongoDB":       {save(site.BackupOptions{Dir: elsewhere.Dir, Out: out}), "mongodump"},
		"restore from nothing":   {load(site.RestoreOptions{Dir: newDir(t)}), "--from"},
		"a missing backup":       {load(site.RestoreOptions{Dir: newDir(t), From: out}), "no such file"},
		"no passphrase":          {load(site.RestoreOptions{Dir: newDir(t), From: file}), "--passphrase-file"},
		"wrong passphrase":       {load(site.RestoreOptions{Dir: newDir(t), From: file, Passphrase: []byte("wrong")}), "not the one"},
		"a damaged backup":       {load(site.RestoreOptions{Dir: newDir(t), From: damaged, Passphrase: passphrase}), "use another"},
		"over a site":            {load(site.RestoreOptions{Dir: dir, From: file, Passphrase: passphrase}), "holds a site already"},
		"over other files":       {load(site.RestoreOptions{Dir: site.Dir(foreign), From: file, Passphrase: passphrase}), "name a new or empty directory"},
	} {
		err := c.do()
		if err == nil || !strings.Contains(err.Error(), c.text) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want one line with %q", name, err, c.text)
		}
	}
	if _, err := os.Stat(out); !os.IsNotExist(err) {
		t.Errorf("a refused backup left its file (%v)", err)
	}
}
