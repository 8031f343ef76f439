package logfile

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"

	"github.com/juju/errors"
)

// place is a place in a log: so many bytes into a file.
type place struct {
	number int
	offset int64
}

// end returns where the log ends now, and what is closed when that has changed.
func (l *modelLog) end() (place, <-chan struct{}, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return place{}, nil, ErrClosed
	}
	if l.file != nil {
		return place{l.number, l.size}, l.changed, nil
	}
	numbers, err := l.numbers()
	if err != nil || len(numbers) == 0 {
		return place{}, l.changed, errors.Trace(err)
	}
	last := numbers[len(numbers)-1]
	info, err := os.Stat(filepath.Join(l.dir, fileName(last)))
	if err != nil {
		return place{}, nil, errors.Trace(err)
	}
	return place{last, info.Size()}, l.changed, nil
}

// Read calls each with the records of a model's log that a query asks for, the
// oldest first, until the query has an end, ctx is done, or each returns an
// error, which is returned.
func (s *Store) Read(ctx context.Context, model string, q Query, each func(Record) error) error {
	l, err := s.log(model)
	if err != nil {
		return errors.Annotate(err, "cannot read the log")
	}
	r := reader{log: l, q: q, each: each}
	err = r.run(ctx)
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

// reader is one reading of a log.
type reader struct {
	log  *modelLog
	q    Query
	each func(Record) error
	told int // records so far
}

func (r *reader) run(ctx context.Context) error {
	end, changed, err := r.log.end()
	if err != nil {
		return errors.Trace(err)
	}
	at := end
	switch {
	case r.q.Replay:
		at = place{}
	case r.q.Backlog > 0:
		if at, err = r.backlog(ctx, end); err != nil {
			return errors.Trace(err)
		}
	}
	for {
		if at, err = r.forward(ctx, at, end); err != nil {
			return err
		}
		if r.q.NoTail {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Trace(ctx.Err())
		case <-changed:
		}
		if end, changed, err = r.log.end(); err != nil {
			return errors.Trace(err)
		}
	}
}

// forward tells the records from one place to another, and returns the latter.
func (r *reader) forward(ctx context.Context, from, to place) (place, error) {
	numbers, err := r.log.numbers()
	if err != nil {
		return from, errors.Trace(err)
	}
	for _, n := range numbers {
		if n < from.number || n > to.number {
			continue
		}
		start, stop := int64(0), int64(math.MaxInt64)
		if n == from.number {
			start = from.offset
		}
		if n == to.number {
			stop = to.offset
		}
		err := r.log.scan(ctx, n, start, stop, func(_ int64, record *Record) error {
			if !r.q.matches(record) {
				return nil
			}
			if err := r.each(*record); err != nil {
				return err
			}
			if r.told++; r.told == r.q.MaxLines {
				return errEnough
			}
			return nil
		})
		if err != nil {
			return from, err
		}
	}
	return to, nil
}

// backlog returns where the last so many records that are asked for begin.
func (r *reader) backlog(ctx context.Context, end place) (place, error) {
	numbers, err := r.log.numbers()
	if err != nil {
		return end, errors.Trace(err)
	}
	at, want := end, r.q.Backlog
	for _, n := range slices.Backward(numbers) {
		if n > end.number {
			continue
		}
		stop := int64(math.MaxInt64)
		if n == end.number {
			stop = end.offset
		}
		ring := make([]int64, 0, min(want, 1024)) // the last offsets
		found := 0
		err := r.log.scan(ctx, n, 0, stop, func(offset int64, record *Record) error {
			if !r.q.matches(record) {
				return nil
			}
			if len(ring) < want {
				ring = append(ring, offset)
			} else {
				ring[found%want] = offset
			}
			found++
			return nil
		})
		if err != nil {
			return end, errors.Trace(err)
		}
		if found >= want {
			return place{n, ring[found%want]}, nil
		}
		if found > 0 {
			at = place{n, ring[0]}
		}
		want -= found
	}
	return at, nil
}

// scan calls each with the records in a part of a file, and where each begins.
// Lines that are none are left out, and so is a file that has been removed.
func (l *modelLog) scan(ctx context.Context, number int, start, stop int64, each func(offset int64, r *Record) error) error {
	f, err := os.Open(filepath.Join(l.dir, fileName(number)))
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		return errors.Trace(err)
	}
	defer f.Close()
	lines := bufio.NewReaderSize(io.NewSectionReader(f, start, stop-start), 64<<10)
	for offset := start; ; {
		if err := ctx.Err(); err != nil {
			return errors.Trace(err)
		}
		line, err := lines.ReadBytes('\n')
		if err == io.EOF {
			return nil // what is there is no line yet
		}
		if err != nil {
			return errors.Trace(err)
		}
		var r Record
		if json.Unmarshal(bytes.TrimSpace(line), &r) == nil {
			if err := each(offset, &r); err != nil {
				return err
			}
		}
		offset += int64(len(line))
	}
}
