package archive_test

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/internal/archive"
)

var passphrase = []byte("correct horse battery staple")

// contents are the files of the tests' archives: an empty one, and ones around
// the size of a piece.
func contents() map[string][]byte {
	noise := make([]byte, 70<<10)
	for i, x := 0, uint32(1); i < len(noise); i++ { // what compression does not shrink
		x = x*1664525 + 1013904223
		noise[i] = byte(x >> 24)
	}
	return map[string][]byte{"empty": {}, "agents/machine-0.yaml": []byte("password: hush\n"), "store/slipway.db": noise}
}

// write writes an archive of contents and returns its path.
func write(t *testing.T, passphrase []byte) string {
	t.Helper()
	dir := t.TempDir()
	var files []archive.Source
	for name, content := range contents() {
		path := filepath.Join(dir, strings.ReplaceAll(name, "/", "-"))
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		files = append(files, archive.Source{Name: name, Path: path})
	}
	var out bytes.Buffer
	m := archive.Manifest{Version: "1.0", Created: time.Unix(1e9, 0).UTC(), ControllerUUID: "uuid", Name: "slipway"}
	if err := archive.Write(&out, m, passphrase, t.TempDir(), files); err != nil {
		t.Fatal(err)
	}
	return save(t, out.Bytes())
}

func save(t *testing.T, text []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "backup")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func load(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestExtractGivesBackWhatWasWritten(t *testing.T) {
	for name, pass := range map[string][]byte{"plain": nil, "encrypted": passphrase} {
		t.Run(name, func(t *testing.T) {
			path := write(t, pass)
			r, err := archive.Open(path, archive.Backup, pass)
			if err != nil {
				t.Fatal(err)
			}
			if r.ControllerUUID != "uuid" || r.Encrypted() != (pass != nil) || !r.Has("empty") || r.Has("none") {
				t.Errorf("manifest is %+v", r.Manifest)
			}
			if bytes.Contains(load(t, path), []byte("hush")) {
				t.Error("the archive holds text that should be compressed or encrypted")
			}
			dir := t.TempDir()
			if err := r.Extract(dir); err != nil {
				t.Fatal(err)
			}
			for name, want := range contents() {
				if got := load(t, filepath.Join(dir, name)); !bytes.Equal(got, want) {
					t.Errorf("%s has %d bytes that differ from the %d written", name, len(got), len(want))
				}
				if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Mode() != 0o600 {
					t.Errorf("%s has mode %v (%v), want 0600", name, info.Mode(), err)
				}
			}
		})
	}
}

func TestDamageIsFound(t *testing.T) {
	whole := load(t, write(t, passphrase))
	for cut := 0; cut < len(whole)-1024; cut += 3001 { // the last two blocks say nothing
		if _, err := archive.Open(save(t, whole[:cut]), archive.Backup, passphrase); err == nil {
			t.Fatalf("an archive cut off after %d of %d bytes was accepted", cut, len(whole))
		}
	}
	if bytes.Contains(whole, passphrase) {
		t.Error("the archive holds its passphrase")
	}
	dir := t.TempDir()
	for at := 0; at < len(whole)-1024; at += 1409 {
		changed := bytes.Clone(whole)
		changed[at] ^= 0x10
		r, err := archive.Open(save(t, changed), archive.Backup, passphrase)
		if err == nil && same(t, r, filepath.Join(dir, fmt.Sprint(at))) {
			continue // padding, or a header's field that nothing depends on
		}
		if err == nil || strings.Contains(err.Error(), "\n") {
			t.Fatalf("an archive with byte %d changed gave %v", at, err)
		}
	}
}

// same reports whether an archive extracts to the tests' contents.
func same(t *testing.T, r *archive.Reader, dir string) bool {
	t.Helper()
	if err := r.Extract(dir); err != nil {
		return false
	}
	for name, want := range contents() {
		if !bytes.Equal(load(t, filepath.Join(dir, name)), want) {
			return false
		}
	}
	return true
}

// rewrite changes an archive's manifest, and the checksum with it if sum is
// not nil.
func rewrite(t *testing.T, text []byte, change func(map[string]any)) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for r := tar.NewReader(bytes.NewReader(text)); ; {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		if h.Name == "manifest.json" {
			var m map[string]any
			if err := json.Unmarshal(content, &m); err != nil {
				t.Fatal(err)
			}
			change(m)
			if content, err = json.Marshal(m); err != nil {
				t.Fatal(err)
			}
			h.Size = int64(len(content))
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(content); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestOpenRefusesInOneLine(t *testing.T) {
	path := write(t, passphrase)
	whole := load(t, path)
	encryption := func(m map[string]any) map[string]any { return m["encryption"].(map[string]any) }
	firstFile := func(m map[string]any) map[string]any { return m["files"].([]any)[0].(map[string]any) }
	for _, c := range []struct {
		name string
		text []byte
		pass string
		kind error
		want string
	}{
		{"something else", []byte("hello"), "", archive.ErrForeign, "it is no backup"},
		{"another kind", rewrite(t, whole, func(m map[string]any) { m["kind"] = "join" }), "", archive.ErrForeign, "it is a join file, and no backup"},
		{"no passphrase", whole, "", archive.ErrPassphrase, "--passphrase-file"},
		{"wrong passphrase", whole, "incorrect horse", archive.ErrPassphrase, "not the one"},
		{"newer", rewrite(t, whole, func(m map[string]any) { m["format"] = 2 }), "", archive.ErrNewer, "format 2"},
		{"no format", rewrite(t, whole, func(m map[string]any) { delete(m, "format") }), "", archive.ErrDamaged, "manifest"},
		{"changed manifest", rewrite(t, whole, func(m map[string]any) { m["name"] = "other" }), "", archive.ErrDamaged, "manifest was changed"},
		{"a cost beyond reason", rewrite(t, whole, func(m map[string]any) { encryption(m)["argon2id-memory"] = 1 << 30 }), "", archive.ErrDamaged, "makes no sense"},
		{"no threads", rewrite(t, whole, func(m map[string]any) { encryption(m)["argon2id-threads"] = 0 }), "", archive.ErrDamaged, "makes no sense"},
		{"a path that leaves the folder", rewrite(t, whole, func(m map[string]any) { firstFile(m)["name"] = "../x" }), "", archive.ErrDamaged, `called "../x"`},
		{"an absolute path", rewrite(t, whole, func(m map[string]any) { firstFile(m)["name"] = "/etc/x" }), "", archive.ErrDamaged, "called"},
		{"another name", rewrite(t, whole, func(m map[string]any) { firstFile(m)["name"] = "x" }), "", archive.ErrDamaged, "missing"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := archive.Open(save(t, c.text), archive.Backup, []byte(c.pass))
			if !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("Open = %v, want %v in one line with %q", err, c.kind, c.want)
			}
		})
	}
	if _, err := archive.Open(filepath.Join(t.TempDir(), "none"), archive.Backup, nil); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Open of nothing = %v", err)
	}
}

func TestWriteRefusesBadInput(t *testing.T) {
	file := save(t, []byte("x"))
	for name, c := range map[string]struct {
		pass  []byte
		files []archive.Source
		want  string
	}{
		"short passphrase": {[]byte("short"), nil, "at least 12"},
		"empty passphrase": {[]byte{}, nil, "at least 12"},
		"bad name":         {nil, []archive.Source{{Name: "../x", Path: file}}, "file name"},
		"our own name":     {nil, []archive.Source{{Name: "manifest.json", Path: file}}, "file name"},
		"twice":            {nil, []archive.Source{{Name: "x", Path: file}, {Name: "x", Path: file}}, "file name"},
		"missing file":     {nil, []archive.Source{{Name: "x", Path: file + ".none"}}, "cannot read"},
	} {
		err := archive.Write(io.Discard, archive.Manifest{}, c.pass, t.TempDir(), c.files)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: Write = %v, want %q", name, err, c.want)
		}
	}
}
