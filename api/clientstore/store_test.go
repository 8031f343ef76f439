package clientstore_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/api/clientstore"
	"github.com/slipway-project/slipway/internal/golden"
)

func site() clientstore.Site {
	return clientstore.Site{
		Name: "slipway",
		Controller: clientstore.Controller{UUID: "c-uuid", APIEndpoints: []string{"127.0.0.1:17070"}, Cloud: "simulated",
			CACert: "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"},
		Account: clientstore.Account{User: "admin", Password: "a secret"},
		Model:   "default",
		Models:  map[string]string{"default": "m-uuid", "controller": "cm-uuid"},
	}
}

func TestTheFilesHaveTheLayoutThatClientsShare(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	s := clientstore.New(dir)
	if err := s.Set(t.Context(), site()); err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, name := range []string{"controllers.yaml", "accounts.yaml", "models.yaml"} {
		path := filepath.Join(dir, name)
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&all, "-- %s --\n%s", name, text)
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %o, want 600", name, info.Mode().Perm())
		}
	}
	golden.Check(t, "store.golden", all.String())
	left, err := filepath.Glob(filepath.Join(dir, ".*-*"))
	if err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestReadReturnsWhatWasSet(t *testing.T) {
	s := clientstore.New(t.TempDir())
	empty, err := s.Read()
	if err != nil || empty.Controllers == nil || empty.Accounts == nil || empty.Models == nil || empty.Current != "" {
		t.Errorf("Read of nothing = %+v, %v, want empty maps", empty, err)
	}
	if err := s.Set(t.Context(), site()); err != nil {
		t.Fatal(err)
	}
	got, err := s.Read()
	if err != nil {
		t.Fatal(err)
	}
	if got.Current != "slipway" || !reflect.DeepEqual(got.Controllers["slipway"], site().Controller) || got.Accounts["slipway"].Password != "a secret" {
		t.Errorf("Read = %+v", got)
	}
	if m := got.Models["slipway"]; m.Current != "admin/default" || m.Models["admin/default"].UUID != "m-uuid" || m.Models["admin/controller"].Type != "iaas" {
		t.Errorf("models = %+v", m)
	}
}

func TestOtherClientsKeysStay(t *testing.T) {
	dir := t.TempDir()
	text := "controllers:\n  ctl:\n    uuid: u\n    api-endpoints: ['10.0.0.1:17070']\n    ca-cert: x\n    cloud: c\n    agent-version: 3.5.0\n"
	if err := os.WriteFile(filepath.Join(dir, "controllers.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s := clientstore.New(dir)
	err := s.Update(t.Context(), func(c *clientstore.Contents) error {
		ctl := c.Controllers["ctl"]
		ctl.APIEndpoints = []string{"10.0.0.2:17070"}
		c.Controllers["ctl"] = ctl
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(dir, "controllers.yaml"))
	if err != nil || !strings.Contains(string(got), "agent-version: 3.5.0") || !strings.Contains(string(got), "10.0.0.2") {
		t.Errorf("file = %s, %v, want the foreign key and the new endpoint", got, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "accounts.yaml")); !os.IsNotExist(err) {
		t.Errorf("a file that did not change was written: %v", err)
	}
}

func TestAFailedChangeWritesNothing(t *testing.T) {
	s := clientstore.New(t.TempDir())
	why := errors.New("no")
	err := s.Update(t.Context(), func(c *clientstore.Contents) error {
		c.Current = "x"
		return why
	})
	if !errors.Is(err, why) {
		t.Errorf("Update = %v, want the change's error", err)
	}
	if got, _ := s.Read(); got.Current != "" {
		t.Errorf("current = %q, want nothing written", got.Current)
	}
}

func TestADamagedFileIsNamed(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "accounts.yaml")
	if err := os.WriteFile(path, []byte("controllers: [hunter2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := clientstore.New(dir).Read()
	if !errors.Is(err, errors.NotValid) || !strings.Contains(err.Error(), path) || strings.ContainsAny(err.Error(), "\n") || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("Read = %v, want one line that names the file and shows nothing of it", err)
	}
}

func TestConcurrentChangesAreAllKept(t *testing.T) {
	dir := t.TempDir()
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			s := clientstore.New(dir) // as another process would
			err := s.Update(t.Context(), func(c *clientstore.Contents) error {
				c.Accounts[fmt.Sprint(i)] = clientstore.Account{User: "u"}
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	got, err := clientstore.New(dir).Read()
	if err != nil || len(got.Accounts) != 20 {
		t.Errorf("%d accounts, %v, want 20", len(got.Accounts), err)
	}
}

func TestTheLockIsNotWaitedForForEver(t *testing.T) {
	s := clientstore.New(t.TempDir())
	err := s.Update(t.Context(), func(*clientstore.Contents) error {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		return clientstore.New(s.Dir()).Update(ctx, func(*clientstore.Contents) error { return nil })
	})
	if err == nil || !strings.Contains(err.Error(), "another command holds the client store") {
		t.Errorf("Update while locked = %v", err)
	}
}

func TestQualifiedModel(t *testing.T) {
	for _, test := range []struct{ owner, name, want string }{
		{"admin", "default", "admin/default"}, {"admin@local", "default", "admin/default"}, {"bob", "admin/x", "admin/x"},
	} {
		if got := clientstore.QualifiedModel(test.owner, test.name); got != test.want {
			t.Errorf("QualifiedModel(%s, %s) = %s, want %s", test.owner, test.name, got, test.want)
		}
	}
}
