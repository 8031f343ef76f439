package archive

import (
	"archive/tar"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"os"

	"github.com/juju/errors"
)

// Source is a file that goes into an archive.
type Source struct {
	Name string // in the archive, with slashes
	Path string
}

// Write writes an archive of files. With a passphrase, each is encrypted; a
// passphrase of fewer than MinPassphrase bytes is an error satisfying
// errors.NotValid. Staging is an empty folder with room for the compressed files.
func Write(w io.Writer, m Manifest, passphrase []byte, staging string, files []Source) error {
	m.Format = format
	var key masterKey
	if passphrase != nil {
		var err error
		if m.Encryption, key, err = newEncryption(passphrase); err != nil {
			return err
		}
	}
	for _, src := range files {
		if !validName(src.Name) || m.Has(src.Name) {
			return errors.NotValidf("file name %q", src.Name)
		}
		stored, err := stage(staging, src, key)
		if err != nil {
			return errors.Annotatef(err, "cannot read %s", src.Path)
		}
		defer os.Remove(stored.path)
		m.Files = append(m.Files, stored.file)
	}
	return errors.Trace(m.write(w, staging))
}

// staged is a file as it will be stored.
type staged struct {
	file
	path string
}

// stage compresses and encrypts a file.
func stage(dir string, src Source, key masterKey) (s staged, err error) {
	in, err := os.Open(src.Path)
	if err != nil {
		return s, errors.Trace(err)
	}
	defer in.Close()
	s = staged{file: file{Name: src.Name}, path: stagedPath(dir, src.Name)}
	out, err := os.OpenFile(s.path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return s, errors.Trace(err)
	}
	defer func() {
		if cerr := out.Close(); err == nil {
			err = errors.Trace(cerr)
		}
	}()
	sum := sha256.New()
	var to io.WriteCloser = keepOpen{io.MultiWriter(out, sum)}
	if key != nil {
		a, err := key.aead(src.Name)
		if err != nil {
			return s, errors.Trace(err)
		}
		to = &sealer{to: to, aead: a}
	}
	z := gzip.NewWriter(to)
	if _, err := io.Copy(z, in); err != nil {
		return s, errors.Trace(err)
	}
	for _, c := range []io.Closer{z, to} {
		if err := c.Close(); err != nil {
			return s, errors.Trace(err)
		}
	}
	info, err := out.Stat()
	if err != nil {
		return s, errors.Trace(err)
	}
	s.Size, s.SHA256 = info.Size(), hex.EncodeToString(sum.Sum(nil))
	return s, nil
}

// stagedPath is where a file waits to be put into the archive.
func stagedPath(dir, name string) string { return dir + "/" + checksum([]byte(name)) }

// keepOpen is a writer that is closed elsewhere.
type keepOpen struct{ io.Writer }

// Close does nothing.
func (keepOpen) Close() error { return nil }

// write writes the manifest and what was staged.
func (m Manifest) write(w io.Writer, staging string) error {
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return errors.Trace(err)
	}
	t := tar.NewWriter(w)
	add := func(name string, size int64, content func() error) error {
		h := &tar.Header{Name: name, Mode: 0o600, Size: size, ModTime: m.Created, Format: tar.FormatPAX}
		if err := t.WriteHeader(h); err != nil {
			return errors.Trace(err)
		}
		return errors.Trace(content())
	}
	whole := func(text []byte) func() error {
		return func() error { _, err := t.Write(text); return err }
	}
	if err := add(manifestName, int64(len(text)), whole(text)); err != nil {
		return err
	}
	for _, f := range m.Files {
		err := add(f.Name, f.Size, func() error {
			in, err := os.Open(stagedPath(staging, f.Name))
			if err != nil {
				return err
			}
			defer in.Close()
			_, err = io.Copy(t, in)
			return err
		})
		if err != nil {
			return err
		}
	}
	sum := []byte(checksum(text) + "\n")
	if err := add(endName, int64(len(sum)), whole(sum)); err != nil {
		return err
	}
	return errors.Trace(t.Close())
}
