package image

import (
	"context"
	"crypto/sha256"
	"io"
	"slices"
	"sync"

	"github.com/juju/errors"
)

const (
	// pieceSize is the unit in which a file is remembered between its two passes.
	pieceSize = 1 << 20
	// maxPieces is how many pieces are in memory at most in the second pass.
	maxPieces = 16
	// maxLoads is how many requests for pieces are under way at most. So many times
	// runPieces are maxPieces.
	maxLoads = 4
)

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

// verify refuses bytes that are not those of the first pass.
func (p *pieces) verify(index int64, b []byte) error {
	sum := sha256.Sum256(b)
	if index >= int64(len(p.sums)) || [16]byte(sum[:16]) != p.sums[index] {
		return errors.Annotatef(ErrMismatch, "server sent other bytes at byte %d than before", index*pieceSize)
	}
	return nil
}

// piece is a piece in memory, or on its way there.
type piece struct {
	index int64
	ready chan struct{} // closed when data or err is there
	data  []byte
	err   error

	// Under the lock of the source.
	users int
	used  int64
}

// has reports whether a part of the cluster is in the piece.
func (p *piece) has(e extent) bool {
	return e.offset < (p.index+1)*pieceSize && e.offset+e.n > p.index*pieceSize
}

// source reads pieces of a file that the first pass has seen, several at a time, and keeps
// the last ones. One goroutine acquires, any release.
type source struct {
	r     *remote
	p     *pieces
	fail  func(error)   // told of what cannot be loaded
	slots chan struct{} // one for each request that is under way
	freed chan struct{} // told when a piece has no users any more
	wg    sync.WaitGroup

	mu    sync.Mutex
	held  map[int64]*piece
	spare [][]byte
	clock int64
}

func newSource(r *remote, p *pieces, fail func(error)) *source {
	return &source{r: r, p: p, fail: fail, slots: make(chan struct{}, maxLoads), freed: make(chan struct{}, 1), held: map[int64]*piece{}}
}

// acquire returns the pieces of these indexes, each of which is then to be released. They are
// loaded meanwhile, neighbours by one request, and are there when they are ready. It waits until
// there is room for all of them, of which there must be no more than maxPieces.
func (s *source) acquire(ctx context.Context, indexes []int64) ([]*piece, error) {
	for {
		got, missing := s.take(indexes)
		if got != nil {
			s.start(ctx, missing)
			return got, nil
		}
		select {
		case <-s.freed:
		case <-ctx.Done():
			return nil, errors.Trace(context.Cause(ctx))
		}
	}
}

// take returns the pieces, and those of them that are to be loaded, or nil without room.
func (s *source) take(indexes []int64) (got, missing []*piece) {
	s.mu.Lock()
	defer s.mu.Unlock()
	need := len(s.held)
	for _, i := range indexes {
		if p := s.held[i]; p != nil {
			p.users++ // so it is not evicted for the others
		} else {
			need++
		}
	}
	for ; need > maxPieces; need-- {
		if !s.evict() {
			for _, i := range indexes {
				if p := s.held[i]; p != nil {
					p.users--
				}
			}
			return nil, nil
		}
	}
	for _, i := range indexes {
		p := s.held[i]
		if p == nil {
			p = &piece{index: i, ready: make(chan struct{}), users: 1}
			if n := len(s.spare); n > 0 {
				p.data, s.spare = s.spare[n-1], s.spare[:n-1]
			} else {
				p.data = make([]byte, pieceSize)
			}
			p.data = p.data[:min(pieceSize, s.r.size-i*pieceSize)]
			s.held[i] = p
			missing = append(missing, p)
		}
		got = append(got, p)
	}
	return got, missing
}

// evict drops the piece that nobody has used for longest, or reports that all are used.
func (s *source) evict() bool {
	var oldest *piece
	for _, p := range s.held {
		if p.users == 0 && (oldest == nil || p.used < oldest.used) {
			oldest = p
		}
	}
	if oldest == nil {
		return false
	}
	delete(s.held, oldest.index)
	s.spare = append(s.spare, oldest.data[:pieceSize])
	return true
}

// release gives pieces back that were acquired, and that are ready.
func (s *source) release(all []*piece) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range all {
		s.clock++
		p.users, p.used = p.users-1, s.clock
	}
	select {
	case s.freed <- struct{}{}:
	default:
	}
}

// start begins to load pieces, those that are neighbours together.
func (s *source) start(ctx context.Context, missing []*piece) {
	slices.SortFunc(missing, func(a, b *piece) int { return int(a.index - b.index) })
	for len(missing) > 0 {
		n := 1
		for n < len(missing) && n < runPieces && missing[n].index == missing[n-1].index+1 {
			n++
		}
		neighbours := missing[:n]
		missing = missing[n:]
		s.wg.Go(func() { s.load(ctx, neighbours) })
	}
}

// load loads neighbours by one request, or as many as it takes when connections break.
func (s *source) load(ctx context.Context, neighbours []*piece) {
	var err error
	select {
	case s.slots <- struct{}{}:
		defer func() { <-s.slots }()
	case <-ctx.Done():
		err = errors.Trace(ctx.Err())
	}
	last := neighbours[len(neighbours)-1]
	stream := s.r.section(ctx, neighbours[0].index*pieceSize, last.index*pieceSize+int64(len(last.data)))
	defer func() { _ = stream.Close() }()
	for _, p := range neighbours {
		if err == nil {
			if _, err = io.ReadFull(stream, p.data); err == nil {
				err = s.p.verify(p.index, p.data)
			}
		}
		if p.err = err; err != nil {
			s.fail(err) // those who work on other pieces need not go on
		}
		close(p.ready)
	}
}

// wait returns once all pieces are ready, or the first error among them.
func wait(ctx context.Context, all []*piece) error {
	for _, p := range all {
		select {
		case <-p.ready:
		case <-ctx.Done():
			return errors.Trace(context.Cause(ctx))
		}
		if p.err != nil {
			return p.err
		}
	}
	return nil
}

// at returns n bytes at offset. It is a readAt, of the goroutine that acquires.
func (s *source) at(ctx context.Context, offset, n int64) ([]byte, error) {
	if n < 0 || offset < 0 || offset+n > s.r.size {
		return nil, errors.NotValidf("qcow2 part of %d bytes at byte %d", n, offset)
	}
	out := make([]byte, 0, n)
	for n > 0 {
		var indexes []int64
		for i := offset / pieceSize; i <= (offset+n-1)/pieceSize && len(indexes) < runPieces; i++ {
			indexes = append(indexes, i)
		}
		all, err := s.acquire(ctx, indexes)
		if err != nil {
			return nil, err
		}
		if err := wait(ctx, all); err != nil {
			return nil, err // the pieces are not released: nothing goes on after an error
		}
		for _, p := range all {
			b := p.data[offset%pieceSize:]
			b = b[:min(n, int64(len(b)))]
			out = append(out, b...)
			offset, n = offset+int64(len(b)), n-int64(len(b))
		}
		s.release(all)
	}
	return out, nil
}

// view returns a function that gives n bytes at offset out of pieces that are ready. What it
// returns is good until it is called again.
func view(all []*piece) func(offset, n int64) []byte {
	by := make(map[int64][]byte, len(all))
	for _, p := range all {
		by[p.index] = p.data
	}
	var scratch []byte
	return func(offset, n int64) []byte {
		b := by[offset/pieceSize][offset%pieceSize:]
		if int64(len(b)) >= n {
			return b[:n]
		}
		scratch = scratch[:0]
		for n > 0 {
			b := by[offset/pieceSize][offset%pieceSize:]
			b = b[:min(n, int64(len(b)))]
			scratch = append(scratch, b...)
			offset, n = offset+int64(len(b)), n-int64(len(b))
		}
		return scratch
	}
}
