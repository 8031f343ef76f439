package tag_test

import (
	"testing"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/core/tag"
)

func TestTagsOfNetworks(t *testing.T) {
	if name, err := tag.ParseSpaceTag(tag.SpaceTag("db")); err != nil || name != "db" {
		t.Errorf("ParseSpaceTag = %q, %v, want db", name, err)
	}
	if cidr, err := tag.ParseSubnetTag(tag.SubnetTag("10.0.0.0/24")); err != nil || cidr != "10.0.0.0/24" {
		t.Errorf("ParseSubnetTag = %q, %v, want the range", cidr, err)
	}
	if got := tag.SpaceTag(""); got != "" {
		t.Errorf("SpaceTag of no space = %q, want none", got)
	}
	for _, text := range []string{"", "space-", "db", "space-DB", "subnet-10.0.0.1/24", "subnet-", "10.0.0.0/24"} {
		if _, err := tag.ParseSpaceTag(text); !errors.Is(err, errors.NotValid) {
			t.Errorf("ParseSpaceTag(%q) = %v, want it refused", text, err)
		}
		if _, err := tag.ParseSubnetTag(text); !errors.Is(err, errors.NotValid) {
			t.Errorf("ParseSubnetTag(%q) = %v, want it refused", text, err)
		}
	}
}
