package image

import (
	"context"
	"net/http"
	"time"

	"github.com/juju/errors"
	"github.com/juju/loggo"

	"github.com/slipway-project/slipway/provision/config"
	"github.com/slipway-project/slipway/provision/disk"
)

var logger = loggo.GetLogger("slipway.provision.image")

const (
	// ErrMismatch is in the chain of an error when an image is not what was ordered: by
	// its checksum, its signature, or because it changed while it was read.
	ErrMismatch = errors.ConstError("image is not what was ordered")
	// ErrTooLarge is in the chain of an error when an image does not fit on its disk.
	ErrTooLarge = errors.ConstError("image is larger than the disk")
)

// Config says how images are fetched. The zero value is usable.
type Config struct {
	Client *http.Client  // nil means one without a limit on a whole exchange
	Arch   string        // of the machine, for OCI indexes; "" means this program's
	Stall  time.Duration // silence after which a connection counts as broken; 0 means 1 minute
	Pause  time.Duration // before the first resumption, then doubled; 0 means 1 second
}

// Writer fetches and writes images. It may be used by one goroutine at a time.
type Writer struct {
	fetch fetcher
}

// NewWriter returns a writer.
func NewWriter(c Config) *Writer {
	return &Writer{fetch: newFetcher(c)}
}

// Target is where an image goes.
type Target struct {
	URL    string      // of those in the image, as Check returned it
	Device disk.Device // open for writing
	Size   int64       // of the device, bytes
}

// Result is what was written.
type Result struct {
	Bytes    int64  // of content
	Checksum string // algorithm, colon and digits, of the file as downloaded
	Format   string // what was detected, such as "zstd"
}

// Check returns the first of the image's URLs that can be had and is of a format
// that can be written, and the size of its content in bytes, 0 if the beginning does not
// tell. It reads the beginning only, and the signature if there is one.
//
// The error is of the last URL: errors.NotFound, errors.NotSupported for a format or a
// window, or what the network gave.
func (w *Writer) Check(ctx context.Context, image config.Image) (string, int64, error) {
	if err := image.Validate(); err != nil {
		return "", 0, errors.Trace(err)
	}
	if _, err := w.verifier(ctx, image); err != nil {
		return "", 0, err
	}
	var last error
	for _, url := range image.URLs {
		r, err := w.fetch.open(ctx, url)
		if err == nil {
			var size int64
			if size, err = r.contentSize(); err == nil {
				logger.Infof("image %s: %s, %d MiB to load", config.RedactURL(url), r.format, r.size>>20)
				return url, size, nil
			}
		}
		last = errors.Annotatef(err, "cannot use image %s", config.RedactURL(url))
		logger.Warningf("%v", last)
	}
	return "", 0, last
}

// Write writes the image's content to target and verifies it. Unless it returns nil,
// nothing on target can be booted. An error with ErrMismatch or ErrTooLarge in its
// chain cannot be helped by another try.
func (w *Writer) Write(ctx context.Context, image config.Image, target Target) (Result, error) {
	if err := image.Validate(); err != nil {
		return Result{}, errors.Trace(err)
	}
	v, err := w.verifier(ctx, image)
	if err != nil {
		return Result{}, err
	}
	r, err := w.fetch.open(ctx, target.URL)
	if err != nil {
		return Result{}, errors.Annotatef(err, "cannot open image")
	}
	out := newBlockWriter(target.Device, target.Size)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if r.format == formatQcow2 {
		err = w.writeQcow2(ctx, r, v, out)
	} else {
		err = w.writeStream(ctx, r, v, out)
	}
	if err != nil {
		return Result{}, err
	}
	if err := out.commit(); err != nil {
		return Result{}, err
	}
	return Result{Bytes: out.written(), Checksum: v.fileSum(), Format: r.format}, nil
}

// verifier makes what will verify the image; it fetches the signature.
func (w *Writer) verifier(ctx context.Context, image config.Image) (*verifier, error) {
	v, err := newVerifier(image)
	if err != nil || image.Signature.URL == "" {
		return v, err
	}
	text, err := w.fetch.small(ctx, image.Signature.URL)
	if err != nil {
		return nil, errors.Annotate(err, "cannot get signature of image")
	}
	return v, v.setSignature(image.Signature.PublicKey, text)
}
