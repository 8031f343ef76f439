package archive

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"path"
	"time"

	"github.com/juju/errors"
)

// Kinds of archives that are refused.
const (
	ErrDamaged    = errors.ConstError("archive is damaged")
	ErrForeign    = errors.ConstError("not an archive")
	ErrNewer      = errors.ConstError("archive was written by a newer version")
	ErrPassphrase = errors.ConstError("wrong passphrase")
)

// format is the layout of archives. It grows with every layout that an older
// version could not read.
const format = 1

const (
	manifestName = "manifest.json"
	endName      = "manifest.sha256"
)

// maxManifest bounds the manifest, in bytes.
const maxManifest = 1 << 20

// Kind says what an archive is for.
type Kind string

// The kinds of archive.
const (
	Backup Kind = "" // of a site
	Join   Kind = "join"
)

// String names the kind.
func (k Kind) String() string {
	switch k {
	case Backup:
		return "backup of a controller"
	case Join:
		return "join file"
	}
	return fmt.Sprintf("archive of kind %q", string(k))
}

// Manifest says what an archive is of. Writers set the first six fields.
type Manifest struct {
	Kind           Kind      `json:"kind,omitempty"`
	Version        string    `json:"version"` // of the program that wrote it
	Created        time.Time `json:"created"`
	ControllerUUID string    `json:"controller-uuid"`
	Name           string    `json:"name"`    // of the controller
	Secrets        bool      `json:"secrets"` // whether password hashes and keys are in it

	Format     int         `json:"format"`
	Encryption *encryption `json:"encryption,omitempty"` // nil if nothing is encrypted
	Files      []file      `json:"files"`                // in the order in which they follow
}

// file is one file in an archive.
type file struct {
	Name   string `json:"name"`   // with slashes
	Size   int64  `json:"size"`   // as it is stored
	SHA256 string `json:"sha256"` // likewise
}

// Encrypted reports whether a passphrase is needed.
func (m Manifest) Encrypted() bool { return m.Encryption != nil }

// Has reports whether the archive holds a file.
func (m Manifest) Has(name string) bool {
	for _, f := range m.Files {
		if f.Name == name {
			return true
		}
	}
	return false
}

// parse reads a manifest. A newer one is told from a damaged one by its format
// alone, since nothing else of it may be what it is here.
func parse(text []byte) (Manifest, error) {
	var m Manifest
	var head struct {
		Format int `json:"format"`
	}
	if err := json.Unmarshal(text, &head); err != nil || head.Format < 1 {
		return m, damaged("its manifest cannot be read")
	}
	if head.Format > format {
		return m, errors.WithType(errors.Errorf("it was written by a newer version (format %d, this one knows %d): use that version", head.Format, format), ErrNewer)
	}
	if err := json.NewDecoder(bytes.NewReader(text)).Decode(&m); err != nil {
		return m, damaged("its manifest cannot be read")
	}
	for _, f := range m.Files {
		if !validName(f.Name) {
			return m, damaged("it holds a file called %q", f.Name)
		}
	}
	return m, errors.Trace(m.Encryption.validate())
}

// validName reports whether a name is a plain path below a folder.
func validName(name string) bool {
	return fs.ValidPath(name) && name != "." && path.Clean(name) == name && name != manifestName && name != endName
}

func damaged(why string, args ...any) error {
	return errors.WithType(errors.Errorf("it is damaged: %s; use another", fmt.Sprintf(why, args...)), ErrDamaged)
}

func foreign(want Kind) error {
	return errors.WithType(errors.Errorf("it is no %s", want), ErrForeign)
}

func checksum(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}
