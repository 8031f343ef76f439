package site

import (
	"context"
	"path/filepath"

	"github.com/juju/errors"
	"github.com/juju/loggo"

	"github.com/slipway-project/slipway/state"
	"github.com/slipway-project/slipway/store"
	"github.com/slipway-project/slipway/store/mongo"
	"github.com/slipway-project/slipway/store/sqlite"
)

var logger = loggo.GetLogger("slipway.site")

// StoreSettings say where a site's state is kept. They hold no secrets, but the
// names of the files that do.
type StoreSettings struct {
	URL             string `yaml:"url,omitempty"` // of a MongoDB replica set; empty means the embedded store
	CAFile          string `yaml:"ca-file,omitempty"`
	CertificateFile string `yaml:"certificate-file,omitempty"`
	CredentialsFile string `yaml:"credentials-file,omitempty"`
}

// Embedded reports whether the state is in the data directory.
func (s StoreSettings) Embedded() bool { return s.URL == "" }

// config returns what opens the store in MongoDB.
func (s StoreSettings) config() mongo.Config {
	return mongo.Config{
		URL: s.URL, Collections: state.Collections(),
		CAFile: s.CAFile, CertificateFile: s.CertificateFile, CredentialsFile: s.CredentialsFile,
	}
}

// Validate returns an error satisfying errors.NotValid for a bad URL, and for
// files that are named without one.
func (s StoreSettings) Validate() error {
	if !s.Embedded() {
		return errors.Trace(s.config().Validate())
	}
	if s != (StoreSettings{}) {
		return errors.NewNotValid(nil, "files for a store are named, but no store: give --store mongodb://HOST/DATABASE?replicaSet=NAME too")
	}
	return nil
}

// absolute returns the settings with file names that do not depend on the
// working directory.
func (s StoreSettings) absolute() (StoreSettings, error) {
	for _, name := range []*string{&s.CAFile, &s.CertificateFile, &s.CredentialsFile} {
		if *name == "" {
			continue
		}
		var err error
		if *name, err = filepath.Abs(*name); err != nil {
			return s, errors.Trace(err)
		}
	}
	return s, nil
}

// openStore opens the store of a data directory, or the one elsewhere that its
// settings name.
func openStore(ctx context.Context, d Dir, where StoreSettings) (store.Store, error) {
	if !where.Embedded() {
		s, err := mongo.Open(ctx, where.config())
		if err != nil {
			return nil, errors.Annotate(err, "cannot open the store")
		}
		return s, nil
	}
	s, err := sqlite.Open(ctx, sqlite.Config{Dir: d.Store(), Collections: state.Collections()})
	if err != nil {
		return nil, errors.Trace(err)
	}
	return s, nil
}
