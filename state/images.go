package state

import (
	"context"
	"slices"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/core/image"
)

// imagesDoc is what a model knows of images.
type imagesDoc struct {
	Images []image.Metadata `json:"images,omitempty"` // in the order of image.Sort
}

// maxImages bounds how many images a model knows.
const maxImages = 5000

// Images is the handle on what a model knows of images.
type Images struct{ st *State }

// Images returns the handle on what the model knows of images.
func (st *State) Images() *Images { return &Images{st} }

const imagesID = "images"

// Find returns the images that a filter lets pass, the lowest priority first.
func (is *Images) Find(ctx context.Context, f image.Filter) ([]image.Metadata, error) {
	d, err := readSite[imagesDoc](ctx, is.st.c, is.st.key(imagesC, imagesID))
	if err != nil {
		return nil, errors.Annotate(err, "cannot list images")
	}
	return slices.DeleteFunc(slices.Clone(d.Images), func(m image.Metadata) bool { return !f.Match(m) }), nil
}

// Save adds images, in place of those with the same key. It returns an error
// satisfying errors.NotValid for one that is not complete, and then adds none.
func (is *Images) Save(ctx context.Context, list []image.Metadata) error {
	for _, m := range list {
		if err := m.Check(); err != nil {
			return errors.Annotate(err, "cannot save images")
		}
	}
	err := updateOwn(ctx, is.st, is.st.key(imagesC, imagesID), func(d *imagesDoc) error {
		for _, m := range list {
			d.Images = slices.DeleteFunc(d.Images, func(o image.Metadata) bool { return o.Key() == m.Key() })
			d.Images = append(d.Images, m)
		}
		if len(d.Images) > maxImages {
			return typedf(errors.NotValid, "%d images are more than a model may have (%d)", len(d.Images), maxImages)
		}
		image.Sort(d.Images)
		return nil
	})
	return errors.Annotate(err, "cannot save images")
}

// Delete removes every image with that id. It returns an error satisfying
// errors.NotFound if there is none.
func (is *Images) Delete(ctx context.Context, id string) error {
	err := updateOwn(ctx, is.st, is.st.key(imagesC, imagesID), func(d *imagesDoc) error {
		kept := slices.DeleteFunc(slices.Clone(d.Images), func(m image.Metadata) bool { return m.ID == id })
		if len(kept) == len(d.Images) {
			return errors.NotFoundf("image metadata for %q", id)
		}
		d.Images = kept
		return nil
	})
	return errors.Annotate(err, "cannot delete image metadata")
}
