// This file needs a sink that writes only parts.
package audit

import (
	"bytes"
	"testing"

	"github.com/juju/errors"
)

// narrow takes some bytes of a write, and fails if there were more.
type narrow struct {
	bytes.Buffer
	room int
}

func (n *narrow) Write(p []byte) (int, error) {
	if len(p) <= n.room {
		n.room -= len(p)
		return n.Buffer.Write(p)
	}
	took, _ := n.Buffer.Write(p[:n.room]) // never fails
	n.room = 0
	return took, errors.New("no space left on device")
}

func (*narrow) Sync() error  { return nil }
func (*narrow) Close() error { return nil }

func TestTornLineIsWrittenAgain(t *testing.T) {
	file := &narrow{room: 7}
	l := &Log{file: file}
	left, torn, err := l.put([]byte("one\ntwo\nthree\n"), false)
	if err == nil || !torn || string(left) != "two\nthree\n" {
		t.Fatalf("put = %q, %v, %v, want the second line left and torn", left, torn, err)
	}
	if left, torn, err = l.put(left, torn); err == nil || !torn || string(left) != "two\nthree\n" {
		t.Fatalf("put without room = %q, %v, %v, want the same", left, torn, err)
	}
	file.room = 100
	if left, torn, err = l.put(left, torn); err != nil || torn || len(left) > 0 {
		t.Fatalf("put = %q, %v, %v, want everything written", left, torn, err)
	}
	if got := file.String(); got != "one\ntwo\ntwo\nthree\n" {
		t.Errorf("file holds %q, want every line whole", got)
	}
}
