package tlsfiles

import (
	"bytes"
	"encoding/pem"
	"os"
	"path/filepath"
	"time"

	"github.com/juju/errors"
	"gopkg.in/yaml.v3"

	"github.com/slipway-project/slipway/internal/atomicfile"
)

// The files that are there while the authority is being replaced.
const (
	nextFile     = "ca-next.pem"
	nextKeyFile  = "ca-next-key.pem"
	rotationFile = "ca-rotation.yaml" // written last, and removed first: it says that the others count
)

// Rotation is the replacement of an authority by another one. Until its end both
// are to be trusted, and the old one signs.
type Rotation struct {
	Began time.Time `yaml:"began"`
	Ends  time.Time `yaml:"ends"` // from then on the new one signs, and alone is trusted
}

// Rotate begins to replace the authority in the folder at path by a new one, and
// returns when that will be done. It returns an error satisfying
// errors.AlreadyExists if one is being replaced already, and errors.NotFound if
// there is none.
func Rotate(path string, overlap time.Duration, now time.Time) (Rotation, error) {
	r := Rotation{Began: now.UTC().Truncate(time.Second), Ends: now.Add(overlap).UTC().Truncate(time.Second)}
	d := &Dir{path: path, now: func() time.Time { return now }}
	if _, err := d.read(AuthorityFile, authorityKeyFile); os.IsNotExist(err) {
		return r, errors.NotFoundf("certificate authority in %s", path)
	} else if err != nil {
		return r, errors.Annotate(err, "cannot read the certificate authority")
	}
	if err := d.load(); err != nil {
		return r, errors.Trace(err)
	}
	if d.rotation != nil {
		return *d.rotation, errors.AlreadyExistsf("replacement of the certificate authority, which ends at %s,", d.rotation.Ends.Format(time.RFC3339))
	}
	next, err := NewAuthority("slipway", now)
	if err != nil {
		return r, errors.Trace(err)
	}
	if err := d.write(next, nextFile, nextKeyFile); err != nil {
		return r, errors.Trace(err)
	}
	if err := d.writeRotation(r); err != nil {
		return r, errors.Trace(err)
	}
	return r, d.load() // brings the file that clients are given up to date
}

// Finish ends the replacement of the authority in the folder at path now. It
// returns an error satisfying errors.NotFound if none is under way.
func Finish(path string, now time.Time) error {
	d := &Dir{path: path, now: func() time.Time { return now }}
	r, err := d.readRotation()
	if err != nil {
		return errors.Trace(err)
	}
	if r == nil {
		return errors.NotFoundf("replacement of the certificate authority in %s", path)
	}
	r.Ends = now.UTC().Add(-time.Second)
	if err := d.writeRotation(*r); err != nil {
		return errors.Trace(err)
	}
	return d.load()
}

func (d *Dir) writeRotation(r Rotation) error {
	text, err := yaml.Marshal(r)
	if err != nil {
		return errors.Trace(err)
	}
	return errors.Annotate(atomicfile.Write(filepath.Join(d.path, rotationFile), text, 0o644), "cannot note the replacement of the certificate authority")
}

// readRotation returns the replacement that is under way, nil if there is none.
func (d *Dir) readRotation() (*Rotation, error) {
	path := filepath.Join(d.path, rotationFile)
	text, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, errors.Annotate(err, "cannot read the replacement of the certificate authority")
	}
	var r Rotation
	if err := yaml.Unmarshal(text, &r); err != nil || r.Ends.IsZero() {
		return nil, errors.NotValidf("%s", path)
	}
	return &r, nil
}

// complete makes the next authority the only one, as far as that has not been
// done. It may be interrupted, and run by two processes at once.
func (d *Dir) complete(next Pair) error {
	if err := d.write(next, AuthorityFile, authorityKeyFile); err != nil {
		return errors.Trace(err)
	}
	for _, name := range []string{rotationFile, nextFile, nextKeyFile} {
		if err := os.Remove(filepath.Join(d.path, name)); err != nil && !os.IsNotExist(err) {
			return errors.Annotate(err, "cannot finish the replacement of the certificate authority")
		}
	}
	return nil
}

// first returns the first certificate of a PEM text.
func first(text []byte) []byte {
	block, _ := pem.Decode(text)
	if block == nil {
		return text
	}
	return pem.EncodeToMemory(block)
}

// load reads the authorities that are there, and brings their files up to date:
// what was to be done at some time, and what was interrupted.
func (d *Dir) load() error {
	r, err := d.readRotation()
	if err != nil {
		return errors.Trace(err)
	}
	var next Pair
	if r != nil {
		if next, err = d.read(nextFile, nextKeyFile); err != nil {
			return errors.Annotate(err, "cannot read the next certificate authority")
		}
		if err := d.check(next); err != nil {
			return errors.Trace(err)
		}
		if !d.now().Before(r.Ends) {
			d.authority, d.bundle, d.rotation = next, next.Cert, nil
			return d.complete(next)
		}
	}
	pair, err := d.read(AuthorityFile, authorityKeyFile)
	if err != nil {
		return err // told apart by the caller
	}
	onDisk := pair.Cert
	pair.Cert = first(pair.Cert)
	if err := d.check(pair); err != nil {
		return errors.Trace(err)
	}
	d.authority, d.bundle, d.rotation = pair, pair.Cert, r
	if r != nil {
		d.bundle = append(bytes.Clone(pair.Cert), next.Cert...)
	}
	if bytes.Equal(onDisk, d.bundle) {
		return nil
	}
	path := filepath.Join(d.path, AuthorityFile)
	return errors.Annotatef(atomicfile.Write(path, d.bundle, 0o644), "cannot write %s", path)
}
