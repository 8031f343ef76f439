package image

import (
	"io"
	"sync"

	"github.com/juju/errors"
)

const (
	// chunkSize is what stages hand on, and what is written at a time. It is small enough
	// that a chunk is still in a processor's cache when the next stage takes it.
	chunkSize = 1 << 20
	// chunks is how many chunks an ahead has at most. All of its stages share them.
	chunks = 12
)

// chunk is what one stage hands to the next: bytes, or the error that ends them.
type chunk struct {
	b   []byte
	err error
}

// ahead reads from another reader in its own goroutine, so that what comes before and
// what comes after run on different cores. Its chunks go round: from free through
// the stages to the one who reads, who gives them back.
type ahead struct {
	full chan chunk // closed by the last stage
	free chan []byte
	quit chan struct{}
	wg   sync.WaitGroup
	once sync.Once

	// Of the one who reads.
	end  error  // what next has met
	rest []byte // not given out by Read yet
	held []byte // the chunk that rest is part of
}

// newAhead starts reading r in chunks. Each function sees every chunk, in order, before
// it is handed on, in a goroutine of its own: what two of them cost is not added
// up. Whole chunks are filled as far as r goes.
func newAhead(r io.Reader, each ...func([]byte)) *ahead {
	a := &ahead{free: make(chan []byte, chunks), quit: make(chan struct{})}
	read := newStage()
	a.wg.Go(func() { a.read(r, read) })
	a.full = read
	for _, f := range each {
		in, out := a.full, newStage()
		a.wg.Go(func() { a.pass(in, out, f) })
		a.full = out
	}
	return a
}

// newStage returns a channel between two stages. There is room for all chunks and the
// error behind them, so that no stage ever waits for the one after it.
func newStage() chan chunk { return make(chan chunk, chunks+1) }

// read is the first stage.
func (a *ahead) read(r io.Reader, out chan<- chunk) {
	defer close(out)
	for made := 0; ; {
		var b []byte
		select {
		case <-a.quit:
			return
		case b = <-a.free:
		default: // none is free: a chunk is made only when it is missed, so that few go round where the disk is fast
			if made < chunks {
				b = make([]byte, chunkSize)
				made++
				break
			}
			select {
			case <-a.quit:
				return
			case b = <-a.free:
			}
		}
		n, err := io.ReadFull(r, b)
		if n > 0 {
			out <- chunk{b: b[:n]}
		}
		if err == io.ErrUnexpectedEOF {
			err = shortEnd(r)
		}
		if err != nil {
			out <- chunk{err: err}
			return
		}
	}
}

// pass is a stage that looks at the bytes. It ends after the one before it.
func (a *ahead) pass(in <-chan chunk, out chan<- chunk, each func([]byte)) {
	defer close(out)
	for c := range in {
		select {
		case <-a.quit:
			return
		default:
		}
		if c.err == nil {
			each(c.b)
		}
		out <- c
	}
}

// shortEnd tells the end of r, which io.ReadFull reports like a file cut short, from
// an error of that name by r itself: r then gives it again.
func shortEnd(r io.Reader) error {
	var b [1]byte
	if _, err := r.Read(b[:]); err != nil {
		return err
	}
	return io.EOF
}

// next returns the next chunk, which is the caller's until it gives it back by
// recycle, or the error with which r ended, again and again.
func (a *ahead) next() ([]byte, error) {
	if a.end != nil {
		return nil, a.end
	}
	c, ok := <-a.full
	if !ok {
		c.err = errors.New("reading was given up")
	}
	a.end = c.err
	return c.b, c.err
}

func (a *ahead) recycle(b []byte) { a.free <- b[:cap(b)] }

// Read implements io.Reader.
func (a *ahead) Read(p []byte) (int, error) {
	if len(a.rest) == 0 {
		if a.held != nil {
			a.recycle(a.held)
			a.held = nil
		}
		b, err := a.next()
		if err != nil {
			return 0, err
		}
		a.held, a.rest = b, b
	}
	n := copy(p, a.rest)
	a.rest = a.rest[n:]
	return n, nil
}

// stop ends the goroutines and waits for them. What it reads from must already be
// such that a read returns.
func (a *ahead) stop() {
	a.once.Do(func() { close(a.quit) })
	a.wg.Wait()
}
