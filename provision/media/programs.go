package media

import (
	"debug/elf"
	"os"
	"path/filepath"

	"github.com/juju/errors"
)

// libraryDirs are where a program's libraries are looked for, in order.
var libraryDirs = []string{
	"/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib/aarch64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/lib64", "/usr/lib64", "/lib", "/usr/lib",
}

// addProgram copies a program into /bin under its name, with the libraries and the
// loader it needs.
func addProgram(a *Archive, file string) error {
	b, err := os.ReadFile(file)
	if err != nil {
		return errors.Annotate(err, "cannot read program")
	}
	a.File("/bin/"+filepath.Base(file), 0o755, b)
	return addNeeds(a, file)
}

// addNeeds copies what the ELF file at path needs.
func addNeeds(a *Archive, file string) error {
	f, err := elf.Open(file)
	if err != nil {
		return nil //nolint:nilerr // a script needs its interpreter, which is the caller's matter
	}
	defer func() { _ = f.Close() }()
	for _, p := range f.Progs {
		if p.Type != elf.PT_INTERP {
			continue
		}
		name := make([]byte, p.Filesz)
		if _, err := p.ReadAt(name, 0); err != nil {
			return errors.Annotatef(err, "cannot read %s", file)
		}
		if err := addLibrary(a, string(name[:len(name)-1])); err != nil {
			return err
		}
	}
	needed, err := f.ImportedLibraries()
	if err != nil {
		return errors.Annotatef(err, "cannot read %s", file)
	}
	for _, lib := range needed {
		found := false
		for _, dir := range libraryDirs {
			if path := filepath.Join(dir, lib); exists(path) {
				found = true
				if err := addLibrary(a, path); err != nil {
					return err
				}
				break
			}
		}
		if !found {
			return errors.NotFoundf("library %s of %s", lib, file)
		}
	}
	return nil
}

// addLibrary copies a library under its own path, and what it needs.
func addLibrary(a *Archive, path string) error {
	if a.Has(path) {
		return nil
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return errors.Annotate(err, "cannot read library")
	}
	a.File(path, 0o755, b)
	return addNeeds(a, path)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
