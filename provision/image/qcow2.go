package image

import (
	"bytes"
	"compress/flate"
	"context"
	"crypto/sha256"
	"io"
	"time"

	"github.com/juju/errors"
	"github.com/klauspost/compress/zstd"
)

// What the qcow2 format allows ("qcow2 specification", docs/interop/qcow2.txt of
// QEMU) and what of it is read here.
const (
	minClusterBits = 9
	maxClusterBits = 21
	// maxVirtual is the largest virtual disk, in bytes.
	maxVirtual = 64 << 40
	// maxL1 bounds the first table in entries: 8 MiB of memory.
	maxL1 = 1 << 20

	featureDirty       = 1 << 0
	featureCorrupt     = 1 << 1
	featureExternal    = 1 << 2
	featureCompression = 1 << 3
	featureExtendedL2  = 1 << 4

	offsetMask     = 0x00fffffffffffe00
	flagCompressed = 1 << 62
	flagZero       = 1
)

// qcow2Header is what is needed of a header, checked.
type qcow2Header struct {
	clusterBits uint32
	size        uint64 // of the virtual disk, bytes
	l1Entries   uint32
	l1Offset    uint64
	zstd        bool // compressed clusters are zstd, not deflate
}

// parseQcow2 reads a header. file is the size of the whole file. Everything that
// would lead outside the file, or beyond bounds of memory, is refused: errors.NotSupported for
// features, errors.NotValid for nonsense.
func parseQcow2(b []byte, file int64) (qcow2Header, error) {
	var h qcow2Header
	if len(b) < 72 || string(b[:4]) != "QFI\xfb" {
		return h, errors.NotValidf("qcow2 header of %d bytes", len(b))
	}
	version := be32(b[4:])
	switch {
	case version != 2 && version != 3:
		return h, errors.NotSupportedf("qcow2 version %d", version)
	case be64(b[8:]) != 0 || be32(b[16:]) != 0:
		return h, errors.NotSupportedf("qcow2 with a backing file")
	case be32(b[32:]) != 0:
		return h, errors.NotSupportedf("encrypted qcow2")
	}
	h.clusterBits, h.size, h.l1Entries, h.l1Offset = be32(b[20:]), be64(b[24:]), be32(b[36:]), be64(b[40:])
	if version == 3 {
		if err := h.features(b); err != nil {
			return h, err
		}
	}
	if h.clusterBits < minClusterBits || h.clusterBits > maxClusterBits {
		return h, errors.NotValidf("qcow2 cluster of 2^%d bytes", h.clusterBits)
	}
	if h.size == 0 || h.size > maxVirtual {
		return h, errors.NotValidf("qcow2 disk of %d bytes", h.size)
	}
	perEntry := uint64(1) << (2*h.clusterBits - 3) // bytes that one L1 entry stands for
	need := (h.size + perEntry - 1) / perEntry
	if need > maxL1 || uint64(h.l1Entries) < need {
		return h, errors.NotValidf("qcow2 first table of %d entries for %d bytes", h.l1Entries, h.size)
	}
	h.l1Entries = uint32(need) // more would not be looked at
	if h.l1Offset%(1<<h.clusterBits) != 0 || !inside(h.l1Offset, uint64(h.l1Entries)*8, file) {
		return h, errors.NotValidf("qcow2 first table at byte %d", h.l1Offset)
	}
	return h, nil
}

// features reads what version 3 adds.
func (h *qcow2Header) features(b []byte) error {
	if len(b) < 104 {
		return errors.NotValidf("qcow2 header of %d bytes", len(b))
	}
	f := be64(b[72:])
	for _, bad := range []struct {
		bit  uint64
		what string
	}{
		{featureCorrupt, "qcow2 marked corrupt"}, {featureExternal, "qcow2 with external data"}, {featureExtendedL2, "qcow2 with subclusters"},
		{^uint64(featureDirty | featureCorrupt | featureExternal | featureCompression | featureExtendedL2), "qcow2 with unknown features"},
	} {
		if f&bad.bit != 0 {
			return errors.NotSupportedf("%s", bad.what)
		}
	}
	if length := be32(b[100:]); f&featureCompression != 0 && length >= 105 && len(b) > 104 {
		switch b[104] {
		case 0:
		case 1:
			h.zstd = true
		default:
			return errors.NotSupportedf("qcow2 compression %d", b[104])
		}
	}
	return nil
}

// inside reports whether n bytes at offset are in a file of size bytes.
func inside(offset, n uint64, size int64) bool {
	return size >= 0 && offset <= uint64(size) && n <= uint64(size)-offset
}

// qcow2 reads the content of an image through at.
type qcow2 struct {
	qcow2Header
	at   func(ctx context.Context, offset, n int64) ([]byte, error)
	file int64
	l1   []byte
	l2   []byte
	of   uint64 // offset of l2, 0 for none
	zr   *zstd.Decoder
	fl   io.Reader // of deflate, used again
}

// content calls data for each run of bytes and zero for each run of zeros, from
// front to back.
func (q *qcow2) content(ctx context.Context, data func([]byte) error, zero func(int64) error) error {
	var err error
	if q.l1, err = q.at(ctx, int64(q.l1Offset), int64(q.l1Entries)*8); err != nil {
		return err
	}
	cluster := uint64(1) << q.clusterBits
	for pos := uint64(0); pos < q.size; pos += cluster {
		n := min(cluster, q.size-pos)
		b, err := q.cluster(ctx, pos)
		if err != nil {
			return errors.Annotatef(err, "cannot read qcow2 at byte %d", pos)
		}
		if b == nil {
			err = zero(int64(n))
		} else {
			err = data(b[:n])
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// cluster returns the bytes of the cluster at pos, nil for zeros.
func (q *qcow2) cluster(ctx context.Context, pos uint64) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, errors.Trace(err)
	}
	size := int64(1) << q.clusterBits
	perL2 := uint64(size / 8)
	index := pos >> q.clusterBits
	table := be64(q.l1[index/perL2*8:]) & offsetMask
	if table == 0 {
		return nil, nil
	}
	if table != q.of {
		if table%uint64(size) != 0 || !inside(table, uint64(size), q.file) {
			return nil, errors.NotValidf("qcow2 second table at byte %d", table)
		}
		b, err := q.at(ctx, int64(table), size)
		if err != nil {
			return nil, err
		}
		q.l2, q.of = b, table
	}
	entry := be64(q.l2[index%perL2*8:])
	if entry&flagCompressed != 0 {
		return q.compressed(ctx, entry)
	}
	offset := entry & offsetMask
	if entry&flagZero != 0 || offset == 0 {
		return nil, nil
	}
	// The file may end within its last cluster.
	if offset%uint64(size) != 0 || offset >= uint64(q.file) {
		return nil, errors.NotValidf("qcow2 cluster at byte %d", offset)
	}
	n := min(size, q.file-int64(offset))
	b, err := q.at(ctx, int64(offset), n)
	if err != nil || n == size {
		return b, err
	}
	return append(b, make([]byte, size-n)...), nil
}

// compressed unpacks a cluster.
func (q *qcow2) compressed(ctx context.Context, entry uint64) ([]byte, error) {
	size := 1 << q.clusterBits
	shift := 62 - (q.clusterBits - 8)
	offset := entry & (1<<shift - 1)
	sectors := entry&(1<<62-1)>>shift + 1
	if offset >= uint64(q.file) {
		return nil, errors.NotValidf("qcow2 compressed cluster at byte %d", offset)
	}
	n := min(int64(sectors*512-offset%512), q.file-int64(offset))
	packed, err := q.at(ctx, int64(offset), n)
	if err != nil {
		return nil, err
	}
	out := make([]byte, size)
	var r io.Reader
	if q.zstd {
		if q.zr == nil {
			if q.zr, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(8<<20), zstd.WithDecoderLowmem(true)); err != nil {
				return nil, errors.Trace(err)
			}
		}
		if err := q.zr.Reset(bytes.NewReader(packed)); err != nil {
			return nil, errors.Trace(err)
		}
		r = q.zr
	} else if z, ok := q.fl.(flate.Resetter); ok {
		if err := z.Reset(bytes.NewReader(packed), nil); err != nil {
			return nil, errors.Trace(err)
		}
		r = q.fl
	} else {
		q.fl = flate.NewReader(bytes.NewReader(packed))
		r = q.fl
	}
	if _, err := io.ReadFull(r, out); err != nil {
		return nil, errors.NewNotValid(err, "qcow2 compressed cluster")
	}
	return out, nil
}

// pieceSize is the unit in which a file is remembered between its two passes.
const pieceSize = 1 << 20

// pieces remembers what was verified: a truncated SHA-256 for each piece, 16 bytes for a
// mebibyte. So the second pass can take nothing that the first has not verified,
// whatever the server sends.
type pieces struct {
	sums [][16]byte
	part []byte
}

// write takes the next bytes of the first pass.
func (p *pieces) write(b []byte) {
	for len(b) > 0 {
		if len(p.part) == 0 && len(b) >= pieceSize {
			p.sum(b[:pieceSize])
			b = b[pieceSize:]
			continue
		}
		n := min(len(b), pieceSize-len(p.part))
		p.part = append(p.part, b[:n]...)
		b = b[n:]
		if len(p.part) == pieceSize {
			p.end()
		}
	}
}

// end closes the piece that is open.
func (p *pieces) end() {
	if len(p.part) > 0 {
		p.sum(p.part)
		p.part = p.part[:0]
	}
}

// sum remembers a whole piece.
func (p *pieces) sum(b []byte) {
	sum := sha256.Sum256(b)
	p.sums = append(p.sums, [16]byte(sum[:16]))
}

// verified reads parts of the file that the first pass has seen.
type verified struct {
	r     *remote
	p     *pieces
	cache [8]struct {
		index int64 // of the piece, plus one
		used  int64
		data  []byte
	}
	clock int64
}

// at returns n bytes at offset.
func (v *verified) at(ctx context.Context, offset, n int64) ([]byte, error) {
	if n < 0 || offset < 0 || offset+n > v.r.size {
		return nil, errors.NotValidf("qcow2 part of %d bytes at byte %d", n, offset)
	}
	out := make([]byte, 0, n)
	for n > 0 {
		b, err := v.piece(ctx, offset/pieceSize)
		if err != nil {
			return nil, err
		}
		b = b[offset%pieceSize:]
		b = b[:min(n, int64(len(b)))]
		out = append(out, b...)
		offset, n = offset+int64(len(b)), n-int64(len(b))
	}
	return out, nil
}

// piece returns one piece, from memory if it is there.
func (v *verified) piece(ctx context.Context, index int64) ([]byte, error) {
	v.clock++
	oldest := &v.cache[0]
	for i := range v.cache {
		c := &v.cache[i]
		if c.index == index+1 {
			c.used = v.clock
			return c.data, nil
		}
		if c.used < oldest.used {
			oldest = c
		}
	}
	start := index * pieceSize
	b, err := v.r.part(ctx, start, min(pieceSize, v.r.size-start))
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(b)
	if index >= int64(len(v.p.sums)) || [16]byte(sum[:16]) != v.p.sums[index] {
		return nil, errors.Annotatef(ErrMismatch, "server sent other bytes at byte %d than before", start)
	}
	oldest.index, oldest.used, oldest.data = index+1, v.clock, b
	return b, nil
}

// writeQcow2 writes an image that must be read twice: once whole, to verify it before
// any of its structure is believed, and then by parts as its tables lead.
func (w *Writer) writeQcow2(ctx context.Context, r *remote, v *verifier, out *blockWriter) error {
	if !r.ranges || r.size < 0 {
		return errors.NotSupportedf("qcow2 from a server that serves no parts")
	}
	v.digest = r.digest
	if err := out.clear(); err != nil {
		return err
	}
	p := &pieces{}
	if err := r.readAll(ctx, append(v.fileHashes(), p.write)); err != nil {
		return err
	}
	p.end()
	if err := v.checkFile(); err != nil {
		return err
	}
	h, err := parseQcow2(r.head, r.size)
	if err != nil {
		return err
	}
	if h.size > uint64(out.size) {
		return errors.Annotatef(ErrTooLarge, "disk of %d bytes, image of %d", out.size, h.size)
	}
	source := &verified{r: r, p: p}
	head, err := source.at(ctx, 0, min(headSize, r.size)) // the verified header, not the first answer
	if err != nil {
		return err
	}
	if h, err = parseQcow2(head, r.size); err != nil {
		return err
	}
	hash := func([]byte) {}
	if all := v.contentHashes(); len(all) > 0 {
		hash = all[0]
	}
	q := &qcow2{qcow2Header: h, at: source.at, file: r.size}
	last := time.Now()
	err = q.content(ctx, func(b []byte) error {
		hash(b)
		if time.Since(last) > progressEvery {
			last = time.Now()
			logger.Infof("image: %d MiB written", out.written()>>20)
		}
		return out.write(b)
	}, func(n int64) error {
		if v.content != nil {
			for left := n; left > 0; left -= min(left, chunkSize) {
				hash(zeroChunk[:min(left, chunkSize)])
			}
		}
		return out.skip(n)
	})
	if q.zr != nil {
		q.zr.Close()
	}
	if err != nil {
		return err
	}
	return v.checkContent()
}

// readAll gives each function all bytes of the file, in order.
func (r *remote) readAll(ctx context.Context, each []func([]byte)) error {
	ctx, cancel := context.WithCancel(ctx)
	s := r.stream(ctx)
	a := newAhead(s, each...)
	defer func() {
		cancel()
		a.stop()
		_ = s.Close()
	}()
	for {
		b, err := a.next()
		if err == io.EOF {
			return nil
		} else if err != nil {
			return streamError(ctx, formatRaw, err)
		}
		a.recycle(b)
	}
}
