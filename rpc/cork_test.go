package rpc

import (
	"bytes"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/juju/errors"
)

// recorder is a connection that notes what is written, write by write.
type recorder struct {
	net.Conn
	writes    []string
	deadlines int
	writeBy   time.Time
	err       error
}

func (r *recorder) Write(p []byte) (int, error) {
	r.writes = append(r.writes, string(p))
	return len(p), r.err
}

func (r *recorder) SetWriteDeadline(t time.Time) error {
	r.deadlines++
	r.writeBy = t
	return nil
}

func TestCorkMakesOneWriteOfMany(t *testing.T) {
	r := new(recorder)
	c := &cork{Conn: r}
	put := func(texts ...string) {
		for _, text := range texts {
			if n, err := c.Write([]byte(text)); n != len(text) || err != nil {
				t.Errorf("Write = %d, %v", n, err)
			}
		}
	}
	big, half := strings.Repeat("b", maxHeld+1), strings.Repeat("h", maxHeld/2+1)
	put("before")
	c.hold()
	put("a", "b", "c")
	if err := c.release(time.Now()); err != nil {
		t.Errorf("release = %v", err)
	}
	c.hold()
	put("d", big, half, half)
	if err := c.release(time.Now()); err != nil {
		t.Errorf("release = %v", err)
	}
	c.hold()
	if err := c.release(time.Now()); err != nil {
		t.Errorf("release of nothing = %v", err)
	}
	put("after")
	if want := []string{"before", "abc", "d", big, half, half, "after"}; !slices.Equal(r.writes, want) {
		t.Errorf("%d writes, want %d", len(r.writes), len(want))
	}
}

func TestCorkTellsFailuresAtItsRelease(t *testing.T) {
	failure := errors.New("no")
	c := &cork{Conn: &recorder{err: failure}}
	c.hold()
	if _, err := c.Write([]byte("a")); err != nil {
		t.Errorf("a write that is held back = %v, want nil", err)
	}
	if _, err := c.Write(bytes.Repeat([]byte("b"), maxHeld)); !errors.Is(err, failure) {
		t.Errorf("a write that makes room = %v, want the failure", err)
	}
	if _, err := c.Write([]byte("c")); err != nil {
		t.Errorf("a write that is held back = %v, want nil", err)
	}
	if err := c.release(time.Now()); !errors.Is(err, failure) {
		t.Errorf("release = %v, want the failure", err)
	}
}

func TestCorkMovesADeadlineOnlyIfItMatters(t *testing.T) {
	r := new(recorder)
	c := &cork{Conn: r, slack: time.Second}
	at := time.Now()
	for i, step := range []struct {
		to   time.Time
		sets int
	}{
		{at, 1}, {at.Add(time.Second - 1), 1}, {at.Add(time.Second), 2}, {at, 3}, {time.Time{}, 4}, {at, 5},
	} {
		if err := c.SetWriteDeadline(step.to); err != nil || r.deadlines != step.sets {
			t.Errorf("step %d: %d deadlines set, want %d, %v", i, r.deadlines, step.sets, err)
		}
	}
}

func TestCorkGivesItsReleaseTimeOfItsOwn(t *testing.T) {
	r := new(recorder)
	c := &cork{Conn: r, slack: time.Second}
	now := time.Now()
	pong, reply := now.Add(time.Second), now.Add(30*time.Second)
	c.hold()
	if _, err := c.Write([]byte("a")); err != nil {
		t.Fatal(err)
	}
	if err := c.SetWriteDeadline(pong); err != nil {
		t.Fatal(err)
	}
	if err := c.release(reply); err != nil {
		t.Fatal(err)
	}
	if !r.writeBy.Equal(reply) {
		t.Errorf("written by %v, want %v: not the moment of a pong that came between", r.writeBy.Sub(now), reply.Sub(now))
	}
}
