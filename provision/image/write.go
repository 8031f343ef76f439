package image

import (
	"context"
	"io"
	"time"

	"github.com/juju/errors"
)

// progressEvery is how often a log line tells how far an image is.
const progressEvery = 10 * time.Second

// writeStream writes an image that is read once, from front to back. Goroutines of their
// own load the file, hash it, unpack it, hash the content and write, so that the slowest
// of them is the speed of the whole; those that an image does not need are not there.
func (w *Writer) writeStream(ctx context.Context, r *remote, v *verifier, out *blockWriter) error {
	v.digest = r.digest
	ctx, cancel := context.WithCancel(ctx)
	s := r.stream(ctx)
	hashes := v.fileHashes()
	if r.format == formatRaw { // what is loaded is the content
		hashes = append(hashes, v.contentHashes()...)
	}
	file := newAhead(s, hashes...)
	content, done := file, func() {}
	defer func() { // each stage's reads return once the one before it has ended
		cancel()
		file.stop()
		done()
		_ = s.Close()
	}()
	if err := out.clear(); err != nil { // while the first chunks are loaded and hashed
		return err
	}
	if r.format != formatRaw {
		z, err := unpack(r.format, file)
		if err != nil {
			return streamError(ctx, r.format, err)
		}
		content = newAhead(z, v.contentHashes()...)
		done = func() {
			content.stop()
			_ = z.Close()
		}
	}
	last := time.Now()
	for {
		b, err := content.next()
		if err == io.EOF {
			break
		} else if err != nil {
			return streamError(ctx, r.format, err)
		}
		if out.at == 0 && r.format != formatRaw {
			if err := checkInner(b); err != nil {
				return err
			}
		}
		if err := out.write(b); err != nil {
			return err
		}
		content.recycle(b)
		if time.Since(last) > progressEvery {
			last = time.Now()
			logger.Infof("image: %d MiB written", out.written()>>20)
		}
	}
	if err := drain(file, r.format); err != nil {
		return err
	}
	if err := v.checkFile(); err != nil {
		return err
	}
	return v.checkContent()
}

// streamError gives an error of a stage its kind.
func streamError(ctx context.Context, format string, err error) error {
	if ctx.Err() != nil {
		return errors.Trace(ctx.Err())
	}
	if format == formatRaw {
		return errors.Annotate(err, "cannot read image")
	}
	return unpackError(format, err)
}

// checkInner refuses content that is itself of a format that would have to be unpacked.
func checkInner(b []byte) error {
	inner, err := detect(b[:min(len(b), headSize)])
	if err != nil {
		return errors.Annotate(err, "cannot use what is inside the image")
	}
	if inner != formatRaw {
		return errors.NotSupportedf("%s inside another compression", inner)
	}
	return nil
}

// drain reads what follows the content in the file, so that all of it is hashed. Only
// raw images and padding have anything there; it is bounded.
func drain(file *ahead, format string) error {
	const most = 64 << 20
	n := 0
	for {
		b, err := file.next()
		if err == io.EOF {
			return nil
		} else if err != nil {
			return errors.Annotate(err, "cannot read image")
		}
		if n += len(b); n > most {
			return errors.NotValidf("%s image with more than %d MiB behind its end", format, most>>20)
		}
		file.recycle(b)
	}
}
