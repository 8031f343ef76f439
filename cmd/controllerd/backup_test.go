package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// execute runs a command and returns what it printed on both outputs.
func execute(t *testing.T, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	var out, log bytes.Buffer
	err = run(t.Context(), append(args, "--logging", "<root>=ERROR"), &out, &log)
	return out.String(), log.String(), err
}

func TestBackupAndRestoreCommands(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	if err := os.WriteFile(path("pass"), []byte("correct horse battery\r\nnot read\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path("empty"), []byte("\nnot read\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		args []string
		want string // part of the output, or of the error if it begins with "error:"
	}{
		{[]string{"bootstrap", "--data-dir", path("site"), "--listen", "127.0.0.1:0"}, ""},
		{[]string{"backup", "--data-dir", path("site"), "--out", path("b1"), "--with-secrets", "--passphrase-file", path("pass")}, "backed up"},
		{[]string{"backup", "--data-dir", path("site"), "--out", path("b2")}, "backed up"},
		{[]string{"restore", "--data-dir", path("r1"), "--from", path("b1"), "--passphrase-file", path("pass")}, "serve it with: controllerd run"},
		{[]string{"restore", "--data-dir", path("r2"), "--from", path("b2")}, "had no secrets"},
		{[]string{"restore", "--data-dir", path("r3"), "--from", path("b1")}, "error: cannot use "},
		{[]string{"restore", "--data-dir", path("r3"), "--from", path("b1"), "--passphrase-file", path("none")}, "error: cannot read the passphrase"},
		{[]string{"backup", "--data-dir", path("site"), "--out", path("b3"), "--with-secrets"}, "error: secrets are kept under a passphrase only"},
		{[]string{"restore", "--data-dir", path("r3"), "--from", path("b1"), "--passphrase-file", path("empty")}, "error: " + path("empty") + " has no passphrase in its first line"},
		{[]string{"run", "--data-dir", path("site"), "--images", path("pass")}, "error: --images"},
	} {
		stdout, stderr, err := execute(t, step.args...)
		fails := strings.HasPrefix(step.want, "error:")
		if (err != nil) != fails || !strings.Contains(stdout+stderr, step.want) {
			t.Fatalf("%q printed %q and %q, %v; want %q", step.args, stdout, stderr, err, step.want)
		}
		if strings.Contains(stdout+stderr, "horse") {
			t.Errorf("%q shows the passphrase", step.args)
		}
	}
}
