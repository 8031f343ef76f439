package site

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/environs"
	"github.com/slipway-project/slipway/environs/config"
	"github.com/slipway-project/slipway/internal/archive"
	"github.com/slipway-project/slipway/internal/atomicfile"
	"github.com/slipway-project/slipway/internal/buildinfo"
	"github.com/slipway-project/slipway/state"
	"github.com/slipway-project/slipway/store"
	"github.com/slipway-project/slipway/store/sqlite"
)

// The names of a backup's files, beside those that keep their names.
const (
	settingsName = "controller.yaml"
	storeName    = "store/slipway.db"
)

// stagingAge is how old a folder of a backup's making is before a later one
// removes it: whoever made it was killed.
const stagingAge = 24 * time.Hour

// BackupOptions say what to back up. Backups without secrets can be restored
// too, but then everyone gets new passwords.
type BackupOptions struct {
	Dir      Dir                // required
	Out      string             // the file to write; it must not be there
	Registry *environs.Registry // required; knows which settings are secret

	Secrets    bool   // whether to include password hashes, keys and identities
	Passphrase []byte // required with Secrets, of archive.MinPassphrase bytes
}

// Validate returns an error satisfying errors.NotValid that names what is wrong.
func (o BackupOptions) Validate() error {
	switch {
	case o.Dir == "":
		return errors.NewNotValid(nil, "no data directory named: give --data-dir DIR")
	case o.Out == "":
		return errors.NewNotValid(nil, "no file named: give --out FILE")
	case o.Registry == nil:
		return errors.NotValidf("missing Registry")
	case o.Secrets && o.Passphrase == nil:
		return errors.NewNotValid(nil, "secrets are kept under a passphrase only: give --passphrase-file FILE too")
	case !o.Secrets && o.Passphrase != nil:
		return errors.NewNotValid(nil, "a passphrase protects secrets: give --with-secrets too")
	case o.Passphrase != nil && len(o.Passphrase) < archive.MinPassphrase:
		return errors.NewNotValid(nil, fmt.Sprintf("the passphrase has %d characters: at least %d are needed", len(o.Passphrase), archive.MinPassphrase))
	}
	return nil
}

// Backup writes what a data directory holds at one moment to a file. A
// controller may be serving it meanwhile. It returns an error satisfying
// errors.AlreadyExists if the file is there, and errors.NotSupported for a site
// whose state is elsewhere.
func Backup(ctx context.Context, o BackupOptions) error {
	if err := o.Validate(); err != nil {
		return errors.Trace(err)
	}
	settings, err := o.Dir.readDir()
	if err != nil {
		return errors.Trace(err)
	}
	if !settings.Store.Embedded() {
		return errors.NewNotSupported(nil, "the state is in MongoDB: back it up there, with mongodump, and copy the data directory; or have \"controllerd migrate\" copy it into a new embedded store")
	}
	if _, err := os.Lstat(o.Out); err == nil {
		return errors.NewAlreadyExists(nil, fmt.Sprintf("%s is there already: name another file", o.Out))
	}
	return errors.Annotate(o.write(ctx, settings, nil), "cannot back up")
}

// write writes the archive, of the embedded store or of another one that nobody
// writes to. What it needs meanwhile is in the data directory, which is private
// and has room for a copy.
func (o BackupOptions) write(ctx context.Context, settings Settings, other store.Store) error {
	staging, err := o.Dir.staging()
	if err != nil {
		return errors.Trace(err)
	}
	defer os.RemoveAll(staging)
	var edit sqlite.Edit
	if !o.Secrets {
		edit = o.redact
	}
	copied := filepath.Join(staging, "copy")
	m := archive.Manifest{
		Version: buildinfo.Version, Created: time.Now().UTC().Truncate(time.Second),
		ControllerUUID: settings.ControllerUUID, Name: settings.Name, Secrets: o.Secrets,
	}
	from := o.Dir.Store()
	if other != nil {
		from = filepath.Join(staging, "store")
		if err := embed(ctx, other, from); err != nil {
			return errors.Trace(err)
		}
	}
	if err := sqlite.Snapshot(ctx, from, copied, edit); err != nil {
		return errors.Trace(err)
	}
	files := []archive.Source{{Name: settingsName, Path: o.Dir.SettingsFile()}, {Name: storeName, Path: copied}}
	if o.Secrets {
		more, err := o.Dir.identities()
		if err != nil {
			return errors.Trace(err)
		}
		files = append(files, more...)
	}
	return errors.Trace(atomicfile.CreateFunc(o.Out, 0o600, func(w io.Writer) error {
		return archive.Write(w, m, o.Passphrase, staging, files)
	}))
}

// redact takes the secrets out of a document.
func (o BackupOptions) redact(key store.Key, data []byte) ([]byte, error) {
	return state.Redact(key, data, func(provider, setting string) bool {
		if f, ok := config.Fields().Field(setting); ok {
			return f.Secret
		}
		schema, err := schemaOf(o.Registry, provider)
		f, ok := schema.Field(setting)
		return err != nil || !ok || f.Secret // what nobody knows may be one
	})
}

// staging makes a folder for what is needed for a while.
func (d Dir) staging() (string, error) {
	left, err := filepath.Glob(d.join(".backup-*"))
	if err != nil {
		return "", errors.Trace(err)
	}
	for _, path := range left {
		if info, err := os.Stat(path); err == nil && time.Since(info.ModTime()) > stagingAge {
			if err := os.RemoveAll(path); err != nil {
				logger.Warningf("cannot remove what an earlier backup left: %v", err)
			}
		}
	}
	path, err := os.MkdirTemp(string(d), ".backup-*") // with mode 0700
	return path, errors.Trace(err)
}

// identities returns the files by which the controller, its first user and its
// workers are known: keys with their certificates, agent files, client files.
// Server certificates are made anew where they are missing.
func (d Dir) identities() ([]archive.Source, error) {
	var files []archive.Source
	for _, pattern := range []string{"*.pem", "*.key", "agents/*.yaml", "client/*.yaml"} {
		found, err := filepath.Glob(d.join(pattern))
		if err != nil {
			return nil, errors.Trace(err)
		}
		for _, path := range found {
			name, err := filepath.Rel(string(d), path)
			if err != nil {
				return nil, errors.Trace(err)
			}
			if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && !strings.HasPrefix(name, "server") {
				files = append(files, archive.Source{Name: filepath.ToSlash(name), Path: path})
			}
		}
	}
	return files, nil
}
