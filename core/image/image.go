// Package image describes images of operating systems that providers start.
package image

import (
	"cmp"
	"slices"
	"strings"

	"github.com/juju/errors"
)

// DefaultStream is the stream of images where nobody names another.
const DefaultStream = "released"

// Metadata describes one image.
type Metadata struct {
	ID              string `json:"id"` // in the provider's words
	Stream          string `json:"stream"`
	Region          string `json:"region,omitempty"`
	Version         string `json:"version"` // of the operating system, such as 22.04
	Series          string `json:"series"`
	Arch            string `json:"arch"`
	VirtType        string `json:"virt-type,omitempty"`
	RootStorageType string `json:"root-storage-type,omitempty"`
	RootStorageSize uint64 `json:"root-storage-size,omitempty"` // MiB; 0 means unknown
	Source          string `json:"source"`                      // who said so
	Priority        int    `json:"priority"`                    // the highest is taken
}

// Key returns what no two images have in common: adding one with the key of
// another replaces it.
func (m Metadata) Key() string {
	return strings.Join([]string{m.Stream, m.Region, m.Series, m.Arch, m.VirtType, m.RootStorageType, m.Source}, ":")
}

// Check returns an error satisfying errors.NotValid unless the description is
// complete.
func (m Metadata) Check() error {
	for _, part := range []struct{ name, value string }{
		{"image id", m.ID}, {"stream", m.Stream}, {"series", m.Series}, {"version", m.Version}, {"arch", m.Arch}, {"source", m.Source},
	} {
		if part.value == "" {
			return errors.NotValidf("image metadata: empty %s", part.name)
		}
	}
	return nil
}

// Filter says which images are wanted. Empty texts and lists mean any.
type Filter struct {
	Region   string
	Series   []string
	Arches   []string
	Stream   string
	VirtType string
}

// Match reports whether an image is one of those.
func (f Filter) Match(m Metadata) bool {
	return (f.Region == "" || m.Region == "" || f.Region == m.Region) &&
		(len(f.Series) == 0 || slices.Contains(f.Series, m.Series)) &&
		(len(f.Arches) == 0 || slices.Contains(f.Arches, m.Arch)) &&
		(f.Stream == "" || f.Stream == m.Stream) && (f.VirtType == "" || f.VirtType == m.VirtType)
}

// Sort sorts images by their priority, the lowest first, and then by what
// identifies them.
func Sort(list []Metadata) {
	slices.SortFunc(list, func(a, b Metadata) int {
		return cmp.Or(cmp.Compare(a.Priority, b.Priority), strings.Compare(a.Key(), b.Key()))
	})
}
