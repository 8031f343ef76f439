package params

import "github.com/slipway-project/slipway/core/image"

// ImageMetadata returns an image's description as it is sent.
func ImageMetadata(m image.Metadata) CloudImageMetadata {
	return CloudImageMetadata{
		ImageID: m.ID, Stream: m.Stream, Region: m.Region, Version: m.Version, Series: m.Series, Arch: m.Arch,
		VirtType: m.VirtType, RootStorageType: m.RootStorageType, RootStorageSize: m.RootStorageSize,
		Source: m.Source, Priority: m.Priority,
	}
}

// Metadata returns the image that was described.
func (m CloudImageMetadata) Metadata() image.Metadata {
	return image.Metadata{
		ID: m.ImageID, Stream: m.Stream, Region: m.Region, Version: m.Version, Series: m.Series, Arch: m.Arch,
		VirtType: m.VirtType, RootStorageType: m.RootStorageType, RootStorageSize: m.RootStorageSize,
		Source: m.Source, Priority: m.Priority,
	}
}

// CloudImageMetadataList are images that are saved together.
type CloudImageMetadataList struct {
	Metadata []CloudImageMetadata `json:"metadata"`
}

// MetadataSaveParams are the parameters of ImageMetadata.Save: one result for each
// list.
type MetadataSaveParams struct {
	Metadata []CloudImageMetadataList `json:"metadata"`
}

// ImageMetadataFilter are the parameters of ImageMetadata.List. What is empty
// means any.
type ImageMetadataFilter struct {
	Region          string   `json:"region,omitempty"`
	Series          []string `json:"series,omitempty"`
	Arches          []string `json:"arches,omitempty"`
	Stream          string   `json:"stream,omitempty"`
	VirtType        string   `json:"virt-type,omitempty"`
	RootStorageType string   `json:"root-storage-type,omitempty"`
}

// ListCloudImageMetadataResult is the result of ImageMetadata.List, the lowest
// priority first.
type ListCloudImageMetadataResult struct {
	Result []CloudImageMetadata `json:"result"`
}

// MetadataImageIDs are the parameters of ImageMetadata.Delete.
type MetadataImageIDs struct {
	IDs []string `json:"image-ids"`
}
