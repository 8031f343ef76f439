package site

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/juju/errors"
	"gopkg.in/yaml.v3"

	"github.com/slipway-project/slipway/internal/atomicfile"
	"github.com/slipway-project/slipway/state"
)

// Dir is a data directory, by its path.
type Dir string

// formatNow is the layout of data directories that this version writes.
const formatNow = 1

// Settings are what a data directory was prepared with.
type Settings struct {
	Format         int      `yaml:"format"`
	Ready          bool     `yaml:"ready"` // false while the directory is being prepared
	Name           string   `yaml:"name"`  // of the controller, as operators call it
	ControllerUUID string   `yaml:"controller-uuid"`
	Listen         string   `yaml:"listen"`              // host:port; port 0 means any
	Advertise      []string `yaml:"advertise,omitempty"` // host or host:port; where others reach the server
	Provider       string   `yaml:"provider"`            // of the first models

	Store    StoreSettings `yaml:"store,omitempty"`     // where the state is
	ServerID string        `yaml:"server-id,omitempty"` // of a controller that has joined; empty means the first one's
}

// serverID returns the id under which the controller publishes its addresses.
func (s Settings) serverID() string {
	if s.ServerID == "" {
		return state.FirstServer
	}
	return s.ServerID
}

// sharedID returns the id under which the controller tells others what they share,
// or "" if there can be no others.
func (s Settings) sharedID() string {
	if s.Store.Embedded() {
		return ""
	}
	return s.serverID()
}

func (d Dir) join(name string) string { return filepath.Join(string(d), name) }

// SettingsFile returns the path of the settings.
func (d Dir) SettingsFile() string { return d.join("controller.yaml") }

// Store returns the folder of the embedded store.
func (d Dir) Store() string { return d.join("store") }

// CAFile returns the path of the authority's certificate.
func (d Dir) CAFile() string { return d.join("ca.pem") }

// Client returns the folder of the operator's client files.
func (d Dir) Client() string { return d.join("client") }

// AgentFile returns the path of the first worker's identity.
func (d Dir) AgentFile() string { return d.join("agents/machine-0.yaml") }

// Logs returns the folder of the models' logs.
func (d Dir) Logs() string { return d.join("logs") }

// HostKeys returns the path of the keys that seal the credentials of hosts.
func (d Dir) HostKeys() string { return d.join("hosts.key") }

// Rack returns the folder of the simulated rack.
func (d Dir) Rack() string { return d.join("rack") }

// Metal returns the folder of the disks of simulated hosts.
func (d Dir) Metal() string { return d.join("metal") }

// claim makes the directory if it is missing, and checks that it is empty, or
// that its preparation was begun and never finished: then it is emptied. It
// returns an error satisfying errors.AlreadyExists if a site is there, and
// errors.NotValid if the directory is somebody else's, and ErrInUse if another
// process is preparing it. What it returns is to be called when the directory is
// prepared, or is not going to be.
func (d Dir) claim() (release func(), err error) {
	if err := os.MkdirAll(string(d), 0o700); err != nil {
		return nil, errors.Annotatef(err, "cannot make data directory %s", d)
	}
	unlock, err := d.lock()
	if err != nil {
		return nil, errors.Trace(err)
	}
	if err := d.empty(); err != nil {
		unlock()
		return nil, errors.Trace(err)
	}
	return unlock, nil
}

// empty makes the folders of a directory that is locked, and removes what a
// preparation that was not finished has left in it.
func (d Dir) empty() error {
	entries, err := os.ReadDir(string(d))
	if err != nil {
		return errors.Annotatef(err, "cannot read data directory %s", d)
	}
	if len(entries) > 0 {
		s, err := d.settings()
		switch {
		case err != nil:
			return errors.Trace(err)
		case s.Ready:
			return errors.NewAlreadyExists(nil, fmt.Sprintf("data directory %s holds a site already: serve it with \"controllerd run --data-dir %s\"", d, d))
		}
		logger.Warningf("an earlier preparation of %s was not finished: beginning anew", d)
		for _, e := range entries {
			if err := os.RemoveAll(d.join(e.Name())); err != nil {
				return errors.Annotatef(err, "cannot empty data directory %s", d)
			}
		}
	}
	if err := os.Chmod(string(d), 0o700); err != nil {
		return errors.Annotatef(err, "cannot make data directory %s private", d)
	}
	for _, sub := range []string{d.Store(), d.Client(), filepath.Dir(d.AgentFile())} {
		if err := os.Mkdir(sub, 0o700); err != nil {
			return errors.Annotatef(err, "cannot use data directory %s", d)
		}
	}
	return nil
}

// settings reads what the directory was prepared with. It returns an error
// satisfying errors.NotFound if there is no directory or it is empty, and
// errors.NotValid if it is not a site's, or a newer version's.
func (d Dir) settings() (Settings, error) {
	var s Settings
	text, err := os.ReadFile(d.SettingsFile())
	if errors.Is(err, fs.ErrNotExist) {
		entries, rerr := os.ReadDir(string(d))
		if rerr != nil || len(entries) == 0 {
			return s, errors.NewNotFound(nil, fmt.Sprintf("data directory %s holds no site yet: prepare it with \"controllerd bootstrap --data-dir %s --listen ADDR\"", d, d))
		}
		return s, errors.NewNotValid(nil, fmt.Sprintf("data directory %s holds other files and no site: name a new or empty directory", d))
	}
	if err != nil {
		return s, errors.Annotatef(err, "cannot read data directory %s", d)
	}
	if err := yaml.NewDecoder(bytes.NewReader(text)).Decode(&s); err != nil || s.Format == 0 {
		return s, errors.NewNotValid(nil, fmt.Sprintf("%s is damaged, or is not of a controller: restore it from a backup", d.SettingsFile()))
	}
	if s.Format > formatNow {
		return s, errors.NewNotValid(nil, fmt.Sprintf("data directory %s was written by a newer version (format %d, this one knows %d): use that version", d, s.Format, formatNow))
	}
	return s, nil
}

// save writes the settings: whole, or not at all.
func (d Dir) save(s Settings) error {
	s.Format = formatNow
	text, err := yaml.Marshal(s)
	if err != nil {
		return errors.Trace(err)
	}
	return errors.Annotate(atomicfile.Write(d.SettingsFile(), text, 0o600), "cannot write the controller's settings")
}
