package upgrader

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/core/binaries"
	"github.com/slipway-project/slipway/internal/atomicfile"
)

// The names of what is in the agent's directory.
const (
	programName = "provisionerd"
	currentName = "current"
	recordName  = "upgrade.json"
	partSuffix  = ".part" // of a version that is not whole yet
)

// errElsewhere says that the running program is not the one in the agent's
// directory.
const errElsewhere = errors.ConstError("the agent was not installed where it could upgrade itself")

// files is the directory with the agent's versions.
type files struct {
	dir     string
	running string // the path of the program that runs
}

func (f files) version(name string) string { return filepath.Join(f.dir, name) }
func (f files) program(name string) string { return filepath.Join(f.dir, name, programName) }
func (f files) record() string             { return filepath.Join(f.dir, recordName) }

// current returns the name of the version that runs, empty if it was laid down
// without one. It returns an error satisfying errElsewhere if the running
// program is none of the directory's.
func (f files) current() (string, error) {
	started, err := os.Stat(f.program(currentName))
	running, rerr := os.Stat(f.running)
	if os.IsNotExist(err) || err == nil && rerr == nil && !os.SameFile(started, running) {
		return "", errors.WithType(errors.Errorf("the agent was not installed in %s, where it could upgrade itself", f.dir), errElsewhere)
	}
	if err == nil {
		err = rerr
	}
	if err != nil {
		return "", errors.Trace(err)
	}
	top, err := filepath.EvalSymlinks(f.dir)
	if err != nil {
		return "", errors.Trace(err)
	}
	path, err := filepath.EvalSymlinks(f.program(currentName))
	if err != nil {
		return "", errors.Trace(err)
	}
	name, err := filepath.Rel(top, filepath.Dir(path))
	if err != nil || name == currentName {
		return "", errors.Trace(err)
	}
	if name != filepath.Base(name) || name == ".." {
		return "", errors.WithType(errors.Errorf("%s is outside %s, where the agent could upgrade itself", path, f.dir), errElsewhere)
	}
	return name, nil
}

// keep gives the program that was laid down the name of its version, so that
// there is something to go back to.
func (f files) keep(name string) error {
	part := f.version(name) + partSuffix
	if err := os.RemoveAll(part); err != nil {
		return errors.Trace(err)
	}
	if err := os.Mkdir(part, 0o755); err != nil {
		return errors.Trace(err)
	}
	if err := os.Link(f.program(currentName), filepath.Join(part, programName)); err != nil {
		return errors.Trace(err)
	}
	if err := f.finish(name); err != nil {
		return err
	}
	return f.point(name)
}

// finish gives a version that is whole its name.
func (f files) finish(name string) error {
	part := f.version(name) + partSuffix
	if err := os.Chmod(part, 0o755); err != nil { // whatever the umask is
		return errors.Trace(err)
	}
	if err := atomicfile.SyncDir(part); err != nil {
		return errors.Trace(err)
	}
	if err := os.RemoveAll(f.version(name)); err != nil {
		return errors.Trace(err)
	}
	if err := os.Rename(part, f.version(name)); err != nil {
		return errors.Trace(err)
	}
	return errors.Trace(atomicfile.SyncDir(f.dir))
}

// point has the machine's init start a version from now on.
func (f files) point(name string) error {
	if _, err := os.Stat(f.program(name)); err != nil {
		return errors.Trace(err)
	}
	link, target := f.version(currentName), name
	if was, err := os.Lstat(link); err == nil && was.IsDir() {
		link, target = f.program(currentName), filepath.Join("..", name, programName)
	}
	next := filepath.Join(filepath.Dir(link), "."+filepath.Base(link)+partSuffix)
	if err := os.Remove(next); err != nil && !os.IsNotExist(err) {
		return errors.Trace(err)
	}
	if err := os.Symlink(target, next); err != nil {
		return errors.Trace(err)
	}
	if err := os.Rename(next, link); err != nil {
		return errors.Trace(err)
	}
	return errors.Trace(atomicfile.SyncDir(filepath.Dir(link)))
}

// prune removes all versions but those named, and what is left of others.
func (f files) prune(keep ...string) {
	all, err := os.ReadDir(f.dir)
	if err != nil {
		logger.Warningf("cannot remove old versions of the agent: %v", err)
		return
	}
	for _, e := range all {
		name := e.Name()
		if _, err := binaries.Parse(strings.TrimSuffix(name, partSuffix)); err != nil || slices.Contains(keep, name) {
			continue
		}
		if err := os.RemoveAll(f.version(name)); err != nil {
			logger.Warningf("cannot remove an old version of the agent: %v", err)
		}
	}
}
