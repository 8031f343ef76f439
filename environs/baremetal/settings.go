package baremetal

import (
	"strings"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/core/base"
	"github.com/slipway-project/slipway/environs"
	metal3v1alpha1 "github.com/slipway-project/slipway/environs/baremetal/metal3/v1alpha1"
	"github.com/slipway-project/slipway/environs/config"
	"github.com/slipway-project/slipway/environs/userdata"
)

// The names of the provider's settings.
const (
	ImageKey        = "baremetal-image"
	ChecksumKey     = "baremetal-image-checksum"
	ChecksumTypeKey = "baremetal-image-checksum-type"
	FormatKey       = "baremetal-image-format"
	HasAgentKey     = "baremetal-image-has-agent"
	NetworkDataKey  = "baremetal-network-data"
)

// schema is the table of the provider's settings.
func schema() config.Schema {
	return config.Schema{
		{Name: ImageKey, Check: checkTemplate, Doc: "The URL of the image of a machine, where {name}, {channel}, {series} and {arch} stand for its base and architecture; machines need it."},
		{Name: ChecksumKey, Check: checkTemplate, Doc: "The checksum of the image, in hexadecimal, or the URL of a file that has it, with the same placeholders."},
		{Name: ChecksumTypeKey, Default: "sha256", Values: []string{"md5", "sha256", "sha512"}, Doc: "The kind of the checksum."},
		{Name: FormatKey, Values: []string{"raw", "qcow2", "vdi", "vmdk", "live-iso"}, Doc: "The format of the image; empty means that whoever writes it finds out."},
		{Name: HasAgentKey, Kind: config.Bool, Doc: "Whether the images hold the agent already, so that only its configuration is added."},
		{Name: NetworkDataKey, Doc: "The network configuration of every machine, as its image takes it: network data of cloud-init or OpenStack; empty means DHCP."},
	}
}

// placeholders are what a template may hold.
func placeholders(b base.Base, series, arch string) *strings.Replacer {
	return strings.NewReplacer("{name}", b.Name, "{channel}", b.Channel, "{series}", series, "{arch}", arch)
}

func checkTemplate(value any) error {
	left := placeholders(base.Base{}, "", "").Replace(value.(string))
	if strings.ContainsAny(left, "{} \t\r\n") {
		return errors.New("want text without blanks, and no placeholders but {name}, {channel}, {series} and {arch}")
	}
	return nil
}

// settings are what a model's configuration says to this provider.
type settings struct {
	image       metal3v1alpha1.Image // its URL and checksum are templates
	hasAgent    bool
	networkData string
}

// settingsOf reads a model's settings.
func settingsOf(cfg *config.Config) (settings, error) {
	attrs, err := schema().Complete(cfg.UnknownAttrs())
	if err != nil {
		return settings{}, errors.Trace(err)
	}
	s := settings{hasAgent: attrs.Bool(HasAgentKey), networkData: attrs.String(NetworkDataKey)}
	s.image.URL, s.image.Checksum = attrs.String(ImageKey), attrs.String(ChecksumKey)
	if format := attrs.String(FormatKey); format != "" {
		s.image.DiskFormat = &format
	}
	if s.image.Checksum != "" {
		s.image.ChecksumType = metal3v1alpha1.ChecksumType(attrs.String(ChecksumTypeKey))
	}
	if url := s.image.URL; url != "" && !strings.HasPrefix(url, "http://") && !strings.HasPrefix(url, "https://") && !strings.HasPrefix(url, "oci://") {
		return s, errors.NewNotValid(nil, ImageKey+" is no address: want http://, https:// or oci://")
	}
	return s, errors.Trace(userdata.CheckExtra(cfg.CloudInitUserData()))
}

// imageFor returns the image of a machine.
func (s settings) imageFor(b base.Base, arch string) (metal3v1alpha1.Image, error) {
	if s.image.URL == "" {
		return metal3v1alpha1.Image{}, errors.NewNotValid(nil, "the model has no image for bare-metal machines: set "+ImageKey)
	}
	series, err := b.Series()
	if err != nil {
		return metal3v1alpha1.Image{}, errors.Trace(err)
	}
	image := s.image
	fill := placeholders(b, series, arch)
	image.URL, image.Checksum = fill.Replace(image.URL), fill.Replace(image.Checksum)
	return image, nil
}

// dataFor returns what a machine is configured with.
func (s settings) dataFor(c *environs.InstanceConfig) (userData, networkData string, err error) {
	text, err := userdata.CloudInit(userdata.Params{Config: c, AgentLaid: s.hasAgent})
	return string(text), s.networkData, errors.Trace(err)
}
