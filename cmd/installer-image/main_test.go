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
	for name, args := range map[string][]string{
		"nothing": nil, "unknown flag": {"--nope"}, "an argument": {"--kernel", "x", "y"}, "a boot file without a medium": {"--kernel", "x", "--boot", "y"},
		"a key without a certificate": {"--kernel", "x", "--sign-key", "y"},
	} {
		var out, err bytes.Buffer
		if e := run(t.Context(), args, &out, &err); !errors.Is(e, errUsage) || !strings.Contains(err.String(), "-kernel") {
			t.Errorf("%s: run = %v, %q", name, e, err.String())
		}
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
