// What is shown here is that of two processes that begin at once one is told about the
// other, which needs a moment that only the inside of the package can hold.
package site

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/juju/errors"
)

func TestOfTwoFirstStartsOneIsToldOfTheOther(t *testing.T) {
	dir := Dir(filepath.Join(t.TempDir(), "site"))
	release, err := dir.claim()
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("data directory %s is in use by process %d, which prepares it", dir, os.Getpid())
	check := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, ErrInUse) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s = %v, want %s", what, err, want)
		}
	}
	_, err = dir.claim()
	check("claim", err)
	_, err = dir.readDir()
	check("readDir of a directory without settings", err)
	if err := dir.save(Settings{Name: "a"}); err != nil {
		t.Fatal(err)
	}
	_, err = dir.readDir()
	check("readDir of a directory that is not ready", err)
	release()
	if _, err := dir.readDir(); !errors.Is(err, errors.NotFound) {
		t.Errorf("readDir after an interruption = %v, want not found", err)
	}
	if release, err = dir.claim(); err != nil {
		t.Fatalf("claim after an interruption = %v", err)
	}
	release()
}
