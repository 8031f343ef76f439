package image

import (
	"io"
	"sync"

	"github.com/juju/errors"
)

const (
	// chunkSize is what stages hand on, and what is written at a time.
	chunkSize = 1 << 20
	// chunks is how many chunks may be between two stages.
	chunks = 8
)

// ahead reads from another reader in its own goroutine, so that what comes before and
// what comes after run on different cores. It holds a bounded number of chunks.
type ahead struct {
	full chan []byte
	free chan []byte
	quit chan struct{}
	wg   sync.WaitGroup
	once sync.Once
	err  error // why full was closed
	rest []byte
	held []byte // the chunk that rest is part of
}

// newAhead starts reading r in chunks; each, if not nil, sees every chunk
// before it is handed on. Whole chunks are filled as far as r goes.
func newAhead(r io.Reader, each func([]byte)) *ahead {
	a := &ahead{full: make(chan []byte, chunks), free: make(chan []byte, chunks+2), quit: make(chan struct{})}
	for range chunks {
		a.free <- make([]byte, chunkSize)
	}
	a.wg.Go(func() {
		defer close(a.full)
		for {
			var b []byte
			select {
			case <-a.quit:
				a.err = errors.New("reading was given up")
				return
			case b = <-a.free:
			}
			n, err := io.ReadFull(r, b[:chunkSize])
			if n > 0 {
				if each != nil {
					each(b[:n])
				}
				select {
				case <-a.quit:
					a.err = errors.New("reading was given up")
					return
				case a.full <- b[:n]:
				}
			}
			if err == io.ErrUnexpectedEOF {
				err = shortEnd(r)
			}
			if err != nil {
				a.err = err
				return
			}
		}
	})
	return a
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
// recycle, or the error with which r ended.
func (a *ahead) next() ([]byte, error) {
	b, ok := <-a.full
	if !ok {
		return nil, a.err
	}
	return b, nil
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

// stop ends the goroutine and waits for it. What it reads from must already be
// such that a read returns.
func (a *ahead) stop() {
	a.once.Do(func() { close(a.quit) })
	a.wg.Wait()
}
