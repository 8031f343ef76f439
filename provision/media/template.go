package media

import (
	"bytes"
	"crypto/sha256"
	"debug/pe"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/provision/config"
)

// bootSpace is how many bytes a template has for a boot file. Blanks after the JSON fill it.
const bootSpace = 64 << 10

// bootRoom returns the archive that an initramfs ends with: a boot file of blanks. At is
// where in it that is.
func bootRoom() (archive []byte, at int) {
	var a Archive
	blank := bytes.Repeat([]byte(" "), bootSpace)
	a.File("/"+BootFile, 0o600, blank)
	var out bytes.Buffer
	_, _ = a.WriteTo(&out) // a buffer takes everything
	return out.Bytes(), bytes.Index(out.Bytes(), blank)
}

// Template makes media for many hosts of one installer. A host's medium is the same file for
// all, with the host's boot file in its place as it is read: it takes no room on a disk, and
// every controller that has the same installer serves the same bytes.
type Template struct {
	program, iso image
	digest       string
}

// image is a file with room for a boot file.
type image struct {
	path string
	size int64
	at   int64 // of the boot file; negative: there is no room
}

// archOf returns the architecture of an EFI program, as Go names it.
func archOf(program []byte) (string, error) {
	f, err := pe.NewFile(bytes.NewReader(program))
	if err != nil {
		return "", errors.NewNotValid(nil, "it is no EFI program")
	}
	switch f.Machine {
	case pe.IMAGE_FILE_MACHINE_AMD64:
		return "amd64", nil
	case pe.IMAGE_FILE_MACHINE_ARM64:
		return "arm64", nil
	}
	return "", errors.NewNotValid(nil, fmt.Sprintf("it is an EFI program for machines of type 0x%x", f.Machine))
}

// CheckProgram returns an error satisfying errors.NotValid or errors.NotFound unless the file
// at path is an installer that NewTemplate can take. It reads little of it.
func CheckProgram(path string) error {
	f, err := os.Open(path)
	if err != nil {
		if os.IsNotExist(err) {
			return errors.NotFoundf("installer image %s", path)
		}
		return errors.Annotate(err, "cannot read installer image")
	}
	defer func() { _ = f.Close() }()
	if _, err := pe.NewFile(f); err != nil {
		return errors.NewNotValid(nil, fmt.Sprintf("%s is no EFI program: give installer.efi, as \"make installer-image\" builds it", path))
	}
	return nil
}

// NewTemplate prepares media that start the EFI program at path; what it makes of it goes
// to the folder dir, where it is found again. It takes seconds the first time.
func NewTemplate(path, dir string) (*Template, error) {
	program, err := os.ReadFile(path)
	if err != nil {
		return nil, errors.Annotate(err, "cannot read installer image")
	}
	arch, err := archOf(program)
	if err != nil {
		return nil, errors.Annotatef(err, "cannot use installer image %s", path)
	}
	sum := sha256.Sum256(program)
	t := &Template{digest: hex.EncodeToString(sum[:16])}
	t.program = image{path: path, size: int64(len(program)), at: roomIn(program)}
	t.iso.path = filepath.Join(dir, "installer-"+t.digest+".iso")
	if _, err := os.Stat(t.iso.path); err != nil {
		if err := t.makeISO(program, arch, dir); err != nil {
			return nil, errors.Annotate(err, "cannot prepare the installer's medium")
		}
	}
	f, err := os.Open(t.iso.path)
	if err != nil {
		return nil, errors.Annotate(err, "cannot read the installer's medium")
	}
	defer func() { _ = f.Close() }()
	st, err := f.Stat()
	if err != nil {
		return nil, errors.Annotate(err, "cannot read the installer's medium")
	}
	t.iso.size = st.Size()
	var length int64
	if t.iso.at, length, err = findBoot(f); err != nil || length != bootSpace {
		return nil, errors.NotValidf("medium %s without room for a boot file (remove it, it is made anew)", t.iso.path)
	}
	return t, nil
}

// makeISO makes the medium's file, whole or not at all, and removes those of other
// installers.
func (t *Template) makeISO(program []byte, arch, dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return errors.Trace(err)
	}
	old, _ := filepath.Glob(filepath.Join(dir, "installer-*.iso"))
	work, err := os.MkdirTemp(dir, "making-*")
	if err != nil {
		return errors.Trace(err)
	}
	defer func() { _ = os.RemoveAll(work) }()
	esp, iso := filepath.Join(work, espFile), filepath.Join(work, "iso")
	if err := WriteESP(esp, program, arch); err != nil {
		return err
	}
	if err := writeISO(iso, esp, bytes.Repeat([]byte(" "), bootSpace)); err != nil {
		return err
	}
	if err := os.Rename(iso, t.iso.path); err != nil {
		return errors.Trace(err)
	}
	for _, path := range old {
		_ = os.Remove(path) // it is only in the way
	}
	return nil
}

// roomIn returns where in a unified kernel image the boot file of its initramfs is,
// negative if it has none.
func roomIn(program []byte) int64 {
	f, err := pe.NewFile(bytes.NewReader(program))
	if err != nil {
		return -1
	}
	s := f.Section(".initrd")
	if s == nil || int64(s.Offset)+int64(s.VirtualSize) > int64(len(program)) {
		return -1
	}
	end := int64(s.Offset) + int64(s.VirtualSize)
	room, at := bootRoom()
	begin := end - int64(len(room))
	if begin < int64(s.Offset) || !bytes.Equal(program[begin:end], room) {
		return -1
	}
	return begin + int64(at)
}

// ISO returns the medium of a host, to be closed.
func (t *Template) ISO(boot config.Boot) (*Medium, error) { return t.open(t.iso, &boot) }

// Program returns the EFI program of a host, with its boot file inside, to be closed. It
// is another program than Generic's, so a signature of that does not hold for it. The error
// satisfies errors.NotSupported if the program has no room for a boot file.
func (t *Template) Program(boot config.Boot) (*Medium, error) {
	if t.program.at < 0 {
		return nil, errors.NewNotSupported(nil, "the installer image has no room for a boot file: build it with \"make installer-image\"")
	}
	return t.open(t.program, &boot)
}

// Generic returns the EFI program as it is, to be closed.
func (t *Template) Generic() (*Medium, error) { return t.open(t.program, nil) }

func (t *Template) open(i image, boot *config.Boot) (*Medium, error) {
	m := &Medium{etag: t.digest}
	if boot != nil {
		if err := boot.Validate(); err != nil {
			return nil, errors.Annotate(err, "cannot use boot file")
		}
		text, err := json.Marshal(boot)
		if err != nil || len(text) > bootSpace {
			return nil, errors.NotValidf("boot file of %d bytes (at most %d)", len(text), bootSpace)
		}
		sum := sha256.Sum256(text)
		m.etag += "-" + hex.EncodeToString(sum[:8])
		m.boot, m.at = append(text, bytes.Repeat([]byte(" "), bootSpace-len(text))...), i.at
	}
	f, err := os.Open(i.path)
	if err != nil {
		return nil, errors.Annotate(err, "cannot read installer image")
	}
	if st, err := f.Stat(); err != nil || st.Size() != i.size {
		_ = f.Close()
		return nil, errors.NotValidf("installer image %s, which has changed since it was read (start the controller anew)", i.path)
	}
	m.file = f
	m.SectionReader = io.NewSectionReader(m, 0, i.size)
	return m, nil
}

// Medium is what a machine boots from, read as one file.
type Medium struct {
	*io.SectionReader
	file *os.File
	boot []byte // nil: the file as it is
	at   int64
	etag string
}

// ReadAt implements io.ReaderAt, with the boot file in its place.
func (m *Medium) ReadAt(p []byte, off int64) (int, error) {
	n, err := m.file.ReadAt(p, off)
	if from, to := max(off, m.at), min(off+int64(n), m.at+int64(len(m.boot))); from < to {
		copy(p[from-off:to-off], m.boot[from-m.at:])
	}
	return n, err
}

// ETag names the content, in quotes.
func (m *Medium) ETag() string { return `"` + m.etag + `"` }

// ModTime returns zero: the ETag tells one content from another.
func (m *Medium) ModTime() time.Time { return time.Time{} }

// Close ends the reading.
func (m *Medium) Close() error { return errors.Trace(m.file.Close()) }
