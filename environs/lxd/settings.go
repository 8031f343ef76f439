package lxd

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/core/base"
	"github.com/slipway-project/slipway/environs/config"
	"github.com/slipway-project/slipway/environs/lxd/rest"
	"github.com/slipway-project/slipway/environs/userdata"
)

// The names of the provider's settings.
const (
	HostsKey       = "lxd-hosts"
	ClientCertKey  = "lxd-client-cert"
	ClientKeyKey   = "lxd-client-key"
	ServerCertsKey = "lxd-server-certs"
	ProjectKey     = "lxd-project"
	ProfilesKey    = "lxd-profiles"
	ImageKey       = "lxd-image"
	ImageServerKey = "lxd-image-server"
	CloudInitKey   = "lxd-cloud-init"
	HasAgentKey    = "lxd-image-has-agent"
	BridgeKey      = "lxd-bridge"
	NestingKey     = "lxd-nesting"
)

// schema is the table of the provider's settings.
func schema() config.Schema {
	return config.Schema{
		{Name: HostsKey, Kind: config.Tags, Check: checkHosts, Doc: "The LXD servers, each a zone: pairs of zone=https://host:port; none means those that the worker was started with."},
		{Name: ClientCertKey, Doc: "The certificate, in PEM, that the LXD servers trust."},
		{Name: ClientKeyKey, Secret: true, Doc: "The private key, in PEM, of lxd-client-cert."},
		{Name: ServerCertsKey, Doc: "The certificates, in PEM, of the LXD servers; no others are accepted."},
		{Name: ProjectKey, Default: "default", Doc: "The LXD project that the containers are in."},
		{Name: ProfilesKey, Default: "default", Doc: "The LXD profiles of the containers, separated by commas."},
		{Name: ImageKey, Default: "{name}/{channel}", Check: checkImage, Doc: "The alias or fingerprint of the image of a machine, where {name}, {channel} and {series} stand for its base."},
		{Name: ImageServerKey, Check: checkImageServer, Doc: "The https address of a simplestreams server for images; empty means that the LXD servers have them."},
		{Name: CloudInitKey, Kind: config.Bool, Default: true, Doc: "Whether the images have cloud-init."},
		{Name: HasAgentKey, Kind: config.Bool, Doc: "Whether the images hold the agent already, and what starts it, so that only its configuration is added."},
		{Name: BridgeKey, Kind: config.Bool, Doc: "Whether containers reach the controllers over their own network, not over a proxy device of LXD."},
		{Name: NestingKey, Kind: config.Bool, Doc: "Whether containers may hold containers themselves."},
	}
}

var (
	zoneName    = regexp.MustCompile(`^[a-zA-Z0-9](?:[a-zA-Z0-9.-]{0,61}[a-zA-Z0-9])?$`)
	fingerprint = regexp.MustCompile(`^[0-9a-f]{12,64}$`)
)

func checkHosts(value any) error {
	for zone, address := range value.(map[string]string) {
		if !zoneName.MatchString(zone) {
			return errors.Errorf("zone %q is not a host name", zone)
		}
		if !strings.HasPrefix(address, "https://") && !strings.HasPrefix(address, "unix://") {
			return errors.Errorf("want zone=https://host:port, not %s=%s", zone, address)
		}
	}
	return nil
}

func checkImage(value any) error {
	left := strings.NewReplacer("{name}", "", "{channel}", "", "{series}", "").Replace(value.(string))
	if strings.ContainsAny(left, "{} \t\r\n") {
		return errors.New("want an alias or a fingerprint, with no placeholders but {name}, {channel} and {series}")
	}
	return nil
}

func checkImageServer(value any) error {
	if !strings.HasPrefix(value.(string), "https://") {
		return errors.New("want https://host/path")
	}
	return nil
}

// settings are what a model says of its containers.
type settings struct {
	hosts       map[string]rest.Config // by zone
	access      rest.Config            // what all hosts have in common
	profiles    []string
	image       string
	imageServer string
	cloudInit   bool
	hasAgent    bool
	bridge      bool
	nesting     bool
}

// settingsOf reads a model's settings. It returns an error satisfying
// errors.NotValid if they do not go together. Which servers are there if the
// model names none is for the worker to say: see withDefaults.
func settingsOf(cfg *config.Config) (settings, error) {
	attrs, err := schema().Complete(cfg.UnknownAttrs())
	if err != nil {
		return settings{}, errors.Trace(err)
	}
	s := settings{
		hosts:       map[string]rest.Config{},
		image:       attrs.String(ImageKey),
		imageServer: attrs.String(ImageServerKey),
		cloudInit:   attrs.Bool(CloudInitKey),
		hasAgent:    attrs.Bool(HasAgentKey),
		bridge:      attrs.Bool(BridgeKey),
		nesting:     attrs.Bool(NestingKey),
		access: rest.Config{
			Project:    attrs.String(ProjectKey),
			ClientCert: attrs.String(ClientCertKey), ClientKey: attrs.String(ClientKeyKey), ServerCerts: attrs.String(ServerCertsKey),
		},
	}
	for p := range strings.SplitSeq(attrs.String(ProfilesKey), ",") {
		if p = strings.TrimSpace(p); p != "" {
			s.profiles = append(s.profiles, p)
		}
	}
	for zone, address := range attrs.Tags(HostsKey) {
		s.hosts[zone] = s.at(address)
		if _, err := rest.New(s.hosts[zone]); err != nil {
			return settings{}, errors.Trace(err)
		}
	}
	return s, errors.Trace(userdata.CheckExtra(cfg.CloudInitUserData()))
}

// at returns how to reach the server at an address.
func (s settings) at(address string) rest.Config {
	c := s.access
	c.Address = address
	return c
}

// withDefaults returns s with the servers that the worker was started with, if
// the model names none.
func (s settings) withDefaults(o Options) (settings, error) {
	if len(s.hosts) == 0 {
		s.hosts = map[string]rest.Config{}
		for zone, address := range o.Hosts {
			s.hosts[zone] = s.at(address)
		}
	}
	if len(s.hosts) == 0 {
		return s, errors.NewNotValid(nil, "no LXD server is known: set "+HostsKey)
	}
	own := slices.Collect(maps.Values(o.Hosts))
	for _, c := range s.hosts {
		// A socket is a path on the worker's machine, which no model may choose.
		if strings.HasPrefix(c.Address, "unix:") && !slices.Contains(own, c.Address) {
			s.hosts = nil
			return s, errors.NewNotValid(nil, HostsKey+" may only name sockets that the worker was started with")
		}
	}
	return s, nil
}

// late reports whether a container can be started before anything is written to
// its disk: all that its boot needs is in the image, or comes by cloud-init.
func (s settings) late() bool { return s.cloudInit || s.hasAgent }

// source returns the image of a machine with the given base.
func (s settings) source(b base.Base) (rest.Source, error) {
	series, err := b.Series()
	if err != nil {
		return rest.Source{}, errors.Trace(err)
	}
	name := strings.NewReplacer("{name}", b.Name, "{channel}", b.Channel, "{series}", series).Replace(s.image)
	source := rest.Source{Type: "image", Alias: name}
	if fingerprint.MatchString(name) {
		source.Alias, source.Fingerprint = "", name
	}
	if s.imageServer != "" {
		source.Mode, source.Server, source.Protocol = "pull", s.imageServer, "simplestreams"
	}
	return source, nil
}
