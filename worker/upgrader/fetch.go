package upgrader

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/api"
	"github.com/slipway-project/slipway/internal/atomicfile"
	"github.com/slipway-project/slipway/params"
)

// errUnfit is the kind of a failure that trying again does not mend.
const errUnfit = errors.ConstError("this version does not work here")

// unfitf returns an error of kind errUnfit.
func unfitf(format string, args ...any) error {
	return errors.WithType(errors.Errorf(format, args...), errUnfit)
}

const (
	maxProgram     = 1 << 30 // bytes of an unpacked program
	versionTimeout = 30 * time.Second
	packageName    = "package"        // the archive, until it is unpacked
	stampName      = "package.sha256" // sums of the package and of its program
)

// fetch puts a version beside the one that runs, unless it is there already.
func (f files) fetch(ctx context.Context, info api.Info, from params.Tools) error {
	if f.whole(from) {
		return nil
	}
	part := f.version(from.Version) + partSuffix
	if err := os.RemoveAll(part); err != nil {
		return errors.Trace(err)
	}
	defer os.RemoveAll(part) // nothing is there once it has its name
	if err := os.Mkdir(part, 0o755); err != nil {
		return errors.Trace(err)
	}
	if err := download(ctx, info, from, filepath.Join(part, packageName)); err != nil {
		return err
	}
	program := filepath.Join(part, programName)
	sum, err := unpack(filepath.Join(part, packageName), program)
	if err != nil {
		return err
	}
	if err := os.Remove(filepath.Join(part, packageName)); err != nil {
		return errors.Trace(err)
	}
	if err := checkProgram(ctx, program, from.Version); err != nil {
		return err
	}
	if err := atomicfile.Write(filepath.Join(part, stampName), []byte(stamp(from, sum)), 0o644); err != nil {
		return errors.Trace(err)
	}
	return f.finish(from.Version)
}

// stamp is what is kept beside a program to know it again.
func stamp(from params.Tools, program string) string {
	return strings.ToLower(from.SHA256) + "  " + packageName + "\n" + program + "  " + programName + "\n"
}

// whole reports whether a version is there as it was fetched.
func (f files) whole(from params.Tools) bool {
	text, err := os.ReadFile(filepath.Join(f.version(from.Version), stampName))
	if err != nil {
		return false
	}
	program, err := os.Open(f.program(from.Version))
	if err != nil {
		return false
	}
	defer program.Close() // it was read only
	sum := sha256.New()
	if _, err := io.Copy(sum, program); err != nil {
		return false
	}
	return string(text) == stamp(from, hex.EncodeToString(sum.Sum(nil)))
}

// download fetches a package, which must be as announced.
func download(ctx context.Context, info api.Info, from params.Tools, path string) error {
	u, err := url.Parse(from.URL)
	if err != nil || from.SHA256 == "" || from.Size <= 0 {
		return errors.Errorf("the controller announces it without URL, size or SHA-256")
	}
	to, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return errors.Trace(err)
	}
	defer to.Close() // what was written is durable by then
	sum := sha256.New()
	if err := api.Fetch(ctx, info, api.Download{Path: u.Path, To: io.MultiWriter(to, sum), Size: from.Size}); err != nil {
		return errors.Annotate(err, "cannot fetch it")
	}
	if got := hex.EncodeToString(sum.Sum(nil)); !strings.EqualFold(got, from.SHA256) {
		return errors.Errorf("cannot fetch it: it has the SHA-256 %s instead of %s", got, from.SHA256)
	}
	return errors.Trace(to.Sync())
}

// unpack writes the program of a package to a file, durably, and returns its
// SHA-256.
func unpack(archive, path string) (string, error) {
	from, err := os.Open(archive)
	if err != nil {
		return "", errors.Trace(err)
	}
	defer from.Close() // it was read only
	zipped, err := gzip.NewReader(from)
	if err != nil {
		return "", unfitf("its package is no gzip'd archive: %v", err)
	}
	for members := tar.NewReader(zipped); ; {
		h, err := members.Next()
		if err != nil {
			return "", unfitf("its package has no program %s at its root: %v", programName, err)
		}
		if strings.TrimPrefix(h.Name, "./") != programName || h.Typeflag != tar.TypeReg {
			continue
		}
		if h.Size > maxProgram {
			return "", unfitf("its program has %d bytes, which is too much", h.Size)
		}
		return write(path, io.LimitReader(members, maxProgram))
	}
}

// write writes a program, and returns its SHA-256.
func write(path string, content io.Reader) (string, error) {
	to, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
	if err != nil {
		return "", errors.Trace(err)
	}
	sum := sha256.New()
	_, err = io.Copy(io.MultiWriter(to, sum), content)
	if err == nil {
		err = to.Chmod(0o755) // whatever the umask is
	}
	if err == nil {
		err = to.Sync()
	}
	if cerr := to.Close(); err == nil {
		err = cerr
	}
	return hex.EncodeToString(sum.Sum(nil)), errors.Trace(err)
}

// machine is what programs for this architecture have in their header.
func machine() elf.Machine {
	return map[string]elf.Machine{
		"386": elf.EM_386, "amd64": elf.EM_X86_64, "arm": elf.EM_ARM, "arm64": elf.EM_AARCH64,
		"ppc64le": elf.EM_PPC64, "riscv64": elf.EM_RISCV, "s390x": elf.EM_S390,
	}[runtime.GOARCH]
}

// checkProgram returns an error of kind errUnfit unless a program is for this
// machine and is the version that it is called by.
func checkProgram(ctx context.Context, program, version string) error {
	file, err := elf.Open(program)
	if err != nil {
		return unfitf("its program is none that Linux could run: %v", err)
	}
	file.Close()
	if file.Machine != machine() {
		return unfitf("its program is for the architecture %v, and this machine is %v", file.Machine, machine())
	}
	ctx, cancel := context.WithTimeout(ctx, versionTimeout)
	defer cancel()
	said, err := sayVersion(ctx, program)
	if err != nil {
		return err
	}
	if number, _, _ := strings.Cut(version, "-"); said == number || strings.HasPrefix(version, said+"-") {
		return nil
	}
	return unfitf("its program says that it is version %s", said)
}

// sayVersion asks a program for its version.
func sayVersion(ctx context.Context, program string) (string, error) {
	for try := 1; ; try++ {
		out, err := exec.CommandContext(ctx, program, "version").Output()
		// A child that another part of this process started a moment ago may still
		// have the file open for writing.
		if errors.Is(err, syscall.ETXTBSY) && try < 5 {
			time.Sleep(50 * time.Millisecond)
			continue
		}
		if err != nil {
			return "", unfitf("its program does not run: %v", err)
		}
		words := strings.Fields(string(out))
		if len(words) != 2 || words[0] != programName {
			return "", unfitf("its program does not say which version it is")
		}
		return words[1], nil
	}
}
