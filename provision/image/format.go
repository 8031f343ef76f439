package image

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"io"
	"runtime"

	"github.com/juju/errors"
	kgzip "github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// Formats that can be written.
const (
	formatRaw   = "raw"
	formatGzip  = "gzip"
	formatZstd  = "zstd"
	formatXz    = "xz"
	formatLz4   = "lz4"
	formatQcow2 = "qcow2"
)

// maxWindow is the largest window of a compression that is unpacked.
const maxWindow = 128 << 20

// magics tells formats by their first bytes. Those without a name here are
// known and refused: written as they are they would make no disk.
var magics = []struct {
	at     int
	magic  string
	format string
	what   string
}{
	{0, "\x1f\x8b", formatGzip, ""},
	{0, "\x28\xb5\x2f\xfd", formatZstd, ""},
	{0, "\xfd7zXZ\x00", formatXz, ""},
	{0, "\x04\x22\x4d\x18", formatLz4, ""},
	{0, "QFI\xfb", formatQcow2, ""},
	{0, "BZh", "", "bzip2"},
	{0, "PK\x03\x04", "", "zip"},
	{0, "7z\xbc\xaf\x27\x1c", "", "7-Zip"},
	{0, "KDMV", "", "VMDK"},
	{0, "# Disk DescriptorFile", "", "VMDK"},
	{0, "vhdxfile", "", "VHDX"},
	{0, "conectix", "", "VHD"},
	{64, "\x7f\x10\xda\xbe", "", "VDI"},
	{257, "ustar", "", "tar"},
	{0, "\x02\x21\x4c\x18", "", "LZ4 of the legacy kind"},
}

// detect tells a file's format from its beginning. The error satisfies
// errors.NotSupported for what is known and cannot be written, and errors.NotValid for what is
// no image: an empty file, or a page of text from a server.
func detect(head []byte) (string, error) {
	for _, m := range magics {
		if len(head) < m.at+len(m.magic) || string(head[m.at:m.at+len(m.magic)]) != m.magic {
			continue
		}
		if m.format == "" {
			return "", errors.NotSupportedf("image format %s", m.what)
		}
		return m.format, nil
	}
	trimmed := bytes.ToLower(bytes.TrimSpace(head[:min(len(head), 64)]))
	switch {
	case len(head) < 512:
		return "", errors.NotValidf("image of %d bytes", len(head))
	case bytes.HasPrefix(trimmed, []byte("<!doctype")), bytes.HasPrefix(trimmed, []byte("<html")), bytes.HasPrefix(trimmed, []byte("<?xml")):
		return "", errors.NotValidf("image that is a page of HTML")
	}
	return formatRaw, nil
}

// contentSize returns what the beginning tells of the content's size, 0 for nothing, and
// refuses what cannot be unpacked.
func (r *remote) contentSize() (int64, error) {
	switch r.format {
	case formatRaw:
		return max(r.size, 0), nil
	case formatZstd:
		var h zstd.Header
		if err := h.Decode(r.head); err != nil {
			return 0, errors.NewNotValid(err, "zstd header of the image")
		}
		if h.WindowSize > maxWindow && !(h.SingleSegment && h.FrameContentSize <= maxWindow) {
			return 0, windowError(formatZstd, h.WindowSize)
		}
		if h.SingleSegment && h.FrameContentSize > maxWindow {
			return 0, windowError(formatZstd, h.FrameContentSize)
		}
		return 0, nil // a file may have several frames
	case formatXz:
		return 0, checkXz(r.head)
	case formatQcow2:
		h, err := parseQcow2(r.head, r.size)
		if err != nil {
			return 0, err
		}
		if !r.ranges || r.size < 0 {
			return 0, errors.NotSupportedf("qcow2 from a server that serves no parts")
		}
		return int64(h.size), nil
	}
	return 0, nil
}

func windowError(format string, window uint64) error {
	return errors.NotSupportedf("%s window of %d MiB (at most %d MiB)", format, window>>20, maxWindow>>20)
}

// zstdDecoders returns how many goroutines' worth of blocks zstd unpacks at a time. It costs a third
// more processor time to unpack with several than with one, which pays only where there are
// processors beside those that hash and write.
func zstdDecoders(processors int) int {
	if processors < 4 {
		return 1
	}
	return 4
}

// unpack returns a reader of the content of r.
func unpack(format string, r io.Reader) (io.ReadCloser, error) {
	switch format {
	case formatGzip:
		z, err := kgzip.NewReader(r)
		return z, errors.Annotate(err, "cannot unpack gzip")
	case formatZstd:
		z, err := zstd.NewReader(r, zstd.WithDecoderMaxWindow(maxWindow), zstd.WithDecoderLowmem(true), zstd.WithDecoderConcurrency(zstdDecoders(runtime.GOMAXPROCS(0))))
		if err != nil {
			return nil, errors.Annotate(err, "cannot unpack zstd")
		}
		return z.IOReadCloser(), nil
	case formatXz:
		return io.NopCloser(newXzReader(r)), nil
	case formatLz4:
		return io.NopCloser(lz4.NewReader(r)), nil
	}
	return io.NopCloser(r), nil
}

// unpackError gives the errors of the unpackers their kinds.
func unpackError(format string, err error) error {
	switch {
	case err == nil || err == io.EOF:
		return err
	case errors.Is(err, zstd.ErrWindowSizeExceeded), errors.Is(err, zstd.ErrDecoderSizeExceeded):
		return errors.NewNotSupported(err, "zstd window above 128 MiB")
	case errors.Is(err, gzip.ErrHeader), errors.Is(err, gzip.ErrChecksum), errors.Is(err, zstd.ErrCRCMismatch), errors.Is(err, zstd.ErrMagicMismatch), errors.Is(err, io.ErrUnexpectedEOF):
		return errors.Annotatef(errors.WithType(err, ErrMismatch), "cannot unpack %s", format)
	}
	return errors.Annotatef(err, "cannot unpack %s", format)
}

// be reads a big endian number.
func be64(b []byte) uint64 { return binary.BigEndian.Uint64(b) }
func be32(b []byte) uint32 { return binary.BigEndian.Uint32(b) }
