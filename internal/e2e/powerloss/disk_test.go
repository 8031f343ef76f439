package powerloss_test

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"testing"

	"github.com/slipway-project/slipway/internal/e2e/powerloss"
)

// sectors returns so many sectors full of b.
func sectors(n int, b byte) []byte { return bytes.Repeat([]byte{b}, 512*n) }

func newDisk(t *testing.T, n int) *powerloss.Disk {
	t.Helper()
	d, err := powerloss.NewDisk(sectors(n, '-'))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// content returns a letter for each sector.
func content(t *testing.T, d *powerloss.Disk) string {
	t.Helper()
	p := make([]byte, d.Size())
	if _, err := d.ReadAt(p, 0); err != nil {
		t.Fatal(err)
	}
	var out []byte
	for i := 0; i < len(p); i += 512 {
		out = append(out, p[i])
	}
	return string(out)
}

func TestOnlyFlushedWritesOutliveTheCut(t *testing.T) {
	d := newDisk(t, 4)
	write := func(p []byte, at int64) {
		t.Helper()
		if _, err := d.WriteAt(p, at); err != nil {
			t.Fatal(err)
		}
	}
	write(sectors(2, 'a'), 0)
	d.Flush()
	write(sectors(2, 'b'), 512)
	if got := content(t, d); got != "abb-" {
		t.Errorf("before the cut: %s, want abb-", got)
	}
	if lost := d.Cut(func() bool { return false }); lost != 2 {
		t.Errorf("%d sectors lost, want 2", lost)
	}
	if got := content(t, d); got != "aa--" {
		t.Errorf("after the cut: %s, want aa--", got)
	}
	write(sectors(1, 'c'), 1536)
	if lost := d.Cut(func() bool { return true }); lost != 0 || content(t, d) != "aa-c" {
		t.Errorf("a cut that loses nothing lost %d: %s, want aa-c", lost, content(t, d))
	}
}

func TestPartsOfSectorsAreRefused(t *testing.T) {
	d := newDisk(t, 2)
	for _, tt := range []struct{ n, at int64 }{{100, 0}, {512, 100}, {1024, 512}, {512, -512}} {
		if _, err := d.WriteAt(make([]byte, tt.n), tt.at); err == nil {
			t.Errorf("%d bytes at %d were written", tt.n, tt.at)
		}
		if _, err := d.ReadAt(make([]byte, tt.n), tt.at); err == nil {
			t.Errorf("%d bytes at %d were read", tt.n, tt.at)
		}
	}
	if _, err := powerloss.NewDisk(make([]byte, 700)); err == nil {
		t.Error("a disk of 700 bytes was made")
	}
}

// TestServe speaks the protocol as its document has it, byte by byte.
func TestServe(t *testing.T) {
	d := newDisk(t, 2)
	writes := 0
	d.Written = func() { writes++ }
	ours, theirs := net.Pipe()
	done := make(chan error, 1)
	go func() { done <- d.Serve(theirs) }()
	send := func(values ...any) {
		t.Helper()
		for _, v := range values {
			if err := binary.Write(ours, binary.BigEndian, v); err != nil {
				t.Fatal(err)
			}
		}
	}
	expect := func(values ...any) {
		t.Helper()
		var want bytes.Buffer
		for _, v := range values {
			_ = binary.Write(&want, binary.BigEndian, v) // to memory
		}
		got := make([]byte, want.Len())
		if _, err := io.ReadFull(ours, got); err != nil || !bytes.Equal(got, want.Bytes()) {
			t.Fatalf("got %x, %v, want %x", got, err, want.Bytes())
		}
	}
	request := func(kind uint16, at uint64, n uint32) {
		t.Helper()
		send(uint32(0x25609513), uint16(0), kind, uint64(77), at, n)
	}
	expect([]byte("NBDMAGICIHAVEOPT"), uint16(3))
	send(uint32(3), []byte("IHAVEOPT"), uint32(8), uint32(0))
	expect(uint64(0x3e889045565a9), uint32(8), uint32(1<<31+1), uint32(0))
	send([]byte("IHAVEOPT"), uint32(7), uint32(6), uint32(0), uint16(0))
	expect(uint64(0x3e889045565a9), uint32(7), uint32(3), uint32(12), uint16(0), uint64(1024), uint16(5))
	expect(uint64(0x3e889045565a9), uint32(7), uint32(1), uint32(0))
	request(1, 512, 512)
	send(sectors(1, 'w'))
	expect(uint32(0x67446698), uint32(0), uint64(77))
	request(0, 512, 512)
	expect(uint32(0x67446698), uint32(0), uint64(77), sectors(1, 'w'))
	request(0, 1024, 512)
	expect(uint32(0x67446698), uint32(22), uint64(77))
	if lost := d.Cut(func() bool { return false }); lost != 1 {
		t.Errorf("%d sectors were not flushed, want 1", lost)
	}
	request(1, 0, 512)
	send(sectors(1, 'f'))
	expect(uint32(0x67446698), uint32(0), uint64(77))
	request(3, 0, 0)
	expect(uint32(0x67446698), uint32(0), uint64(77))
	request(1, 0, 512) // the client dies in the middle of a write
	send([]byte("half"))
	ours.Close()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if writes != 2 {
		t.Errorf("%d whole writes, want 2", writes)
	}
	d.Cut(func() bool { return false })
	if got := content(t, d); got != "f-" {
		t.Errorf("after the cut: %s, want f-", got)
	}
}

func TestOrderRoundTrip(t *testing.T) {
	want := powerloss.Order{Unsynced: true}
	want.Reports[3] = struct{ Tried, Acked int }{8, 7}
	want.Mark.Position, want.Mark.Last[2] = "a position", 5
	word, err := want.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if got, err := powerloss.Decode(word); err != nil || got != want {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
	if _, err := powerloss.Decode("not = one"); err == nil {
		t.Error("another word is an order")
	}
}
