// Package golden compares what a test produced with a file that was read and
// approved by a person. Run the test with -update to write the files anew, and
// read the difference before committing it.
package golden

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/juju/errors"
)

// update is the only definition of the flag; a second one would panic.
var update = flag.Bool("update", false, "write golden files anew instead of comparing")

// contextLines is how many equal lines are shown around a difference.
const contextLines = 2

// maxShown bounds the lines of one report.
const maxShown = 60

// Check fails the test unless got equals the content of testdata/name. With
// -update it writes that file instead. Names may contain folders.
func Check[T string | []byte](t testing.TB, name string, got T) {
	t.Helper()
	path := filepath.Join("testdata", filepath.FromSlash(name))
	if err := check(path, []byte(got), *update); err != nil {
		t.Error(err)
	}
}

// check compares or writes one file.
func check(path string, got []byte, write bool) error {
	if write {
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			return errors.Annotate(err, "cannot write golden file")
		}
		return errors.Annotate(os.WriteFile(path, got, 0o666), "cannot write golden file")
	}
	want, err := os.ReadFile(path)
	if err != nil {
		return errors.Errorf("%v; run the test with -update to write it", err)
	}
	if bytes.Equal(got, want) {
		return nil
	}
	return errors.Errorf("output differs from %s (-want +got); if that is right, run the test with -update:\n%s",
		path, Diff(string(want), string(got)))
}

// Diff returns the lines that differ between want and got, marked "-" and "+",
// with a few equal lines around them. It returns "" for equal texts.
func Diff(want, got string) string {
	if want == got {
		return ""
	}
	a, b := strings.SplitAfter(want, "\n"), strings.SplitAfter(got, "\n")
	head := 0
	for head < len(a) && head < len(b) && a[head] == b[head] {
		head++
	}
	tail := 0
	for tail < len(a)-head && tail < len(b)-head && a[len(a)-1-tail] == b[len(b)-1-tail] {
		tail++
	}
	from := max(0, head-contextLines)
	lines := []string{fmt.Sprintf("@@ line %d @@\n", from+1)}
	lines = mark(lines, " ", a[from:head])
	lines = append(lines, script(a[head:len(a)-tail], b[head:len(b)-tail])...)
	lines = mark(lines, " ", a[len(a)-tail:min(len(a), len(a)-tail+contextLines)])
	if len(lines) > maxShown {
		rest := len(lines) - maxShown
		lines = append(lines[:maxShown], fmt.Sprintf("... and %d more lines\n", rest))
	}
	return strings.Join(lines, "")
}

// script returns the marked lines that turn a into b by a longest common
// subsequence. Very long parts are shown as all removed and all added.
func script(a, b []string) []string {
	if len(a)*len(b) > 4_000_000 {
		return mark(mark(nil, "-", a), "+", b)
	}
	common := make([][]int, len(a)+1) // common[i][j] is for a[i:] and b[j:]
	for i := range common {
		common[i] = make([]int, len(b)+1)
	}
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if a[i] == b[j] {
				common[i][j] = common[i+1][j+1] + 1
			} else {
				common[i][j] = max(common[i+1][j], common[i][j+1])
			}
		}
	}
	var out []string
	i, j := 0, 0
	for i < len(a) && j < len(b) {
		switch {
		case a[i] == b[j]:
			out = mark(out, " ", a[i:i+1])
			i, j = i+1, j+1
		case common[i+1][j] >= common[i][j+1]:
			out = mark(out, "-", a[i:i+1])
			i++
		default:
			out = mark(out, "+", b[j:j+1])
			j++
		}
	}
	return mark(mark(out, "-", a[i:]), "+", b[j:])
}

// mark appends lines with a sign before each, and says where the newline at
// the end of a file is missing.
func mark(out []string, sign string, lines []string) []string {
	for _, line := range lines {
		if line == "" {
			continue // what SplitAfter leaves behind the last newline
		}
		if !strings.HasSuffix(line, "\n") {
			line += " (no newline at the end)\n"
		}
		out = append(out, sign+line)
	}
	return out
}
