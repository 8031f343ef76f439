package hostkey_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/internal/hostkey"
)

func TestSealAndOpen(t *testing.T) {
	old := hostkey.New()
	sealed := old.Seal("host a", []byte("secret"))
	if strings.Contains(sealed, "secret") || sealed == old.Seal("host a", []byte("secret")) {
		t.Errorf("sealed = %q, want it hidden, and never the same twice", sealed)
	}
	both := old.WithNew()
	for name, r := range map[string]*hostkey.Ring{"its own": old, "a new key in front": both} {
		if got, err := r.Open("host a", sealed); err != nil || string(got) != "secret" {
			t.Errorf("with %s: %q, %v", name, got, err)
		}
	}
	if !old.Current(sealed) || both.Current(sealed) {
		t.Error("Current does not tell the sealing key")
	}
	changed := sealed[:len(sealed)-6] + "AAAA" + sealed[len(sealed)-2:]
	for name, err := range map[string]error{
		"another key":   second(hostkey.New().Open("host a", sealed)),
		"another host":  second(old.Open("host b", sealed)),
		"changed text":  second(old.Open("host a", changed)),
		"no text":       second(old.Open("host a", "")),
		"cut off":       second(old.Open("host a", sealed[:strings.Index(sealed, ":")+5])),
		"the older one": second(old.Open("host a", both.Seal("host a", nil))),
	} {
		if !errors.Is(err, hostkey.ErrWrongKey) {
			t.Errorf("%s: %v, want ErrWrongKey", name, err)
		}
	}
	if got := fmt.Sprintf("%v %+v %s %#v", old, old, old, old); strings.ReplaceAll(got, "[redacted]", "") != "   " {
		t.Errorf("a ring prints as %s", got)
	}
}

func second(_ []byte, err error) error { return err }

func TestVouch(t *testing.T) {
	old := hostkey.New()
	both := old.WithNew()
	text, err := old.Vouch("tests", []byte("message"))
	if err != nil {
		t.Fatal(err)
	}
	newer, err := both.Vouch("tests", []byte("message"))
	if err != nil {
		t.Fatal(err)
	}
	last := map[byte]string{'A': "B"}[text[len(text)-10]]
	if last == "" {
		last = "A"
	}
	tests := []struct {
		name    string
		ring    *hostkey.Ring
		purpose string
		message string
		text    string
		want    bool
	}{
		{"its own", old, "tests", "message", text, true},
		{"with a new key in front", both, "tests", "message", text, true},
		{"by the new key", both, "tests", "message", newer, true},
		{"by a key that is not there yet", old, "tests", "message", newer, false},
		{"of another site", hostkey.New(), "tests", "message", text, false},
		{"for another purpose", old, "others", "message", text, false},
		{"another message", old, "tests", "massage", text, false},
		{"changed", old, "tests", "message", text[:len(text)-10] + last + text[len(text)-9:], false},
		{"cut off", old, "tests", "message", text[:len(text)-4], false},
		{"the key alone", old, "tests", "message", text[:strings.Index(text, ":")+1], false},
		{"nothing", old, "tests", "message", "", false},
		{"sealed instead", old, "tests", "message", old.Seal("tests", []byte("message")), false},
	}
	for _, tt := range tests {
		if got, err := tt.ring.Vouched(tt.purpose, []byte(tt.message), tt.text); got != tt.want || err != nil {
			t.Errorf("%s: Vouched = %v, %v, want %v", tt.name, got, err, tt.want)
		}
	}
}

func TestFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "hosts.key")
	if _, err := hostkey.Read(path); !errors.Is(err, errors.NotFound) {
		t.Errorf("Read of no file = %v", err)
	}
	r := hostkey.New().WithNew()
	if err := r.Write(path); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode = %v, %v, want 0600", info.Mode(), err)
	}
	again, err := hostkey.Read(path)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := again.Open("x", r.Seal("x", []byte("s"))); err != nil || string(got) != "s" {
		t.Errorf("Open by a ring read back = %q, %v", got, err)
	}
	for _, bad := range []string{"", "id", "id !!", "id c2hvcnQ=", " c2hvcnQ="} {
		if err := os.WriteFile(path, []byte(bad), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := hostkey.Read(path); !errors.Is(err, errors.NotValid) {
			t.Errorf("Read of %q = %v, want NotValid", bad, err)
		}
	}
}

// A key is replaced in steps, each of which survives the file; all the keys open.
func TestReplacement(t *testing.T) {
	path := filepath.Join(t.TempDir(), "hosts.key")
	old := hostkey.New()
	sealed := old.Seal("a", []byte("secret"))
	through := func(r *hostkey.Ring) *hostkey.Ring {
		t.Helper()
		if err := r.Write(path); err != nil {
			t.Fatal(err)
		}
		got, err := hostkey.Read(path)
		if err != nil || !got.Equal(r) {
			t.Fatalf("read back: %v, %v", got, err)
		}
		return got
	}
	added := through(old.WithSpare())
	if !added.Current(sealed) || added.Len() != 2 || added.Equal(old) {
		t.Error("a spare key seals")
	}
	promoted := through(added.Promoted())
	if promoted.Current(sealed) || !promoted.Promoted().Equal(promoted) {
		t.Error("the spare key does not seal, or not for good")
	}
	retiring := through(promoted.Retiring())
	kept, n := retiring.Kept()
	if n != 1 || kept.Len() != 1 || kept.Current(sealed) {
		t.Errorf("kept %d keys, dropped %d", kept.Len(), n)
	}
	for i, r := range []*hostkey.Ring{added, promoted, retiring} {
		if got, err := r.Open("a", sealed); err != nil || string(got) != "secret" {
			t.Errorf("step %d: %q, %v", i, got, err)
		}
	}
	if _, err := kept.Open("a", sealed); !errors.Is(err, hostkey.ErrWrongKey) {
		t.Errorf("the old key opens though it was dropped: %v", err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("retired "+string(text)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := hostkey.Read(path); !errors.Is(err, errors.NotValid) {
		t.Errorf("a file whose first key is retired: %v", err)
	}
}
