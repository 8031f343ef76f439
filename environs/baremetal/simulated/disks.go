package simulated

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/environs/baremetal/bmc"
	"github.com/slipway-project/slipway/internal/atomicfile"
)

// kept is what outlives a rack with a folder of one machine: what is on its disk, and
// whether it is on. It holds a secret, so its file is its owner's alone.
type kept struct {
	Address  string `json:"address"` // of the BMC
	Power    bool   `json:"power"`
	Image    string `json:"image"`
	UserData string `json:"user-data,omitempty"` // secret
}

const keptSuffix = ".machine.json"

// Open returns a rack whose machines are kept in a folder, which is made if it is missing:
// those that were on when the rack before it ended, however it did, run their images again.
// Only one process may have a folder open. It returns an error satisfying errors.NotValid
// if what is in the folder cannot be read.
func Open(dir string, o Options) (*Rack, error) {
	r := New(o)
	if err := r.load(dir); err != nil {
		r.Close()
		return nil, errors.Annotate(err, "cannot open the rack of simulated hosts")
	}
	return r, nil
}

// load reads the folder, and switches on what was on.
func (r *Rack) load(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return errors.Trace(err)
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		return errors.Trace(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, f := range files {
		if !strings.HasSuffix(f.Name(), keptSuffix) {
			continue
		}
		path := filepath.Join(dir, f.Name())
		text, err := os.ReadFile(path)
		if err != nil {
			return errors.Trace(err)
		}
		var k kept
		if json.Unmarshal(text, &k) != nil { // its error may quote it
			return errors.NotValidf("%s is damaged (remove it, and its host has an empty disk), so the file", path)
		}
		address, err := bmc.Parse(k.Address)
		if err != nil {
			return errors.NotValidf("%s has no address of a BMC, so the file", path)
		}
		m := r.at(address.Key())
		m.power, m.image, m.userData = k.Power, k.Image, k.UserData
		r.boot(address, m)
	}
	r.dir = dir // from now on
	return nil
}

// keep writes what outlives the rack of a machine, if anything does. The caller holds mu.
func (r *Rack) keep(address bmc.Address, m *machine) {
	if r.dir == "" || r.closed {
		return
	}
	name := sha256.Sum256([]byte(address.Key()))
	path := filepath.Join(r.dir, hex.EncodeToString(name[:16])+keptSuffix)
	if !m.power && m.image == "" { // as a new one
		if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
			logger.Errorf("%s will not be found empty at the next start: %v", address, err)
		}
		return
	}
	text, err := json.Marshal(kept{address.String(), m.power, m.image, m.userData})
	if err == nil {
		err = atomicfile.Write(path, text, 0o600)
	}
	if err != nil {
		logger.Errorf("%s will not be found as it is at the next start: %v", address, err)
	}
}
