package userdata_test

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/juju/errors"
	"gopkg.in/yaml.v3"
	"pgregory.net/rapid"

	"github.com/slipway-project/slipway/api/agentfile"
	"github.com/slipway-project/slipway/core/binaries"
	"github.com/slipway-project/slipway/core/job"
	"github.com/slipway-project/slipway/environs"
	"github.com/slipway-project/slipway/environs/config"
	"github.com/slipway-project/slipway/environs/userdata"
	"github.com/slipway-project/slipway/internal/golden"
	"github.com/slipway-project/slipway/internal/tlsfiles"
)

const password = "hush-not-for-everybody-0"

// instanceConfig returns a config that uses everything.
func instanceConfig() *environs.InstanceConfig {
	return &environs.InstanceConfig{
		MachineID: "0/lxd/1", Nonce: "slipway:nonce", Password: password,
		APIAddresses: []string{"10.0.0.1:17070", "[fd00::1]:17070"}, CACert: "-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----\n",
		ModelUUID: "deadbeef-0bad-400d-8000-000000000001", ControllerUUID: "5175e000-0bad-400d-8000-000000000001",
		Jobs: []job.Job{job.HostUnits},
		AgentBinaries: []environs.AgentBinary{{
			Version: binaries.Version{Number: binaries.Number{Major: 2}, Series: "jammy", Arch: "amd64"},
			URL:     "https://10.0.0.1:17070/model/deadbeef-0bad-400d-8000-000000000001/tools/2.0.0-jammy-amd64",
			SHA256:  strings.Repeat("AB", 32), Size: 1234,
		}, {
			Version: binaries.Version{Number: binaries.Number{Major: 2}, Series: "jammy", Arch: "arm64"},
			URL:     "https://[fd00::1]:17070/tools/2.0.0-jammy-arm64", SHA256: strings.Repeat("cd", 32), Size: 5678,
		}},
		AuthorizedKeys: "ssh-ed25519 AAAA one\n\n# a comment\nssh-ed25519 BBBB two\n",
		Proxies:        config.Proxies{HTTP: "http://proxy:3128", NoProxy: "10.0.0.0/8,it's"},
		AptProxies:     config.Proxies{HTTP: "http://apt:3142"},
		AptMirror:      "http://mirror/ubuntu", EnableOSRefreshUpdate: true,
		LoggingConfig: `<root>=INFO;unit="100%"`,
		CloudInitUserData: `
packages: [jq]
package_upgrade: true
preruncmd: [echo before]
postruncmd: [[echo, after]]
write_files: [{path: /etc/motd, content: hello}]
apt: {sources: {x: {source: "deb http://x y z"}}}
timezone: Etc/UTC
`,
	}
}

func TestCloudInitIsAsApproved(t *testing.T) {
	for name, p := range map[string]userdata.Params{
		"everything.golden": {Config: instanceConfig()},
		"laid.golden":       {Config: instanceConfig(), AgentFileLaid: true, AgentLaid: true},
	} {
		got, err := userdata.CloudInit(p)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		golden.Check(t, name, got)
	}
}

func TestFilesAreAsApproved(t *testing.T) {
	var out strings.Builder
	for _, laid := range []bool{false, true} {
		files, err := userdata.Files(userdata.Params{Config: instanceConfig(), AgentLaid: laid})
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&out, "agent laid: %v\n", laid)
		for _, f := range files {
			fmt.Fprintf(&out, "=== %s %v %s\n", f.Path, f.Mode, f.Link)
			if !strings.HasSuffix(f.Path, ".py") {
				out.Write(f.Content)
			}
		}
	}
	golden.Check(t, "files.golden", out.String())
}

func TestAgentFileIsReadBack(t *testing.T) {
	c := instanceConfig()
	authority, err := tlsfiles.NewAuthority("test", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	c.CACert = string(authority.Cert)
	files, err := userdata.Files(userdata.Params{Config: c, AgentLaid: true})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "agent.yaml")
	if err := os.WriteFile(path, files[0].Content, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := agentfile.Read(path)
	if err != nil {
		t.Fatal(err)
	}
	if f.Tag != "machine-0-lxd-1" || f.Password != password || f.Nonce != c.Nonce || len(f.APIAddresses) != 2 {
		t.Errorf("agent file = %#v", f)
	}
}

func TestSecretsAreRootsAlone(t *testing.T) {
	files, err := userdata.Files(userdata.Params{Config: instanceConfig()})
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for _, f := range files {
		if strings.Contains(string(f.Content), password) {
			found = true
			if f.Mode != 0o600 {
				t.Errorf("%s holds the password with mode %v, want 0600", f.Path, f.Mode)
			}
		}
		if s := fmt.Sprintf("%v %+v %#v", f, f, f); strings.Contains(s, password) {
			t.Errorf("%s prints its content", f.Path)
		}
	}
	if !found {
		t.Error("no file holds the password")
	}
	laid, err := userdata.CloudInit(userdata.Params{Config: instanceConfig(), AgentFileLaid: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{password, "slipway:nonce"} {
		if strings.Contains(string(laid), secret) {
			t.Errorf("user data beside files that are laid down holds %q", secret)
		}
	}
}

func TestBadConfigIsRefused(t *testing.T) {
	binary := func(change func(*environs.AgentBinary)) func(*environs.InstanceConfig) {
		return func(c *environs.InstanceConfig) { change(&c.AgentBinaries[0]) }
	}
	extra := func(text string) func(*environs.InstanceConfig) {
		return func(c *environs.InstanceConfig) { c.CloudInitUserData = text }
	}
	for name, spoil := range map[string]func(*environs.InstanceConfig){
		"no password":        func(c *environs.InstanceConfig) { c.Password = "" },
		"no package":         func(c *environs.InstanceConfig) { c.AgentBinaries = nil },
		"plain http":         binary(func(b *environs.AgentBinary) { b.URL = "http://10.0.0.1/x" }),
		"password in URL":    binary(func(b *environs.AgentBinary) { b.URL = "https://hush-x:y@10.0.0.1/x" }),
		"short checksum":     binary(func(b *environs.AgentBinary) { b.SHA256 = "abc" }),
		"no size":            binary(func(b *environs.AgentBinary) { b.Size = 0 }),
		"unknown arch":       binary(func(b *environs.AgentBinary) { b.Version.Arch = "vax" }),
		"path in version":    binary(func(b *environs.AgentBinary) { b.Version.Series = "../../etc" }),
		"two-line proxy":     func(c *environs.InstanceConfig) { c.Proxies.HTTP = "x\nrm -rf /" },
		"two-line logging":   func(c *environs.InstanceConfig) { c.LoggingConfig = "x\nExecStart=/bin/sh" },
		"extra: a list":      extra("[a]"),
		"extra: runcmd":      extra("runcmd: [x]"),
		"extra: users":       extra("users: []"),
		"extra: modules":     extra("cloud_final_modules: []"),
		"extra: scalar":      extra("packages: jq"),
		"extra: agent file":  extra("write_files: [{path: /var/lib/slipway/agent.yaml, content: x}]"),
		"extra: round about": extra("write_files: [{path: /etc/../var/lib/slipway/agent.yaml, content: x}]"),
		"extra: no path":     extra("write_files: [x]"),
		"extra: apt proxy":   extra("apt: {http_proxy: 'http://other'}"),
		"extra: apt scalar":  extra("apt: x"),
		"extra: too long":    extra("x: " + strings.Repeat("y", 300<<10)),
	} {
		c := instanceConfig()
		spoil(c)
		_, err := userdata.CloudInit(userdata.Params{Config: c})
		if !errors.Is(err, errors.NotValid) {
			t.Errorf("%s: CloudInit = %v, want NotValid", name, err)
		}
		if name == "no package" && (err == nil || !strings.Contains(err.Error(), "upload one (slipway upload-agent)")) {
			t.Errorf("%s: CloudInit = %v, which does not say what to do", name, err)
		}
		if err != nil && (strings.Contains(err.Error(), "hush-") || strings.Contains(err.Error(), "\n")) {
			t.Errorf("%s: error is not one line without secrets: %v", name, err)
		}
	}
	if _, err := userdata.CloudInit(userdata.Params{}); !errors.Is(err, errors.NotValid) {
		t.Errorf("CloudInit without a config = %v, want NotValid", err)
	}
}

func TestExtraIsCheckedByItself(t *testing.T) {
	for text, ok := range map[string]bool{"": true, "packages:": true, "timezone: UTC": true, "bootcmd: [x]": false, "- x": false} {
		if err := userdata.CheckExtra(text); (err == nil) != ok {
			t.Errorf("CheckExtra(%q) = %v, want success %v", text, err, ok)
		}
	}
}

// Whatever a proxy is set to, a shell reads back just that.
func TestProxiesAreQuoted(t *testing.T) {
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.StringMatching(`[ -~]{1,30}`).Draw(t, "value")
		c := instanceConfig()
		c.Proxies, c.CloudInitUserData = config.Proxies{HTTPS: value}, ""
		text, err := userdata.CloudInit(userdata.Params{Config: c, AgentFileLaid: true})
		if err != nil {
			t.Fatal(err)
		}
		var data struct {
			WriteFiles []struct{ Path, Content string } `yaml:"write_files"`
		}
		if err := yaml.Unmarshal(text, &data); err != nil || len(data.WriteFiles) == 0 || data.WriteFiles[0].Path != "/etc/profile.d/slipway-proxy.sh" {
			t.Fatalf("user data with %d files and not the proxies' first, %v", len(data.WriteFiles), err)
		}
		got, err := exec.Command(sh, "-c", data.WriteFiles[0].Content+`printf %s "$HTTPS_PROXY"`).Output()
		if err != nil || string(got) != value {
			t.Fatalf("a shell reads %q, %v, want %q", got, err, value)
		}
	})
}

func TestCommandNamesTheAgentFile(t *testing.T) {
	if got := strings.Join(userdata.Command(), " "); !strings.Contains(got, userdata.AgentFilePath) || !strings.HasPrefix(got, userdata.AgentPath) {
		t.Errorf("Command() = %q", got)
	}
	files, err := userdata.Files(userdata.Params{Config: instanceConfig(), AgentLaid: true})
	if err != nil {
		t.Fatal(err)
	}
	links := 0
	for _, f := range files {
		if f.Mode&fs.ModeSymlink != 0 && f.Link != "" {
			links++
		}
	}
	if links != 1 {
		t.Errorf("%d links among the files, want the one that enables the service", links)
	}
}
