package userdata

import (
	_ "embed" // for the installer
	"encoding/json"
	"fmt"
	"io/fs"
	"net/url"
	"path"
	"regexp"
	"strings"

	"github.com/juju/errors"
	"gopkg.in/yaml.v3"

	"github.com/slipway-project/slipway/core/tag"
	"github.com/slipway-project/slipway/environs"
)

// Where things are on a machine.
const (
	DataDir       = "/var/lib/slipway"
	AgentFilePath = DataDir + "/agent.yaml"
	// AgentPath is the agent's program. What it is in is a directory, or a link
	// to the directory of one version.
	AgentPath   = agentDir + "/current/provisionerd"
	ServiceName = "slipway-agent.service"

	agentDir      = DataDir + "/agent"
	installerPath = DataDir + "/install.py"
	sourcesPath   = DataDir + "/install.json"
	unitPath      = "/etc/systemd/system/" + ServiceName
	enablingPath  = "/etc/systemd/system/multi-user.target.wants/" + ServiceName
)

// serverName is what every controller's certificate is made out to.
const serverName = "juju-apiserver"

//go:embed install.py
var installer string

// File is something on a machine's disk. It belongs to root, as do the
// directories above it that have to be made.
type File struct {
	Path    string // absolute
	Mode    fs.FileMode
	Content []byte
	// Link is what the file, then a symbolic link, points to; empty means that
	// it is an ordinary file.
	Link string
}

// String names the file, whose content may be secret.
func (f File) String() string { return fmt.Sprintf("%s %v [content redacted]", f.Path, f.Mode) }

// GoString is String, so that no verb of fmt prints a secret.
func (f File) GoString() string { return f.String() }

// Params say what a new instance gets.
type Params struct {
	// Config is what its agent has to know. Required.
	Config *environs.InstanceConfig
	// AgentLaid says that the provider puts the agent at AgentPath, so that
	// nothing is downloaded.
	AgentLaid bool
	// AgentFileLaid says that the provider writes the agent file to the disk
	// itself, before the first boot or soon after, so that the user data holds
	// nothing secret.
	AgentFileLaid bool
}

// Command returns what runs the agent: for an init that this package does not
// know.
func Command() []string {
	return []string{AgentPath, "machine", "--agent-file", AgentFilePath}
}

// Files returns what must be on the disk before the agent runs, but for the
// agent itself. Its errors satisfy errors.NotValid.
func Files(p Params) ([]File, error) {
	if err := p.Config.Validate(); err != nil {
		return nil, errors.Trace(err)
	}
	agent, err := agentFile(p.Config)
	if err != nil {
		return nil, err
	}
	service, err := unit(p)
	if err != nil {
		return nil, err
	}
	files := []File{
		{Path: AgentFilePath, Mode: 0o600, Content: agent},
		{Path: unitPath, Mode: 0o644, Content: []byte(service)},
		{Path: enablingPath, Mode: 0o777 | fs.ModeSymlink, Link: unitPath},
	}
	if p.AgentLaid {
		return files, nil
	}
	from, err := sources(p.Config)
	if err != nil {
		return nil, err
	}
	return append(files,
		File{Path: sourcesPath, Mode: 0o600, Content: from},
		File{Path: installerPath, Mode: 0o600, Content: []byte(installer)},
	), nil
}

// agentFile returns what package api/agentfile reads: it stands above this one.
func agentFile(c *environs.InstanceConfig) ([]byte, error) {
	out, err := yaml.Marshal(struct {
		Tag          string   `yaml:"tag"`
		Password     string   `yaml:"password"`
		Nonce        string   `yaml:"nonce"`
		ModelUUID    string   `yaml:"model-uuid"`
		APIAddresses []string `yaml:"api-addresses"`
		CACert       string   `yaml:"ca-cert"`
	}{
		Tag:          tag.NewMachineTag(c.MachineID).String(),
		Password:     c.Password,
		Nonce:        c.Nonce,
		ModelUUID:    c.ModelUUID,
		APIAddresses: c.APIAddresses,
		CACert:       c.CACert,
	})
	return out, errors.Annotate(err, "cannot write agent file")
}

// unit returns the service that keeps the agent running.
func unit(p Params) (string, error) {
	logging := p.Config.LoggingConfig
	if strings.ContainsAny(logging, "\r\n\x00") {
		return "", errors.NotValidf("logging config of more than one line")
	}
	// Quoting as systemd.syntax(7) and systemd.unit(5) have it.
	logging = strings.NewReplacer(`\`, `\\`, `"`, `\"`, `%`, `%%`).Replace(logging)
	install := ""
	if !p.AgentLaid {
		install = "ExecStartPre=/usr/bin/env python3 -I " + installerPath + " " + sourcesPath + "\n"
	}
	return `[Unit]
Description=Slipway machine agent
Wants=network-online.target
After=network-online.target
StartLimitIntervalSec=0

[Service]
UMask=0077
Environment="SLIPWAY_LOGGING_CONFIG=` + logging + `"
` + install + `ExecStart=` + strings.Join(Command(), " ") + `
Restart=on-failure
RestartSec=5
TimeoutStartSec=15min

[Install]
WantedBy=multi-user.target
`, nil
}

// source is a package of the agent, as the installer reads it.
type source struct {
	Arch    string `json:"arch"` // as uname -m says it
	Version string `json:"version"`
	Host    string `json:"host"`
	Port    string `json:"port"`
	Path    string `json:"path"`
	SHA256  string `json:"sha256"`
	Size    int64  `json:"size"`
}

// machines has the kernel's names of architectures.
var machines = map[string]string{
	"amd64": "x86_64", "i386": "i686", "armhf": "armv7l", "arm64": "aarch64", "ppc64el": "ppc64le", "s390x": "s390x",
}

var sha256Text = regexp.MustCompile(`^[0-9a-f]{64}$`)

// sources returns what the installer is told.
func sources(c *environs.InstanceConfig) ([]byte, error) {
	if len(c.AgentBinaries) == 0 {
		return nil, errors.NewNotValid(nil, "no agent binary for its series and architecture has been uploaded: upload one (slipway upload-agent), or have an image that holds the agent")
	}
	var list []source
	for _, b := range c.AgentBinaries {
		s, err := sourceOf(b)
		if err != nil {
			return nil, errors.Annotatef(err, "package %s of the agent", b.Version)
		}
		list = append(list, s)
	}
	return json.MarshalIndent(map[string]any{
		"directory": agentDir, "ca-cert": c.CACert, "server-name": serverName, "sources": list,
	}, "", "  ")
}

func sourceOf(b environs.AgentBinary) (source, error) {
	u, err := url.Parse(b.URL)
	if err != nil || u.Scheme != "https" || u.Hostname() == "" || u.User != nil || u.RawQuery != "" {
		return source{}, errors.NotValidf("URL (want https://host:port/path)")
	}
	sum := strings.ToLower(b.SHA256)
	switch {
	case !sha256Text.MatchString(sum):
		return source{}, errors.NotValidf("SHA-256 %q", b.SHA256)
	case b.Size <= 0:
		return source{}, errors.NotValidf("size %d", b.Size)
	case machines[b.Version.Arch] == "":
		return source{}, errors.NotValidf("architecture %q", b.Version.Arch)
	case path.Base(b.Version.String()) != b.Version.String():
		return source{}, errors.NotValidf("version")
	}
	port := u.Port()
	if port == "" {
		port = "443"
	}
	return source{
		Arch: machines[b.Version.Arch], Version: b.Version.String(), Host: u.Hostname(), Port: port,
		Path: u.EscapedPath(), SHA256: sum, Size: b.Size,
	}, nil
}
