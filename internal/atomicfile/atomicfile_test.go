package atomicfile_test

import (
	"io"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/internal/atomicfile"
)

func TestWriteReplacesAFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	for _, content := range []string{"one", "two, longer", ""} {
		if err := atomicfile.Write(path, []byte(content), 0o640); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(path)
		if err != nil || string(got) != content {
			t.Errorf("content %q, %v, want %q", got, err, content)
		}
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("mode %v, %v, want 640", info.Mode().Perm(), err)
	}
	if left, _ := os.ReadDir(dir); len(left) != 1 {
		t.Errorf("%d files left, want the one", len(left))
	}
}

func TestAFailureLeavesTheOldFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	if err := atomicfile.Write(path, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	boom := errors.New("boom")
	err := atomicfile.WriteFunc(path, 0o600, func(w io.Writer) error {
		_, _ = w.Write([]byte("half"))
		return boom
	})
	if !errors.Is(err, boom) {
		t.Errorf("WriteFunc = %v, want the function's error", err)
	}
	if got, _ := os.ReadFile(path); string(got) != "old" {
		t.Errorf("content %q, want the old one", got)
	}
	if left, _ := os.ReadDir(dir); len(left) != 1 {
		t.Errorf("%d files left, want the one", len(left))
	}
	if err := atomicfile.Write(filepath.Join(dir, "none", "f"), nil, 0o600); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Write into a missing folder = %v, want ErrNotExist", err)
	}
}

func TestErrorsAreAboutTheFile(t *testing.T) {
	dir := t.TempDir()
	for path, text := range map[string]string{dir: "is a directory", filepath.Join(dir, "none", "f"): "no such file or directory"} {
		err := atomicfile.Write(path, []byte("x"), 0o600)
		if err == nil || err.Error() != "write "+path+": "+text {
			t.Errorf("%s: %v, want %q about it", path, err, text)
		}
	}
	if left, _ := os.ReadDir(dir); len(left) != 0 {
		t.Errorf("%d files are left, want none", len(left))
	}
}

// Of several who create a file at a time one does, and the others leave it as it is.
func TestOneOfManyCreatesAFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	const many = 8
	ready, errs := make(chan struct{}), make(chan error, many)
	var writing sync.WaitGroup
	writing.Add(many)
	for range many {
		go func() {
			errs <- atomicfile.CreateFunc(path, 0o600, func(w io.Writer) error {
				writing.Done()
				<-ready
				_, err := io.WriteString(w, "content")
				return err
			})
		}()
	}
	writing.Wait() // all have looked at what is there
	close(ready)
	created := 0
	for range many {
		switch err := <-errs; {
		case err == nil:
			created++
		case !errors.Is(err, os.ErrExist):
			t.Error(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil || string(got) != "content" || created != 1 {
		t.Errorf("%d have created the file with %q, %v; want 1", created, got, err)
	}
	if left, _ := os.ReadDir(dir); len(left) != 1 {
		t.Errorf("%d files left, want the one", len(left))
	}
}
