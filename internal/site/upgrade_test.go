package site_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slipway-project/slipway/core/life"
	"github.com/slipway-project/slipway/environs/all"
	"github.com/slipway-project/slipway/internal/archive"
	"github.com/slipway-project/slipway/internal/site"
	"github.com/slipway-project/slipway/state"
	"github.com/slipway-project/slipway/store/mongo/mongotest"
	"github.com/slipway-project/slipway/store/sqlite"
)

// format1 is a backup without secrets of a site of format 1: machines 0 and 1 in
// model default, both in group web, and where its server was.
const format1 = "testdata/format-1.backup"

// oldSite returns the directory of a site whose store has format 1.
func oldSite(t *testing.T) site.Dir {
	t.Helper()
	dir := bootstrap(t)
	r, err := archive.Open(format1, archive.Backup, nil)
	if err != nil {
		t.Fatal(err)
	}
	unpacked := t.TempDir()
	if err := r.Extract(unpacked); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(dir.Store()); err != nil {
		t.Fatal(err)
	}
	if err := sqlite.Install(t.Context(), dir.Store(), filepath.Join(unpacked, "store", "slipway.db")); err != nil {
		t.Fatal(err)
	}
	return dir
}

// checkFormat1 checks that everything of the site of format 1 is there.
func checkFormat1(t *testing.T, dir site.Dir) {
	t.Helper()
	withState(t, dir, func(c *state.Controller) {
		models, err := c.Models().All(t.Context())
		if err != nil || len(models) != 2 {
			t.Fatalf("%d models, %v, want 2", len(models), err)
		}
		for _, m := range models {
			if m.Name() != "default" {
				continue
			}
			machines, err := m.State().Machines().All(t.Context())
			if err != nil || len(machines) != 2 || machines[1].Life() != life.Alive {
				t.Errorf("machines are %v, %v, want two that are alive", machines, err)
			}
		}
		if servers, err := c.APIHostPorts(t.Context()); err != nil || len(servers) != 1 || len(servers[0]) == 0 {
			t.Errorf("API servers are %v, %v, want one", servers, err)
		}
	})
}

func TestAStoreOfFormat1IsBackedUpAndUpgraded(t *testing.T) {
	dir := oldSite(t)
	end(t, serve(t, dir))
	checkFormat1(t, dir)
	made, err := filepath.Glob(dir.Backups() + "/format-1-*.backup")
	if err != nil || len(made) != 1 {
		t.Fatalf("backups are %v, %v, want one", made, err)
	}
	if info, err := os.Stat(made[0]); err != nil || info.Mode() != 0o600 {
		t.Errorf("the backup has mode %v, %v, want 0600", info.Mode(), err)
	}
	end(t, serve(t, dir))
	if again, _ := filepath.Glob(dir.Backups() + "/*"); len(again) != 1 {
		t.Errorf("a store that is up to date was backed up too: %v", again)
	}
	restored := newDir(t)
	if _, err := site.Restore(t.Context(), site.RestoreOptions{Dir: restored, From: made[0]}); err != nil {
		t.Fatal(err)
	}
	end(t, serve(t, restored))
	checkFormat1(t, restored)
}

func TestStateInMongoDBIsBackedUpAndUpgraded(t *testing.T) {
	_, url := double(t, mongotest.Config{})
	dir := oldSite(t)
	if _, err := site.Migrate(t.Context(), site.MigrateOptions{From: string(dir), To: url, Say: func(string) {}}); err != nil {
		t.Fatal(err)
	}
	end(t, serve(t, dir))
	made, err := filepath.Glob(dir.Backups() + "/format-1-*.backup")
	if err != nil || len(made) != 1 {
		t.Fatalf("backups are %v, %v, want one", made, err)
	}
	restored := newDir(t) // on an embedded store
	if _, err := site.Restore(t.Context(), site.RestoreOptions{Dir: restored, From: made[0]}); err != nil {
		t.Fatal(err)
	}
	end(t, serve(t, restored))
	checkFormat1(t, restored)
}

func TestABackupOfFormat1IsRestored(t *testing.T) {
	restored := newDir(t)
	if _, err := site.Restore(t.Context(), site.RestoreOptions{Dir: restored, From: format1}); err != nil {
		t.Fatal(err)
	}
	checkFormat1(t, restored)
	checkLogins(t, restored)
}

func TestNoUpgradeWithoutABackup(t *testing.T) {
	dir := oldSite(t)
	if err := os.WriteFile(dir.Backups(), nil, 0o600); err != nil { // no folder can be made there
		t.Fatal(err)
	}
	_, err := site.Open(t.Context(), site.Options{Dir: dir, Registry: all.Registry(all.Backends{})})
	if err == nil || !strings.Contains(err.Error(), "cannot back up before an upgrade") {
		t.Errorf("Open = %v, want that there is no backup", err)
	}
	db, err := sqlite.Open(t.Context(), sqlite.Config{Dir: dir.Store(), Collections: state.Collections()})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if found, _, err := state.FormatOf(t.Context(), db); found != 1 || err != nil {
		t.Errorf("the format is %d, %v, want 1 still", found, err)
	}
}
