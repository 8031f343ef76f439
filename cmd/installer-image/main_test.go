package main

// The command has no exported name, so its test is inside.

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/juju/errors"
)

func TestUsage(t *testing.T) {
	for want, args := range map[string][]string{
		"no kernel named":                        nil,
		"flag provided but not defined: -nope":   {"--nope"},
		`unexpected argument "y"`:                {"--kernel", "x", "y"},
		"--boot and --iso go together":           {"--kernel", "x", "--boot", "y"},
		"--sign-key and --sign-cert go together": {"--kernel", "x", "--sign-key", "y"},
	} {
		var out, err bytes.Buffer
		if e := run(t.Context(), args, &out, &err); !errors.Is(e, errUsage) || !strings.Contains(err.String(), want) || strings.Count(err.String(), "\n") != 1 {
			t.Errorf("%q: run = %v, %q, want %q in one line", args, e, err.String(), want)
		}
	}
	var out, err bytes.Buffer
	if e := run(t.Context(), []string{"--help"}, &out, &err); e != nil || !strings.Contains(err.String(), "-sign-cert") {
		t.Errorf("--help: run = %v, %q", e, err.String())
	}
}

func TestWhatIsMissingIsNamed(t *testing.T) {
	dir := t.TempDir()
	kernel := filepath.Join(dir, "vmlinuz")
	if err := os.WriteFile(kernel, []byte("k"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		args []string
		want string
	}{
		{[]string{"--kernel", kernel, "--programs", "no-such-shell"}, "program no-such-shell not found"},
		{[]string{"--kernel", kernel, "--programs", "true", "--stub", filepath.Join(dir, "stub")}, "cannot read EFI stub"},
		{[]string{"--kernel", filepath.Join(dir, "none"), "--programs", "true"}, "cannot read kernel"},
	} {
		var out, stderr bytes.Buffer
		if err := run(t.Context(), tc.args, &out, &stderr); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%v: %v, want %q", tc.args, err, tc.want)
		}
	}
	var stderr bytes.Buffer
	found, err := find([]string{"true", "no-such-tool"}, &stderr)
	if err != nil || len(found) != 1 || !strings.Contains(stderr.String(), "without no-such-tool") {
		t.Errorf("find = %v, %v, %q", found, err, stderr.String())
	}
}
