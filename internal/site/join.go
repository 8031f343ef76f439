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

	"github.com/slipway-project/slipway/internal/archive"
	"github.com/slipway-project/slipway/internal/atomicfile"
	"github.com/slipway-project/slipway/internal/buildinfo"
	"github.com/slipway-project/slipway/state"
)

// ExportOptions say where to write what a further controller needs.
type ExportOptions struct {
	Dir        Dir    // of a controller whose state is in MongoDB; required
	Out        string // the file to write; it must not be there
	Passphrase []byte // required, of archive.MinPassphrase bytes
}

// Validate returns an error satisfying errors.NotValid that names what is wrong.
func (o ExportOptions) Validate() error {
	switch {
	case o.Dir == "":
		return errors.NewNotValid(nil, "no data directory named: give --data-dir DIR")
	case o.Out == "":
		return errors.NewNotValid(nil, "no file named: give --out FILE")
	}
	return checkPassphrase(o.Passphrase)
}

// checkPassphrase returns an error satisfying errors.NotValid for a passphrase
// that is missing or too short.
func checkPassphrase(p []byte) error {
	if p == nil {
		return errors.NewNotValid(nil, "no passphrase named: give --passphrase-file FILE")
	}
	if len(p) < archive.MinPassphrase {
		return errors.NewNotValid(nil, fmt.Sprintf("the passphrase has %d characters: at least %d are needed", len(p), archive.MinPassphrase))
	}
	return nil
}

// ExportJoin writes what a further controller of the site needs and the store
// must not have: the authority's key, and every other key that controllers
// share. It returns an error satisfying errors.NotSupported for a site on an
// embedded store.
func ExportJoin(o ExportOptions) error {
	if err := o.Validate(); err != nil {
		return errors.Trace(err)
	}
	settings, err := o.Dir.readDir()
	if err != nil {
		return errors.Trace(err)
	}
	if settings.Store.Embedded() {
		return errors.NewNotSupported(nil, "the state is in the embedded store, which one controller uses alone: move it to MongoDB first, with \"controllerd migrate\"")
	}
	if _, err := os.Lstat(o.Out); err == nil {
		return errors.NewAlreadyExists(nil, fmt.Sprintf("%s is there already: name another file", o.Out))
	}
	return errors.Annotate(o.write(settings), "cannot export")
}

func (o ExportOptions) write(settings Settings) error {
	staging, err := o.Dir.staging()
	if err != nil {
		return errors.Trace(err)
	}
	defer os.RemoveAll(staging)
	files := []archive.Source{{Name: settingsName, Path: o.Dir.SettingsFile()}}
	all, err := o.Dir.identities()
	if err != nil {
		return errors.Trace(err)
	}
	for _, f := range all {
		if !strings.Contains(f.Name, "/") { // users' and workers' own files stay
			files = append(files, f)
		}
	}
	m := archive.Manifest{
		Kind: archive.Join, Version: buildinfo.Version, Created: time.Now().UTC().Truncate(time.Second),
		ControllerUUID: settings.ControllerUUID, Name: settings.Name, Secrets: true,
	}
	return errors.Trace(atomicfile.CreateFunc(o.Out, 0o600, func(w io.Writer) error {
		return archive.Write(w, m, o.Passphrase, staging, files)
	}))
}

// JoinOptions say how to prepare a further controller of a site.
type JoinOptions struct {
	Dir        Dir           // new or empty; required
	Store      StoreSettings // where the site's state is; required
	From       string        // what ExportJoin wrote; required
	Passphrase []byte        // required
	Listen     string        // host:port; required
	Advertise  []string      // host or host:port; where others reach the server, beside Listen
}

// Validate returns an error satisfying errors.NotValid that names what is wrong.
func (o JoinOptions) Validate() error {
	switch {
	case o.Dir == "":
		return errors.NewNotValid(nil, "no data directory named: give --data-dir DIR")
	case o.From == "":
		return errors.NewNotValid(nil, "no join file named: write one with \"controllerd export-join\" and give --join-file FILE")
	case o.Store.Embedded():
		return errors.NewNotValid(nil, "no store named: give --store mongodb://HOST/DATABASE?replicaSet=NAME, as the other controllers use it")
	case o.Passphrase == nil:
		return errors.NewNotValid(nil, "no passphrase named: give --passphrase-file FILE")
	}
	if err := o.Store.Validate(); err != nil {
		return errors.Trace(err)
	}
	if _, _, err := splitListen(o.Listen); err != nil {
		return errors.Trace(err)
	}
	for _, a := range o.Advertise {
		if _, err := advertised(a, 1); err != nil {
			return errors.Trace(err)
		}
	}
	return nil
}

// Join prepares a data directory for a further controller of a site. What is
// interrupted is begun anew the next time.
func Join(ctx context.Context, o JoinOptions) error {
	if err := o.Validate(); err != nil {
		return errors.Trace(err)
	}
	var err error
	if o.Store, err = o.Store.absolute(); err != nil {
		return errors.Trace(err)
	}
	r, err := archive.Open(o.From, archive.Join, o.Passphrase)
	if err != nil {
		return errors.Trace(err)
	}
	db, err := openStore(ctx, o.Dir, o.Store)
	if err != nil {
		return errors.Trace(err)
	}
	defer db.Close()
	c, err := state.Open(ctx, db, state.Options{})
	switch {
	case errors.Is(err, errors.NotFound):
		return errors.NewNotFound(nil, fmt.Sprintf("the database at %s holds no site: name the one that the other controllers use", o.Store.URL))
	case err != nil:
		return errors.Trace(err)
	}
	defer c.Close()
	if c.ControllerUUID() != r.ControllerUUID {
		return errors.NewNotValid(nil, fmt.Sprintf("the database at %s holds another site (%s) than the join file is of (%s, %s)", o.Store.URL, c.ControllerUUID(), r.Name, r.ControllerUUID))
	}
	release, err := o.Dir.claim()
	if err != nil {
		return errors.Trace(err)
	}
	defer release()
	return errors.Annotatef(o.join(ctx, c, r), "cannot prepare %s", o.Dir)
}

func (o JoinOptions) join(ctx context.Context, c *state.Controller, r *archive.Reader) error {
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
	first, err := readSettings(filepath.Join(staging, settingsName))
	if err != nil {
		return errors.Trace(err)
	}
	if err := o.Dir.takeIdentities(r, staging); err != nil {
		return errors.Trace(err)
	}
	settings := Settings{
		Name: r.Name, ControllerUUID: r.ControllerUUID, Provider: first.Provider,
		Listen: o.Listen, Advertise: o.Advertise, Store: o.Store, Ready: true,
	}
	if settings.ServerID, err = c.NewServerID(ctx); err != nil {
		return errors.Trace(err)
	}
	return errors.Trace(o.Dir.save(settings))
}
