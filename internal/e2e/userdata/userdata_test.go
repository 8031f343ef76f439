//go:build e2e

package userdata_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"io"
	"log"

	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/slipway-project/slipway/core/binaries"
	"github.com/slipway-project/slipway/core/job"
	"github.com/slipway-project/slipway/environs"
	"github.com/slipway-project/slipway/environs/config"
	"github.com/slipway-project/slipway/environs/userdata"
	"github.com/slipway-project/slipway/internal/tlsfiles"
)

// cloud-init's own validator finds nothing wrong.
func TestCloudInitAcceptsUserData(t *testing.T) {
	for name, p := range map[string]userdata.Params{
		"everything": {Config: instanceConfig()},
		"laid":       {Config: instanceConfig(), AgentFileLaid: true, AgentLaid: true},
	} {
		text, err := userdata.CloudInit(p)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := exec.CommandContext(t.Context(), "cloud-init", "schema", "--config-file", path).CombinedOutput()
		if err != nil {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
}

// packed returns a package of the agent.
func packed(t *testing.T, name, content string) []byte {
	t.Helper()
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	w := tar.NewWriter(z)
	for _, err := range []error{
		w.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: int64(len(content))}),
		func() error { _, err := w.Write([]byte(content)); return err }(), w.Close(), z.Close(),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return out.Bytes()
}

// The installer takes the announced package from a controller, and nothing else
// from anybody else.
func TestInstallerTakesOnlyWhatWasAnnounced(t *testing.T) {
	good := packed(t, "provisionerd", "#!/bin/sh\necho agent\n")
	sum := sha256.Sum256(good)
	for _, c := range []struct {
		name   string
		change func(*environs.AgentBinary, *string) // the announcement and the CA
		want   string                               // on standard error; empty means success
	}{
		{name: "as announced"},
		{name: "other checksum", want: "SHA-256", change: func(b *environs.AgentBinary, _ *string) { b.SHA256 = strings.Repeat("0", 64) }},
		{name: "longer", want: "more than", change: func(b *environs.AgentBinary, _ *string) { b.Size-- }},
		{name: "shorter", want: "less than", change: func(b *environs.AgentBinary, _ *string) { b.Size++ }},
		{name: "not there", want: "404", change: func(b *environs.AgentBinary, _ *string) { b.URL += "/no" }},
		{name: "another CA", want: "CERTIFICATE_VERIFY_FAILED", change: func(_ *environs.AgentBinary, ca *string) { *ca = newCA(t).cert }},
		{name: "other arch", want: "no package", change: func(b *environs.AgentBinary, _ *string) { b.Version.Arch = "s390x" }},
	} {
		t.Run(c.name, func(t *testing.T) {
			ca := newCA(t)
			server := ca.serve(t, good)
			b := environs.AgentBinary{
				Version: binaries.Version{Number: binaries.Number{Major: 2}, Series: "jammy", Arch: runtime.GOARCH},
				URL:     "https://" + server + "/package", SHA256: hex.EncodeToString(sum[:]), Size: int64(len(good)),
			}
			cert := ca.cert
			if c.change != nil {
				c.change(&b, &cert)
			}
			dir, out, err := runInstaller(t, b, cert)
			program := filepath.Join(dir, "current", "provisionerd")
			if c.want == "" {
				got, runErr := exec.Command(program).Output()
				if err != nil || runErr != nil || string(got) != "agent\n" {
					t.Errorf("installer: %v %s; the agent says %q, %v", err, out, got, runErr)
				}
				return
			}
			if err == nil || !strings.Contains(out, c.want) || strings.Count(out, "\n") != 1 {
				t.Errorf("installer: %v, %q, want one line with %q", err, out, c.want)
			}
			if _, err := os.Stat(program); err == nil {
				t.Error("a program is in place after a failure")
			}
		})
	}
}

// runInstaller runs the installer as the service does, with its directory moved.
func runInstaller(t *testing.T, b environs.AgentBinary, ca string) (dir, out string, err error) {
	t.Helper()
	config := instanceConfig()
	config.AgentBinaries, config.CACert = []environs.AgentBinary{b}, ca
	files, err := userdata.Files(userdata.Params{Config: config})
	if err != nil {
		t.Fatal(err)
	}
	dir = t.TempDir()
	for _, f := range files {
		content := f.Content
		if strings.HasSuffix(f.Path, "install.json") {
			var m map[string]any
			if err := json.Unmarshal(content, &m); err != nil {
				t.Fatal(err)
			}
			m["directory"] = dir
			if content, err = json.Marshal(m); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(f.Path)), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var stderr bytes.Buffer
	cmd := exec.CommandContext(t.Context(), "python3", "-I", filepath.Join(dir, "install.py"), filepath.Join(dir, "install.json"))
	cmd.Stderr = &stderr
	err = cmd.Run()
	return dir, stderr.String(), err
}

// ca is a site's authority.
type ca struct {
	pair tlsfiles.Pair
	cert string
}

func newCA(t *testing.T) ca {
	t.Helper()
	pair, err := tlsfiles.NewAuthority("test", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return ca{pair, string(pair.Cert)}
}

// serve is a controller that hands out one package. It returns host:port.
func (c ca) serve(t *testing.T, content []byte) string {
	t.Helper()
	leaf, err := tlsfiles.NewLeaf(c.pair, tlsfiles.Hosts(), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	cert, err := tls.X509KeyPair(leaf.Cert, leaf.Key)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/package" {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write(content) // the client may have gone
	}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // refused handshakes are expected
	server.TLS = &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}
	server.StartTLS()
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

// instanceConfig returns a config that uses everything.
func instanceConfig() *environs.InstanceConfig {
	return &environs.InstanceConfig{
		MachineID: "0", Nonce: "slipway:nonce", Password: "hush-not-for-everybody-0",
		APIAddresses: []string{"10.0.0.1:17070"}, CACert: "CA",
		ModelUUID: "deadbeef-0bad-400d-8000-000000000001", ControllerUUID: "5175e000-0bad-400d-8000-000000000001",
		Jobs: []job.Job{job.HostUnits},
		AgentBinaries: []environs.AgentBinary{{
			Version: binaries.Version{Number: binaries.Number{Major: 2}, Series: "jammy", Arch: "amd64"},
			URL:     "https://10.0.0.1:17070/tools/2.0.0-jammy-amd64", SHA256: strings.Repeat("ab", 32), Size: 1234,
		}},
		AuthorizedKeys: "ssh-ed25519 AAAA one\nssh-ed25519 BBBB two\n",
		Proxies:        config.Proxies{HTTP: "http://proxy:3128", NoProxy: "10.0.0.0/8"},
		AptProxies:     config.Proxies{HTTP: "http://apt:3142"}, AptMirror: "http://mirror/ubuntu",
		EnableOSRefreshUpdate: true, LoggingConfig: "<root>=INFO",
		CloudInitUserData: "packages: [jq]\npreruncmd: [echo before]\npostruncmd: [[echo, after]]\n" +
			"write_files: [{path: /etc/motd, content: hello}]\ntimezone: Etc/UTC\n",
	}
}
