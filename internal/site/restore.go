package site

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/juju/errors"
	"gopkg.in/yaml.v3"

	"github.com/slipway-project/slipway/api/agentfile"
	"github.com/slipway-project/slipway/api/clientstore"
	"github.com/slipway-project/slipway/core/access"
	"github.com/slipway-project/slipway/internal/archive"
	"github.com/slipway-project/slipway/internal/tlsfiles"
	"github.com/slipway-project/slipway/params"
	"github.com/slipway-project/slipway/state"
	"github.com/slipway-project/slipway/store/sqlite"
)

// RestoreOptions say what to restore, and where.
type RestoreOptions struct {
	Dir        Dir    // required; new or empty
	From       string // the backup; required
	Passphrase []byte // for a backup with secrets
}

// Validate returns an error satisfying errors.NotValid that names what is wrong.
func (o RestoreOptions) Validate() error {
	switch {
	case o.Dir == "":
		return errors.NewNotValid(nil, "no data directory named: give --data-dir DIR")
	case o.From == "":
		return errors.NewNotValid(nil, "no backup named: give --from FILE")
	}
	return nil
}

// Restore makes a data directory of a backup, and returns what the backup is
// of. The store gets an identity of its own. If the backup has no secrets, the
// site gets a new authority, and its first user and first worker new passwords;
// all others who log in have to get new ones too.
//
// A backup that is damaged, newer or of another passphrase is refused before
// anything is written. What is interrupted is begun anew the next time.
func Restore(ctx context.Context, o RestoreOptions) (archive.Manifest, error) {
	if err := o.Validate(); err != nil {
		return archive.Manifest{}, errors.Trace(err)
	}
	r, err := archive.Open(o.From, archive.Backup, o.Passphrase)
	if err != nil {
		return archive.Manifest{}, errors.Trace(err)
	}
	release, err := o.Dir.claim()
	if err != nil {
		return r.Manifest, errors.Trace(err)
	}
	defer release()
	return r.Manifest, errors.Annotatef(o.restore(ctx, r), "cannot restore into %s", o.Dir)
}

func (o RestoreOptions) restore(ctx context.Context, r *archive.Reader) error {
	if err := o.Dir.save(Settings{Name: r.Name, ControllerUUID: r.ControllerUUID}); err != nil { // not ready
		return errors.Trace(err)
	}
	staging, err := o.Dir.staging()
	if err != nil {
		return errors.Trace(err)
	}
	defer os.RemoveAll(staging)
	if err := r.Extract(staging); err != nil {
		return errors.Trace(err)
	}
	settings, err := readSettings(filepath.Join(staging, settingsName))
	if err != nil {
		return errors.Trace(err)
	}
	if err := sqlite.Install(ctx, o.Dir.Store(), filepath.Join(staging, filepath.FromSlash(storeName))); err != nil {
		return errors.Trace(err)
	}
	if r.Secrets {
		err = o.Dir.takeIdentities(r, staging)
	} else {
		err = o.newIdentities(ctx, settings)
	}
	if err != nil {
		return errors.Trace(err)
	}
	settings.Ready, settings.Store = true, StoreSettings{} // a backup of MongoDB becomes an embedded store
	return errors.Trace(o.Dir.save(settings))
}

// readSettings reads the settings that a backup has.
func readSettings(path string) (Settings, error) {
	var s Settings
	text, err := os.ReadFile(path)
	if err != nil {
		return s, errors.Trace(err)
	}
	if err := yaml.NewDecoder(bytes.NewReader(text)).Decode(&s); err != nil {
		return s, errors.Annotate(err, "cannot read the backup's settings")
	}
	if s.Format > formatNow {
		return s, errors.Errorf("the backup is of a data directory of a newer version (format %d, this one knows %d): use that version", s.Format, formatNow)
	}
	return s, nil
}

// takeIdentities moves the files that are secret to where they belong.
func (d Dir) takeIdentities(r *archive.Reader, staging string) error {
	for _, f := range r.Files {
		if f.Name == settingsName || f.Name == storeName {
			continue
		}
		to := d.join(filepath.FromSlash(f.Name))
		if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
			return errors.Trace(err)
		}
		if err := os.Rename(filepath.Join(staging, filepath.FromSlash(f.Name)), to); err != nil {
			return errors.Trace(err)
		}
	}
	return nil
}

// newIdentities gives the site an authority, and its first user and first
// worker new passwords.
func (o RestoreOptions) newIdentities(ctx context.Context, settings Settings) error {
	certs, err := tlsfiles.Open(string(o.Dir), hosts(settings))
	if err != nil {
		return errors.Trace(err)
	}
	db, err := openStore(ctx, o.Dir, StoreSettings{})
	if err != nil {
		return errors.Trace(err)
	}
	defer db.Close()
	if err := state.Upgrade(ctx, db); err != nil { // the backup stays what it is
		return errors.Trace(err)
	}
	c, err := state.Open(ctx, db, state.Options{})
	if err != nil {
		return errors.Trace(err)
	}
	defer c.Close()
	addresses := endpoints(settings.Listen, settings.Advertise, 0)
	if err := o.newWorker(ctx, c, agentfile.File{APIAddresses: addresses, CACert: certs.AuthorityPEM()}); err != nil {
		return errors.Trace(err)
	}
	user, password, err := newAdmin(ctx, c)
	if err != nil {
		return errors.Trace(err)
	}
	models, err := modelUUIDs(ctx, c)
	if err != nil {
		return errors.Trace(err)
	}
	current := state.DefaultModelName
	if models[current] == "" {
		current = "" // it was destroyed
	}
	return errors.Trace(clientstore.New(o.Dir.Client()).Set(ctx, clientstore.Site{
		Name:       settings.Name,
		Controller: clientstore.Controller{UUID: c.ControllerUUID(), APIEndpoints: addresses, CACert: certs.AuthorityPEM(), Cloud: settings.Provider},
		Account:    clientstore.Account{User: user, Password: params.Secret(password)},
		Model:      current,
		Models:     models,
	}))
}

// newWorker gives the site's first worker a new password, and writes its agent
// file: f, with what is missing in it.
func (o RestoreOptions) newWorker(ctx context.Context, c *state.Controller, f agentfile.File) error {
	st, err := c.State(ctx, c.ControllerModelUUID())
	if err != nil {
		return errors.Trace(err)
	}
	machine, err := st.Machines().Get(ctx, "0")
	if err != nil {
		return errors.Trace(err)
	}
	f.Tag, f.ModelUUID, f.Nonce, f.Password = "machine-0", c.ControllerModelUUID(), machine.Nonce(), newPassword()
	if err := machine.SetPassword(ctx, f.Password); err != nil {
		return errors.Trace(err)
	}
	return errors.Trace(agentfile.Write(o.Dir.AgentFile(), f))
}

// newAdmin gives a superuser a new password: the first user if it is one still.
func newAdmin(ctx context.Context, c *state.Controller) (name, password string, err error) {
	users, err := c.Users().All(ctx)
	if err != nil {
		return "", "", errors.Trace(err)
	}
	var chosen *state.User
	for _, u := range users {
		if u.IsDisabled() || u.Access() != access.Superuser {
			continue
		}
		if chosen == nil || u.Name() == admin {
			chosen = u
		}
	}
	if chosen == nil {
		return "", "", errors.NewNotValid(nil, fmt.Sprintf("controller %s has no superuser who may log in", c.ControllerUUID()))
	}
	password = newPassword()
	return chosen.Name(), password, errors.Trace(chosen.SetPassword(ctx, password))
}
