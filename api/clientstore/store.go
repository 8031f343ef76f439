// Package clientstore keeps what an operator's commands must remember: which
// controllers there are, as whom to log in to them, and which models they hold.
// It is three YAML files in one folder, in the layout that clients of this
// protocol share.
package clientstore

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"time"

	"github.com/juju/errors"
	"gopkg.in/yaml.v3"

	"github.com/slipway-project/slipway/internal/atomicfile"
	"github.com/slipway-project/slipway/params"
)

// The files, and the lock that whoever changes them holds.
const (
	controllersFile = "controllers.yaml"
	accountsFile    = "accounts.yaml"
	modelsFile      = "models.yaml"
	lockFile        = ".lock"
)

// lockTimeout is how long to wait for another command that writes.
const lockTimeout = 5 * time.Second

// Controller is where a controller is. Extra holds the keys that other clients
// have written, and keeps them.
type Controller struct {
	UUID         string         `yaml:"uuid"`
	APIEndpoints []string       `yaml:"api-endpoints,flow"` // host:port each
	CACert       string         `yaml:"ca-cert"`            // PEM
	Cloud        string         `yaml:"cloud"`
	Extra        map[string]any `yaml:",inline"`
}

// Account is as whom to log in to a controller.
type Account struct {
	User     string         `yaml:"user"`
	Password params.Secret  `yaml:"password,omitempty"`
	Extra    map[string]any `yaml:",inline"`
}

// Model is one model of a controller.
type Model struct {
	UUID  string         `yaml:"uuid"`
	Type  string         `yaml:"type"` // iaas
	Extra map[string]any `yaml:",inline"`
}

// Models are the models of a controller, by owner/name.
type Models struct {
	Models  map[string]Model `yaml:"models"`
	Current string           `yaml:"current-model,omitempty"`
	Extra   map[string]any   `yaml:",inline"`
}

// Contents is all that a store holds. Its maps are by controller name, and never
// nil when they come from a Store.
type Contents struct {
	Controllers map[string]Controller
	Current     string // name of the current controller; empty means none
	Accounts    map[string]Account
	Models      map[string]Models
}

// The files as they are written.
type (
	controllers struct {
		Controllers map[string]Controller `yaml:"controllers"`
		Current     string                `yaml:"current-controller,omitempty"`
	}
	accounts struct {
		Controllers map[string]Account `yaml:"controllers"`
	}
	models struct {
		Controllers map[string]Models `yaml:"controllers"`
	}
)

// Store is a folder with the files. It may be used by several processes.
type Store struct {
	dir string
}

// New returns the store in a folder, which need not exist yet.
func New(dir string) *Store { return &Store{dir: dir} }

// Dir returns the folder.
func (s *Store) Dir() string { return s.dir }

// Read returns what the store holds; files that are missing hold nothing. It
// returns an error satisfying errors.NotValid if a file cannot be understood.
func (s *Store) Read() (Contents, error) {
	var c controllers
	var a accounts
	var m models
	for name, into := range map[string]any{controllersFile: &c, accountsFile: &a, modelsFile: &m} {
		if err := s.readFile(name, into); err != nil {
			return Contents{}, err
		}
	}
	out := Contents{Controllers: c.Controllers, Current: c.Current, Accounts: a.Controllers, Models: m.Controllers}
	if out.Controllers == nil {
		out.Controllers = make(map[string]Controller)
	}
	if out.Accounts == nil {
		out.Accounts = make(map[string]Account)
	}
	if out.Models == nil {
		out.Models = make(map[string]Models)
	}
	return out, nil
}

func (s *Store) readFile(name string, into any) error {
	path := filepath.Join(s.dir, name)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return errors.Annotate(err, "cannot read the client store")
	}
	if err := yaml.Unmarshal(text, into); err != nil {
		// The decoder's messages have several lines, and quote what may be secret.
		return errors.NewNotValid(nil, fmt.Sprintf("%s is not what a client store holds; mend it, or move it away", path))
	}
	return nil
}

// Update has change alter what the store holds, and writes the files that are
// then different. Nobody else writes in between. When change fails, nothing is
// written and its error is returned.
func (s *Store) Update(ctx context.Context, change func(*Contents) error) error {
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return errors.Annotate(err, "cannot make the client store")
	}
	unlock, err := lock(ctx, filepath.Join(s.dir, lockFile))
	if err != nil {
		return err
	}
	defer unlock()
	before, err := s.Read()
	if err != nil {
		return err
	}
	after, err := s.Read() // a copy of its own
	if err != nil {
		return err
	}
	if err := change(&after); err != nil {
		return err
	}
	for _, f := range []struct {
		name     string
		old, new any
	}{
		{accountsFile, accounts{before.Accounts}, accounts{after.Accounts}},
		{modelsFile, models{before.Models}, models{after.Models}},
		{controllersFile, controllers{before.Controllers, before.Current}, controllers{after.Controllers, after.Current}},
	} {
		if reflect.DeepEqual(f.old, f.new) {
			continue
		}
		if err := s.writeFile(f.name, f.new); err != nil {
			return errors.Annotate(err, "cannot write the client store")
		}
	}
	return nil
}

// writeFile writes a file with mode 0600: whole, or not at all.
func (s *Store) writeFile(name string, content any) error {
	var text bytes.Buffer
	e := yaml.NewEncoder(&text)
	e.SetIndent(2)
	if err := e.Encode(content); err != nil {
		return errors.Trace(err)
	}
	return errors.Trace(atomicfile.Write(filepath.Join(s.dir, name), text.Bytes(), 0o600))
}

// lock takes the lock in a file, and returns what gives it back. The kernel
// gives it back when the process ends, however that happens.
func lock(ctx context.Context, path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, errors.Annotate(err, "cannot lock the client store")
	}
	ctx, cancel := context.WithTimeout(ctx, lockTimeout)
	defer cancel()
	retry := time.NewTicker(10 * time.Millisecond)
	defer retry.Stop()
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { _ = f.Close() }, nil // which unlocks it
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			_ = f.Close()
			return nil, errors.Annotate(err, "cannot lock the client store")
		}
		select {
		case <-ctx.Done():
			_ = f.Close()
			return nil, errors.Errorf("another command holds the client store in %s for too long", filepath.Dir(path))
		case <-retry.C:
		}
	}
}

// QualifiedModel returns owner/name; a name that has an owner is left alone.
func QualifiedModel(owner, name string) string {
	if strings.Contains(name, "/") {
		return name
	}
	return strings.TrimSuffix(owner, "@local") + "/" + name
}

// Site is what a controller lays down for its first operator.
type Site struct {
	Name       string // of the controller, as the operator calls it
	Controller Controller
	Account    Account
	Model      string            // the current model, without an owner
	Models     map[string]string // UUID by name, without an owner
}

// Set puts a site into the store and makes it the current controller. What the
// store holds of other controllers stays.
func (s *Store) Set(ctx context.Context, site Site) error {
	return s.Update(ctx, func(c *Contents) error {
		c.Controllers[site.Name] = site.Controller
		c.Accounts[site.Name] = site.Account
		c.Current = site.Name
		known := Models{Models: make(map[string]Model)}
		for name, uuid := range site.Models {
			known.Models[QualifiedModel(site.Account.User, name)] = Model{UUID: uuid, Type: "iaas"}
		}
		if site.Model != "" {
			known.Current = QualifiedModel(site.Account.User, site.Model)
		}
		c.Models[site.Name] = known
		return nil
	})
}
