// Package imagemetadata is the facade ImageMetadata, version 2: the images that
// machines of a model can be started from. People who may read the model can
// list them, and those who may write add and delete them.
package imagemetadata

import (
	"context"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/apiserver/common"
	"github.com/slipway-project/slipway/core/access"
	"github.com/slipway-project/slipway/core/base"
	"github.com/slipway-project/slipway/core/image"
	"github.com/slipway-project/slipway/params"
)

// Backend is what the facade needs from below.
type Backend interface {
	Find(ctx context.Context, f image.Filter) ([]image.Metadata, error)
	Save(ctx context.Context, list []image.Metadata) error
	Delete(ctx context.Context, id string) error
}

// custom is the source of images that an operator added, and its priority, which
// is above that of any other source.
const (
	custom         = "custom"
	customPriority = 50
)

// ImageMetadata is the facade of one connection.
type ImageMetadata struct {
	backend Backend
	auth    common.Authorizer
}

func newFacade(b Backend, c common.Connection) (*ImageMetadata, error) {
	if !common.AuthClient(c.Auth) || !c.Auth.ModelAccess().Includes(access.Read) {
		return nil, common.ErrPerm
	}
	return &ImageMetadata{b, c.Auth}, nil
}

func (m *ImageMetadata) canWrite() error {
	if !m.auth.ModelAccess().Includes(access.Write) {
		return common.ErrPerm
	}
	return nil
}

// List returns the images that fit, the lowest priority first.
func (m *ImageMetadata) List(ctx context.Context, args params.ImageMetadataFilter) (params.ListCloudImageMetadataResult, error) {
	found, err := m.backend.Find(ctx, image.Filter{
		Region: args.Region, Series: args.Series, Arches: args.Arches, Stream: args.Stream, VirtType: args.VirtType,
	})
	if err != nil {
		return params.ListCloudImageMetadataResult{}, errors.Trace(err)
	}
	out := []params.CloudImageMetadata{}
	for _, f := range found {
		if args.RootStorageType == "" || args.RootStorageType == f.RootStorageType {
			out = append(out, params.ImageMetadata(f))
		}
	}
	return params.ListCloudImageMetadataResult{Result: out}, nil
}

// Save adds lists of images, each list whole or not at all.
func (m *ImageMetadata) Save(ctx context.Context, args params.MetadataSaveParams) (params.ErrorResults, error) {
	if err := m.canWrite(); err != nil {
		return params.ErrorResults{}, err
	}
	results := make([]params.ErrorResult, len(args.Metadata))
	for i, list := range args.Metadata {
		images := make([]image.Metadata, len(list.Metadata))
		var err error
		for j, sent := range list.Metadata {
			if images[j], err = complete(sent.Metadata()); err != nil {
				break
			}
		}
		if err == nil {
			err = m.backend.Save(ctx, images)
		}
		results[i].Error = common.ServerError(err)
	}
	return params.ErrorResults{Results: results}, nil
}

// complete fills in what follows from the rest of a description.
func complete(i image.Metadata) (image.Metadata, error) {
	if i.Stream == "" {
		i.Stream = image.DefaultStream
	}
	if i.Source == "" {
		i.Source = custom
	}
	if i.Priority == 0 && i.Source == custom {
		i.Priority = customPriority
	}
	if i.Version == "" && i.Series != "" {
		b, err := base.FromSeries(i.Series)
		if err != nil {
			return i, err
		}
		i.Version = b.Channel
	}
	return i, nil
}

// Delete removes images, given by their ids.
func (m *ImageMetadata) Delete(ctx context.Context, args params.MetadataImageIDs) (params.ErrorResults, error) {
	if err := m.canWrite(); err != nil {
		return params.ErrorResults{}, err
	}
	results := make([]params.ErrorResult, len(args.IDs))
	for i, id := range args.IDs {
		results[i].Error = common.ServerError(m.backend.Delete(ctx, id))
	}
	return params.ErrorResults{Results: results}, nil
}
