// Package printable keeps text of others from doing anything to a terminal or a
// log but to be read there. Machines, BMCs, agents and other people send text that is
// shown to operators: in it, escape sequences move the cursor or set the title, line ends
// forge lines, and marks of direction show one thing where another one stands.
package printable

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/juju/errors"
)

// replacement stands in the place of what is not printed.
const replacement = unicode.ReplacementChar

// dangerous reports whether a rune does something other than to show itself: the control
// characters, those of the upper half too, the separators of lines, and the marks of direction.
func dangerous(r rune) bool {
	return unicode.IsControl(r) || r == '\u2028' || r == '\u2029' || unicode.Is(unicode.Bidi_Control, r)
}

// Line returns text as one line: white space of all kinds is a blank, each character for
// itself, and what is dangerous or no UTF-8 is U+FFFD.
func Line(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\t' || r == '\n' || r == '\v' || r == '\f' || r == '\r':
			return ' '
		case dangerous(r):
			return replacement
		}
		return r
	}, text)
}

// Text returns text of any number of lines: as Line, but line ends and tabs stay.
func Text(text string) string {
	return strings.Map(func(r rune) rune {
		if r != '\t' && r != '\n' && dangerous(r) {
			return replacement
		}
		return r
	}, text)
}

// JSON returns JSON in which what is dangerous is escaped, so that it means the same.
func JSON(data []byte) []byte {
	if bytes.IndexFunc(data, func(r rune) bool { return r != '\n' && dangerous(r) }) < 0 {
		return data
	}
	var out bytes.Buffer
	for _, r := range string(data) {
		if r == '\n' || r == '\t' || r == '\r' || !dangerous(r) {
			out.WriteRune(r)
			continue
		}
		fmt.Fprintf(&out, `\u%04x`, r) // all of them have four digits, and stand in a string
	}
	return out.Bytes()
}

// Writer writes what Text returns of all that is written to it. It is not safe for
// concurrent use unless each write has whole characters.
type Writer struct {
	to   io.Writer
	rest []byte // the beginning of a character whose end is yet to come
}

// NewWriter returns a Writer to w.
func NewWriter(w io.Writer) *Writer { return &Writer{to: w} }

// Write implements io.Writer.
func (w *Writer) Write(p []byte) (int, error) {
	text := p
	if len(w.rest) > 0 {
		text = append(w.rest, p...)
		w.rest = nil
	}
	whole := len(text)
	for back := 1; back < utf8.UTFMax && back <= len(text); back++ {
		at := len(text) - back
		if utf8.RuneStart(text[at]) {
			if !utf8.FullRune(text[at:]) {
				whole = at
			}
			break
		}
	}
	if whole < len(text) {
		w.rest = bytes.Clone(text[whole:])
	}
	if _, err := io.WriteString(w.to, Text(string(text[:whole]))); err != nil {
		return 0, errors.Trace(err)
	}
	return len(p), nil
}
