// This file needs the clock of a Dir, which nobody else may set.
package tlsfiles

import (
	"crypto/x509"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/juju/errors"
)

// trusted reports whether who trusts the authorities in a PEM text trusts the
// certificate that a Dir shows.
func trusted(t *testing.T, ca string, d *Dir) bool {
	t.Helper()
	leaf, err := d.Certificate()
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM([]byte(ca)) {
		t.Fatal("no authority")
	}
	_, err = leaf.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: ServerName, CurrentTime: d.now()})
	return err == nil
}

func open(t *testing.T, path string, now time.Time) *Dir {
	t.Helper()
	d, err := Open(path, Hosts())
	if err != nil {
		t.Fatal(err)
	}
	d.now = func() time.Time { return now }
	return d
}

func refresh(t *testing.T, d *Dir, want bool) {
	t.Helper()
	if changed, err := d.Refresh(); err != nil || changed != want {
		t.Errorf("Refresh = %v, %v, want %v", changed, err, want)
	}
}

func TestAuthorityIsReplacedWithAnOverlap(t *testing.T) {
	path, start := t.TempDir(), time.Now()
	d := open(t, path, start)
	old := d.AuthorityPEM()
	refresh(t, d, false)
	r, err := Rotate(path, time.Hour, start)
	if err != nil || r.Ends.Sub(start).Round(time.Minute) != time.Hour {
		t.Fatalf("Rotate = %v, %v", r, err)
	}
	if _, err := Rotate(path, time.Hour, start); !errors.Is(err, errors.AlreadyExists) {
		t.Errorf("Rotate again = %v, want already exists", err)
	}
	refresh(t, d, true)
	refresh(t, d, false)
	both := d.AuthorityPEM()
	if strings.Count(both, "BEGIN CERTIFICATE") != 2 || !strings.HasPrefix(both, old) {
		t.Errorf("authorities during the overlap: %s", both)
	}
	if text, err := os.ReadFile(filepath.Join(path, AuthorityFile)); err != nil || string(text) != both {
		t.Errorf("%s does not hold both: %v", AuthorityFile, err)
	}
	if !trusted(t, old, d) || !trusted(t, both, d) {
		t.Error("clients that know the old authority do not trust the server during the overlap")
	}
	if got, ok := d.Rotation(); !ok || !got.Ends.Equal(r.Ends) {
		t.Errorf("Rotation = %v, %v", got, ok)
	}
	again := open(t, path, start) // another start of the server
	if again.AuthorityPEM() != both || !trusted(t, old, again) {
		t.Error("a server that starts during the overlap does something else")
	}

	d.now = func() time.Time { return start.Add(time.Hour + time.Minute) }
	refresh(t, d, true)
	next := d.AuthorityPEM()
	if old+next != both {
		t.Error("afterwards something other than the new authority is trusted")
	}
	if trusted(t, old, d) || !trusted(t, both, d) || !trusted(t, next, d) {
		t.Error("want the server trusted by those who have heard of the new authority, and by them alone")
	}
	entries, err := os.ReadDir(path)
	if err != nil || len(entries) != 4 {
		t.Errorf("%d files are left, %v, want 4", len(entries), err)
	}
	if _, ok := d.Rotation(); ok {
		t.Error("a replacement is under way after its end")
	}
	if err := Finish(path, start); !errors.Is(err, errors.NotFound) {
		t.Errorf("Finish of nothing = %v, want not found", err)
	}
	if again := open(t, path, start); again.AuthorityPEM() != next {
		t.Error("a later start finds another authority")
	}
}

func TestReplacementIsFinishedEarly(t *testing.T) {
	path, start := t.TempDir(), time.Now()
	d := open(t, path, start)
	if _, err := Rotate(path, time.Hour, start); err != nil {
		t.Fatal(err)
	}
	refresh(t, d, true)
	if err := Finish(path, start); err != nil {
		t.Fatal(err)
	}
	refresh(t, d, true)
	if n := strings.Count(d.AuthorityPEM(), "BEGIN CERTIFICATE"); n != 1 {
		t.Errorf("%d authorities after the end, want one", n)
	}
}

// TestReplacementSurvivesBeingInterrupted stops it after each file it writes.
func TestReplacementSurvivesBeingInterrupted(t *testing.T) {
	start := time.Now()
	copyOf := func(t *testing.T, from string, names ...string) string {
		t.Helper()
		to := t.TempDir()
		for _, n := range names {
			text, err := os.ReadFile(filepath.Join(from, n))
			if err == nil {
				err = os.WriteFile(filepath.Join(to, n), text, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		return to
	}
	path := t.TempDir()
	old := open(t, path, start).AuthorityPEM()
	before := copyOf(t, path, AuthorityFile, authorityKeyFile)
	if _, err := Rotate(path, time.Hour, start); err != nil {
		t.Fatal(err)
	}
	// Without the file that says so, nothing is under way.
	begun := copyOf(t, path, nextFile, nextKeyFile)
	for _, n := range []string{AuthorityFile, authorityKeyFile} {
		if err := os.Rename(filepath.Join(before, n), filepath.Join(begun, n)); err != nil {
			t.Fatal(err)
		}
	}
	if d := open(t, begun, start); d.AuthorityPEM() != old {
		t.Error("a replacement that was not begun counts")
	}
	// With the next key in place of the old one, the end is finished.
	ending := copyOf(t, path, AuthorityFile, nextFile, nextKeyFile)
	next, err := os.ReadFile(filepath.Join(path, nextKeyFile))
	if err == nil {
		err = os.WriteFile(filepath.Join(ending, authorityKeyFile), next, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := (&Dir{path: ending}).writeRotation(Rotation{Began: start, Ends: start.Add(-time.Minute)}); err != nil {
		t.Fatal(err)
	}
	d := open(t, ending, start)
	want, err := os.ReadFile(filepath.Join(path, nextFile))
	if err != nil || d.AuthorityPEM() != string(want) || !trusted(t, string(want), d) {
		t.Errorf("an end that was interrupted is not finished: %v", err)
	}
}

func TestCertificateThatCannotBeRenewedIsUsedWhileItIsGood(t *testing.T) {
	path := t.TempDir()
	d, err := Open(path, Hosts())
	if err != nil {
		t.Fatal(err)
	}
	first, err := d.Certificate()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(path); err != nil {
		t.Fatal(err)
	}
	d.now = func() time.Time { return time.Now().Add(leafLife * 7 / 10) }
	if same, err := d.Certificate(); err != nil || same != first {
		t.Errorf("Certificate = %v, %v, want the one that is still good", same, err)
	}
	d.now = func() time.Time { return time.Now().Add(leafLife) }
	if _, err := d.Certificate(); err == nil {
		t.Error("Certificate returns one that has expired")
	}
}
