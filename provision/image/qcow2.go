package image

import (
	"bytes"
	"context"
	"io"

	"github.com/juju/errors"
	"github.com/klauspost/compress/flate"
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

// extent is where a cluster is in the file.
type extent struct {
	offset, n int64
	packed    bool
}

// run is a part of the content, of whole clusters except at the content's end.
type run struct {
	pos, n   int64    // in the content
	clusters []extent // nil for zeros
}

const (
	// runSize is how much content a run has at most that is no run of zeros, unless one
	// cluster is larger.
	runSize = 1 << 20
	// runPieces is in how many pieces of the file a run's clusters are at most, unless
	// one cluster is in more.
	runPieces = 4
)

// readAt returns n bytes of a file at offset.
type readAt func(ctx context.Context, offset, n int64) ([]byte, error)

// planner makes runs of the clusters that it is given from front to back.
type planner struct {
	qcow2Header
	file   int64 // size of the file, bytes
	at     readAt
	emit   func(run) error
	run    run
	pieces map[int64]bool // that the run is in
}

// plan reads the tables of a file of so many bytes, and calls emit for each run of its
// content, from front to back.
func (h qcow2Header) plan(ctx context.Context, file int64, at readAt, emit func(run) error) error {
	p := &planner{qcow2Header: h, file: file, at: at, emit: emit, pieces: map[int64]bool{}}
	l1, err := at(ctx, int64(h.l1Offset), int64(h.l1Entries)*8)
	if err != nil {
		return err
	}
	size := int64(1) << h.clusterBits
	var l2 []byte
	var of uint64 // offset of l2
	for i := range int64(h.l1Entries) {
		if err := ctx.Err(); err != nil {
			return errors.Trace(err)
		}
		pos := i * size * (size / 8)
		n := min(size*(size/8), int64(h.size)-pos)
		table := be64(l1[i*8:]) & offsetMask
		if table == 0 {
			if err := p.zeros(n); err != nil {
				return err
			}
			continue
		}
		if table != of {
			if l2, err = p.table(ctx, table); err != nil {
				return err
			}
			of = table
		}
		if err := p.clusters(l2, n); err != nil {
			return err
		}
	}
	return p.end()
}

// table reads a second table.
func (p *planner) table(ctx context.Context, offset uint64) ([]byte, error) {
	size := uint64(1) << p.clusterBits
	if offset%size != 0 || !inside(offset, size, p.file) {
		return nil, errors.NotValidf("qcow2 second table at byte %d", offset)
	}
	return p.at(ctx, int64(offset), int64(size))
}

// clusters takes the clusters of a second table, which stand for n bytes of content.
func (p *planner) clusters(l2 []byte, n int64) error {
	size := int64(1) << p.clusterBits
	for ; n > 0; l2, n = l2[8:], n-size {
		e, err := p.extent(be64(l2))
		switch {
		case err != nil:
			return errors.Annotatef(err, "cannot read qcow2 at byte %d", p.run.pos+p.run.n)
		case e.n == 0:
			err = p.zeros(min(size, n))
		default:
			err = p.data(e, min(size, n))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// extent reads an entry of a second table. A cluster of zeros is of no bytes.
func (p *planner) extent(entry uint64) (extent, error) {
	if entry&flagCompressed != 0 {
		shift := 62 - (p.clusterBits - 8)
		offset := entry & (1<<shift - 1)
		sectors := entry&(1<<62-1)>>shift + 1 // of 512 bytes: two clusters at most
		if offset >= uint64(p.file) {
			return extent{}, errors.NotValidf("qcow2 compressed cluster at byte %d", offset)
		}
		return extent{int64(offset), min(int64(sectors*512-offset%512), p.file-int64(offset)), true}, nil
	}
	offset := entry & offsetMask
	if entry&flagZero != 0 || offset == 0 {
		return extent{}, nil
	}
	size := uint64(1) << p.clusterBits
	if offset%size != 0 || offset >= uint64(p.file) {
		return extent{}, errors.NotValidf("qcow2 cluster at byte %d", offset)
	}
	return extent{int64(offset), min(int64(size), p.file-int64(offset)), false}, nil // the file may end within its last cluster
}

// zeros takes n bytes of zeros.
func (p *planner) zeros(n int64) error {
	if p.run.clusters != nil {
		if err := p.end(); err != nil {
			return err
		}
	}
	p.run.n += n
	return nil
}

// data takes a cluster that stands for n bytes of content.
func (p *planner) data(e extent, n int64) error {
	added := 0
	for i := e.offset / pieceSize; i <= (e.offset+e.n-1)/pieceSize; i++ {
		if !p.pieces[i] {
			added++
		}
	}
	if p.run.n > 0 && (p.run.clusters == nil || p.run.n+n > runSize || len(p.pieces)+added > runPieces) {
		if err := p.end(); err != nil {
			return err
		}
	}
	for i := e.offset / pieceSize; i <= (e.offset+e.n-1)/pieceSize; i++ {
		p.pieces[i] = true
	}
	p.run.clusters = append(p.run.clusters, e)
	p.run.n += n
	return nil
}

// end hands on the run, if there is one, and begins another.
func (p *planner) end() error {
	r := p.run
	p.run = run{pos: r.pos + r.n}
	clear(p.pieces)
	if r.n == 0 {
		return nil
	}
	return p.emit(r)
}

// unpacker makes content of clusters. It is of one goroutine; close it.
type unpacker struct {
	qcow2Header
	zr *zstd.Decoder
	fl io.Reader // of deflate, used again
}

// fill puts the content of a run into out, which has room for whole clusters. view
// returns bytes of the file.
func (u *unpacker) fill(out []byte, r run, view func(offset, n int64) []byte) error {
	size := 1 << u.clusterBits
	for i, e := range r.clusters {
		part := out[i*size : (i+1)*size]
		b := view(e.offset, e.n)
		if !e.packed {
			clear(part[copy(part, b):])
		} else if err := u.unpack(part, b); err != nil {
			return errors.Annotatef(err, "cannot read qcow2 at byte %d", r.pos+int64(i*size))
		}
	}
	return nil
}

// unpack fills out from a compressed cluster, behind which b may have anything.
func (u *unpacker) unpack(out, b []byte) error {
	var r io.Reader
	var err error
	if u.zstd {
		if u.zr == nil {
			if u.zr, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(8<<20), zstd.WithDecoderLowmem(true)); err != nil {
				return errors.Trace(err)
			}
		}
		err, r = u.zr.Reset(bytes.NewReader(b)), u.zr
	} else if z, ok := u.fl.(flate.Resetter); ok {
		err, r = z.Reset(bytes.NewReader(b), nil), u.fl
	} else {
		u.fl = flate.NewReader(bytes.NewReader(b))
		r = u.fl
	}
	if err != nil {
		return errors.Trace(err)
	}
	if _, err := io.ReadFull(r, out); err != nil {
		return errors.NewNotValid(err, "qcow2 compressed cluster")
	}
	return nil
}

func (u *unpacker) close() {
	if u.zr != nil {
		u.zr.Close()
	}
}
