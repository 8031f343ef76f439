// This file needs the clock of a Dir, which nobody else may set.
package tlsfiles

import (
	"testing"
	"time"
)

func TestCertificateIsRenewedInTime(t *testing.T) {
	d, err := Open(t.TempDir(), Hosts())
	if err != nil {
		t.Fatal(err)
	}
	first, err := d.Certificate()
	if err != nil {
		t.Fatal(err)
	}
	d.now = func() time.Time { return time.Now().Add(leafLife / 2) }
	if same, err := d.Certificate(); err != nil || same != first {
		t.Errorf("certificate was renewed at half its life (%v)", err)
	}
	d.now = func() time.Time { return time.Now().Add(leafLife * 7 / 10) }
	next, err := d.Certificate()
	if err != nil || next == first || !next.Leaf.NotAfter.After(first.Leaf.NotAfter) {
		t.Errorf("certificate was not renewed after two thirds of its life (%v)", err)
	}
}
