package image

import (
	"context"
	"io"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/juju/errors"
)

const (
	// buffersSize is how much unpacked content waits to be written at most, in bytes.
	buffersSize = 8 << 20
	// queued is how many runs are planned ahead at most.
	queued = 32
	// maxUnpackers is how many goroutines unpack clusters at most. More would wait for
	// the disk, and each may have a window.
	maxUnpackers = 4
)

// job is a run on its way from the tables to the disk.
type job struct {
	run
	pieces []*piece // that its clusters are in, acquired
	out    []byte   // the run's content, once it is done; nil for zeros
	done   chan struct{}
}

// assembly makes the content of a qcow2 file whose pieces were verified. One goroutine reads the tables
// and has pieces loaded, several unpack clusters, one hashes the content if there is a sum of it, and the
// caller writes, in order. The first error ends all of them.
//
// Nothing waits in a circle, because everything is acquired in the order in which it is written: pieces by the
// one planner, for whole spans, and a buffer before the run that will be in it.
type assembly struct {
	qcow2Header
	*source
	ctx     context.Context
	fail    context.CancelCauseFunc // with the first error
	wg      sync.WaitGroup
	order   chan *job // all, in order
	todo    chan *job // those that are not zeros
	buffers chan []byte

	// Of the planner.
	span       []*job
	spanPieces []int64
}

// newAssembly starts the goroutines, which end when ctx does; fail ends it. Stop it.
func newAssembly(ctx context.Context, fail context.CancelCauseFunc, h qcow2Header, s *source) *assembly {
	size := max(runSize, 1<<h.clusterBits)
	a := &assembly{qcow2Header: h, source: s, ctx: ctx, fail: fail, order: make(chan *job, queued), todo: make(chan *job, queued), buffers: make(chan []byte, buffersSize/size)}
	for range cap(a.buffers) {
		a.buffers <- nil // made when it is needed
	}
	a.wg.Go(func() {
		defer close(a.order)
		defer close(a.todo)
		err := h.plan(a.ctx, s.r.size, s.at, a.add)
		if err == nil {
			err = a.flush()
		}
		if err != nil {
			a.fail(err)
		}
	})
	for range min(max(2, runtime.GOMAXPROCS(0)), maxUnpackers) {
		a.wg.Go(func() {
			if err := a.unpackAll(size); err != nil {
				a.fail(err)
			}
		})
	}
	return a
}

// stop ends the goroutines, loads included, and waits for them.
func (a *assembly) stop() {
	a.fail(nil)
	a.wg.Wait()
	a.source.wg.Wait()
}

// add takes the next run of the plan. Runs are collected to spans, so that neighbouring pieces
// come with one request though more than one run is in them.
func (a *assembly) add(r run) error {
	j := &job{run: r, done: make(chan struct{})}
	all := a.spanPieces
	for _, e := range r.clusters {
		for i := e.offset / pieceSize; i <= (e.offset+e.n-1)/pieceSize; i++ {
			if !slices.Contains(all, i) {
				all = append(all, i)
			}
		}
	}
	if len(a.span) > 0 && (len(all) > runPieces || len(a.span) == queued) {
		if err := a.flush(); err != nil {
			return err
		}
		return a.add(r)
	}
	a.span, a.spanPieces = append(a.span, j), all
	return nil
}

// flush has the span's pieces loaded and hands its runs on.
func (a *assembly) flush() error {
	if len(a.span) == 0 {
		return nil
	}
	got, err := a.acquire(a.ctx, a.spanPieces)
	if err != nil {
		return err
	}
	a.share(got)
	for _, j := range a.span {
		if err := a.send(a.order, j); err != nil {
			return err
		}
		if j.clusters == nil {
			close(j.done)
		} else if err := a.send(a.todo, j); err != nil {
			return err
		}
	}
	a.span, a.spanPieces = a.span[:0], a.spanPieces[:0]
	return nil
}

// share makes each run of the span a user of its pieces, instead of the span.
func (a *assembly) share(span []*piece) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, p := range span {
		for _, j := range a.span {
			if slices.ContainsFunc(j.clusters, p.has) {
				j.pieces = append(j.pieces, p)
				p.users++
			}
		}
		p.users--
	}
}

// send hands a job on.
func (a *assembly) send(to chan<- *job, j *job) error {
	select {
	case to <- j:
		return nil
	case <-a.ctx.Done():
		return errors.Trace(context.Cause(a.ctx))
	}
}

// unpackAll makes content of runs until there are no more. size is that of a buffer.
func (a *assembly) unpackAll(size int) error {
	u := &unpacker{qcow2Header: a.qcow2Header}
	defer u.close()
	for {
		var buffer []byte
		select {
		case buffer = <-a.buffers:
		case <-a.ctx.Done():
			return errors.Trace(context.Cause(a.ctx))
		}
		var j *job
		select {
		case j = <-a.todo:
		case <-a.ctx.Done():
			return errors.Trace(context.Cause(a.ctx))
		}
		if j == nil {
			return nil // the end; nobody needs the buffer any more
		}
		if buffer == nil {
			buffer = make([]byte, size)
		}
		if err := wait(a.ctx, j.pieces); err != nil {
			return errors.Annotatef(err, "cannot read qcow2 at byte %d", j.pos)
		}
		if err := u.fill(buffer, j.run, view(j.pieces)); err != nil {
			return err
		}
		a.release(j.pieces)
		j.out = buffer[:j.n]
		close(j.done)
	}
}

// next returns the next job that is done, io.EOF behind the last, or the first error of all
// goroutines.
func (a *assembly) next() (*job, error) {
	j, ok := (*job)(nil), false
	select {
	case j, ok = <-a.order:
	case <-a.ctx.Done():
	}
	if ok {
		select {
		case <-j.done:
			return j, nil
		case <-a.ctx.Done():
		}
	}
	return nil, a.end()
}

// end returns the first error of all goroutines, io.EOF if there is none.
func (a *assembly) end() error {
	if a.ctx.Err() != nil {
		return errors.Trace(context.Cause(a.ctx))
	}
	return io.EOF
}

// recycle gives a job's buffer back.
func (a *assembly) recycle(j *job) {
	if j.out != nil {
		a.buffers <- j.out[:cap(j.out)]
	}
}

// hashed returns what next gives, with each job's content hashed in a goroutine of its own.
func (a *assembly) hashed(hash func([]byte)) func() (*job, error) {
	out := make(chan *job, queued)
	a.wg.Go(func() {
		defer close(out)
		for {
			j, err := a.next()
			if err != nil {
				return // whoever asks for the next has it too
			}
			hash(j.out)
			for left := j.n - int64(len(j.out)); left > 0 && a.ctx.Err() == nil; left -= min(left, chunkSize) {
				hash(zeroChunk[:min(left, chunkSize)])
			}
			if a.send(out, j) != nil {
				return
			}
		}
	})
	return func() (*job, error) {
		select {
		case j, ok := <-out:
			if ok {
				return j, nil
			}
		case <-a.ctx.Done():
		}
		return nil, a.end()
	}
}

// writeQcow2 writes an image that must be read twice: once whole, to verify it before
// any of its structure is believed, and then by parts as its tables lead.
func (w *Writer) writeQcow2(ctx context.Context, r *remote, v *verifier, out *blockWriter) error {
	if err := out.clear(); err != nil {
		return err
	}
	if !r.ranges || r.size < 0 {
		return errors.NotSupportedf("qcow2 from a server that serves no parts")
	}
	v.digest = r.digest
	p := &pieces{}
	if err := r.readAll(ctx, append(v.fileHashes(), p.write)); err != nil {
		return err
	}
	p.end()
	if err := v.checkFile(); err != nil {
		return err
	}
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	source := newSource(r, p, fail)
	head, err := source.at(ctx, 0, min(headSize, r.size)) // the verified header, not the first answer
	if err != nil {
		return err
	}
	h, err := parseQcow2(head, r.size)
	if err != nil {
		return err
	}
	if h.size > uint64(out.size) {
		return errors.Annotatef(ErrTooLarge, "disk of %d bytes, image of %d", out.size, h.size)
	}
	a := newAssembly(ctx, fail, h, source)
	defer a.stop()
	next := a.next
	if hashes := v.contentHashes(); len(hashes) > 0 {
		next = a.hashed(hashes[0])
	}
	if err := writeJobs(next, a.recycle, out); err != nil {
		return err
	}
	if out.written() != int64(h.size) {
		return errors.Errorf("%d bytes of qcow2 were written, want %d", out.written(), h.size)
	}
	return v.checkContent()
}

// writeJobs writes all jobs.
func writeJobs(next func() (*job, error), recycle func(*job), out *blockWriter) error {
	last := time.Now()
	for {
		j, err := next()
		if err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		if j.out != nil {
			err = out.write(j.out)
		} else {
			err = out.skip(j.n)
		}
		if err != nil {
			return err
		}
		recycle(j)
		if time.Since(last) > progressEvery {
			last = time.Now()
			logger.Infof("image: %d MiB written", out.written()>>20)
		}
	}
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
