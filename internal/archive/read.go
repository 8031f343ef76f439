package archive

import (
	"archive/tar"
	"bufio"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/juju/errors"
)

// Reader is an archive that was found whole. Make it with Open.
type Reader struct {
	Manifest
	path string
	key  masterKey
}

// Open checks an archive of a kind from its first byte to its last, and the
// passphrase if it is encrypted. Its errors are one line, and satisfy errors.Is for
// ErrDamaged, ErrForeign, ErrNewer or ErrPassphrase if they are one of these.
func Open(path string, kind Kind, passphrase []byte) (*Reader, error) {
	r := &Reader{path: path}
	if err := r.open(kind, passphrase); err != nil {
		return nil, errors.Annotatef(err, "cannot use %s", path)
	}
	return r, nil
}

func (r *Reader) open(kind Kind, passphrase []byte) error {
	m, err := walk(r.path, kind, nil)
	if err != nil {
		return err
	}
	r.Manifest = m
	if m.Encryption != nil {
		r.key, err = m.Encryption.open(passphrase)
	}
	return err
}

// Extract writes the files into a folder, with mode 0600, making folders of mode
// 0700 where they are missing.
func (r *Reader) Extract(dir string) error {
	_, err := walk(r.path, r.Kind, func(f file, content io.Reader) error {
		in := bufio.NewReaderSize(content, piece)
		if r.key != nil {
			a, err := r.key.aead(f.Name)
			if err != nil {
				return errors.Trace(err)
			}
			in = bufio.NewReader(&opener{from: in, aead: a})
		}
		return unpack(filepath.Join(dir, filepath.FromSlash(f.Name)), in)
	})
	return errors.Annotatef(err, "cannot unpack %s", r.path)
}

// unpack writes one compressed file.
func unpack(path string, in io.Reader) (err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return errors.Trace(err)
	}
	out, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return errors.Trace(err)
	}
	defer func() {
		if cerr := out.Close(); err == nil {
			err = errors.Trace(cerr)
		}
	}()
	z, err := gzip.NewReader(in)
	if err != nil {
		return unpackError(err)
	}
	if _, err := io.Copy(out, z); err != nil {
		return unpackError(err)
	}
	return errors.Trace(out.Sync())
}

// unpackError tells a bad archive from a full disk.
func unpackError(err error) error {
	if errors.Is(err, gzip.ErrHeader) || errors.Is(err, gzip.ErrChecksum) || errors.Is(err, io.ErrUnexpectedEOF) {
		return damaged("a file in it cannot be unpacked")
	}
	return errors.Trace(err)
}

// walk reads a whole archive, and calls visit with each file, if it is not nil.
// It finds whether anything of it is damaged or missing; what visit did before
// is not undone.
func walk(path string, kind Kind, visit func(file, io.Reader) error) (Manifest, error) {
	in, err := os.Open(path)
	if err != nil {
		return Manifest{}, errors.Trace(err)
	}
	defer in.Close()
	t := tar.NewReader(bufio.NewReader(in))
	h, err := t.Next()
	if err != nil || h.Name != manifestName {
		return Manifest{}, foreign(kind)
	}
	text, err := io.ReadAll(io.LimitReader(t, maxManifest+1))
	if err != nil || len(text) > maxManifest {
		return Manifest{}, damaged("its manifest cannot be read")
	}
	m, err := parse(text)
	if err != nil {
		return m, err
	}
	if m.Kind != kind {
		return m, errors.WithType(errors.Errorf("it is a %s, and no %s", m.Kind, kind), ErrForeign)
	}
	for _, f := range m.Files {
		if err := walkFile(t, f, visit); err != nil {
			return m, err
		}
	}
	if h, err = t.Next(); err != nil || h.Name != endName {
		return m, damaged("its end is missing")
	}
	end, err := io.ReadAll(io.LimitReader(t, 256))
	if err != nil || strings.TrimSpace(string(end)) != checksum(text) {
		return m, damaged("its manifest was changed")
	}
	switch _, err := t.Next(); err {
	case io.EOF:
		return m, nil
	case nil:
		return m, damaged("there is more after its end")
	default:
		return m, damaged("its end is cut off")
	}
}

// walkFile reads the file that is next.
func walkFile(t *tar.Reader, f file, visit func(file, io.Reader) error) error {
	h, err := t.Next()
	if err != nil || h.Name != f.Name || h.Size != f.Size {
		return damaged("file %s is missing", f.Name)
	}
	sum := sha256.New()
	content := io.TeeReader(t, sum)
	if visit != nil {
		if err := visit(f, content); err != nil {
			return err
		}
	}
	if _, err := io.Copy(io.Discard, content); err != nil {
		return damaged("file %s is cut off", f.Name)
	}
	if hex.EncodeToString(sum.Sum(nil)) != f.SHA256 {
		return damaged("file %s was changed", f.Name)
	}
	return nil
}
