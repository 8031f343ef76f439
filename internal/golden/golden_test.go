package golden

// The test is inside the package to reach check, which Check only wraps.

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestCheckAcceptsAnEqualFile(t *testing.T) {
	Check(t, "hello.golden", "hello\nworld\n")
	Check(t, "hello.golden", []byte("hello\nworld\n"))
}

func TestCheckNamesTheDifferingLines(t *testing.T) {
	path := filepath.Join(t.TempDir(), "deep", "x.golden")
	if err := check(path, []byte("a\nb\nc\nd\n"), true); err != nil {
		t.Fatal(err)
	}
	if err := check(path, []byte("a\nb\nc\nd\n"), false); err != nil {
		t.Errorf("check of what was written = %v, want nil", err)
	}
	err := check(path, []byte("a\nb\nX\nd\n"), false)
	if err == nil || !strings.Contains(err.Error(), " b\n-c\n+X\n d\n") || !strings.Contains(err.Error(), "-update") {
		t.Errorf("check of another text = %v, want the differing line and the flag", err)
	}
	if got, _ := os.ReadFile(path); string(got) != "a\nb\nc\nd\n" {
		t.Errorf("comparing changed the file to %q", got)
	}
	if err := check(path+".missing", nil, false); err == nil || !strings.Contains(err.Error(), "-update") {
		t.Errorf("check of a missing file = %v, want the flag named", err)
	}
}

func TestDiff(t *testing.T) {
	for _, c := range []struct{ name, want, got, diff string }{
		{"equal", "a\n", "a\n", ""},
		{"added at the end", "a\n", "a\nb\n", "@@ line 1 @@\n a\n+b\n"},
		{"removed", "a\nb\nc\n", "a\nc\n", "@@ line 1 @@\n a\n-b\n c\n"},
		{"newline missing", "a\n", "a", "@@ line 1 @@\n-a\n+a (no newline at the end)\n"},
		{"two places", "a\nb\nc\nd\ne\n", "a\nB\nc\nD\ne\n", "@@ line 1 @@\n a\n-b\n+B\n c\n-d\n+D\n e\n"},
		{"far down", "1\n2\n3\n4\n5\n", "1\n2\n3\n4\n6\n", "@@ line 3 @@\n 3\n 4\n-5\n+6\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if d := Diff(c.want, c.got); d != c.diff {
				t.Errorf("Diff = %q, want %q", d, c.diff)
			}
		})
	}
}

func TestDiffIsBounded(t *testing.T) {
	long := strings.Repeat("x\n", 5000)
	d := Diff(long, strings.Repeat("y\n", 5000))
	if n := strings.Count(d, "\n"); n != maxShown+1 {
		t.Errorf("Diff has %d lines, want %d", n, maxShown+1)
	}
}
