package printable_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/juju/errors"
	"pgregory.net/rapid"

	"github.com/slipway-project/slipway/internal/printable"
)

// hostile is text that does something to a terminal, and what is left of it.
var hostile = []struct{ name, text, line, whole string }{
	{"plain", "näme 漢字 ✓", "näme 漢字 ✓", "näme 漢字 ✓"},
	{"title", "\x1b]0;owned\x07x", "\ufffd]0;owned\ufffdx", "\ufffd]0;owned\ufffdx"},
	{"eight-bit CSI", "a\u009b2Jb", "a\ufffd2Jb", "a\ufffd2Jb"},
	{"raw eight-bit CSI", "a\x9b2Jb", "a\ufffd2Jb", "a\ufffd2Jb"},
	{"forged line", "a\nstate: ok\tb\rc", "a state: ok b c", "a\nstate: ok\tb\ufffdc"},
	{"direction", "a\u202egnp.exe\u2066", "a\ufffdgnp.exe\ufffd", "a\ufffdgnp.exe\ufffd"},
	{"separators", "a\u2028b\u2029c\x7f", "a\ufffdb\ufffdc\ufffd", "a\ufffdb\ufffdc\ufffd"},
}

func TestWhatIsLeftOfHostileText(t *testing.T) {
	for _, test := range hostile {
		t.Run(test.name, func(t *testing.T) {
			if got := printable.Line(test.text); got != test.line {
				t.Errorf("Line = %q, want %q", got, test.line)
			}
			if got := printable.Text(test.text); got != test.whole {
				t.Errorf("Text = %q, want %q", got, test.whole)
			}
			for cut := range len(test.text) + 1 { // wherever a write ends
				var out bytes.Buffer
				w := printable.NewWriter(&out)
				for _, part := range []string{test.text[:cut], test.text[cut:], "."} {
					if n, err := w.Write([]byte(part)); n != len(part) || err != nil {
						t.Fatalf("Write = %d, %v", n, err)
					}
				}
				if got := out.String(); got != test.whole+"." {
					t.Errorf("cut at %d: written %q, want %q", cut, got, test.whole+".")
				}
			}
		})
	}
}

func TestJSONMeansTheSame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.String().Draw(t, "text") + rapid.SampledFrom([]string{"", "\u009b", "\u202e", "\x7f", "\x1b"}).Draw(t, "end")
		data, err := json.MarshalIndent(map[string]string{"a": text}, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		safe := printable.JSON(data)
		var got map[string]string
		if err := json.Unmarshal(safe, &got); err != nil || got["a"] != strings.ToValidUTF8(text, "\ufffd") {
			t.Fatalf("%q became %q, %v", data, safe, err)
		}
		for _, r := range string(safe) {
			if r != '\n' && (unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)) {
				t.Fatalf("%U is left in %q", r, safe)
			}
		}
		if !utf8.Valid(safe) {
			t.Fatalf("%q is no UTF-8", safe)
		}
	})
}

// full is a disk without room.
type full struct{}

const errFull = errors.ConstError("no room")

func (full) Write([]byte) (int, error) { return 0, errFull }

func TestAWriterFailsAsWhatItWritesToDoes(t *testing.T) {
	if n, err := printable.NewWriter(full{}).Write([]byte("x")); n != 0 || !errors.Is(err, errFull) {
		t.Errorf("Write = %d, %v", n, err)
	}
}
