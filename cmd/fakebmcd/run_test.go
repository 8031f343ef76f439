package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/slipway-project/slipway/environs/baremetal/bmc"
	metal3v1alpha1 "github.com/slipway-project/slipway/environs/baremetal/metal3/v1alpha1"
	"github.com/slipway-project/slipway/provision/media"
)

// start runs the command until the test ends and returns the first BMC's URL.
func start(t *testing.T, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r, w := io.Pipe()
	done := make(chan error, 1)
	go func() {
		err := run(ctx, args, w, io.Discard)
		_ = w.CloseWithError(err)
		done <- err
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	line := make([]byte, 500)
	n, err := r.Read(line)
	if err != nil {
		t.Fatal(err)
	}
	url := regexp.MustCompile(`https?://[0-9.:]+`).FindString(string(line[:n]))
	if url == "" {
		t.Fatalf("no address in %q", line[:n])
	}
	return url
}

func TestServesRedfish(t *testing.T) {
	password := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(password, []byte("hunter2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	url := start(t, "--listen", "127.0.0.1:0", "--systems", "3", "--tls", "--password-file", password)
	client := &http.Client{Timeout: time.Minute, Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	defer client.CloseIdleConnections()
	for _, c := range []struct {
		password string
		want     int
	}{{"hunter2", 200}, {"hunter3", 401}} {
		req, _ := http.NewRequest(http.MethodGet, url+"/redfish/v1/Systems", nil)
		req.SetBasicAuth("admin", c.password)
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		var got struct{ Members []any }
		_ = json.NewDecoder(resp.Body).Decode(&got)
		_ = resp.Body.Close()
		if resp.StatusCode != c.want || c.want == 200 && len(got.Members) != 3 {
			t.Errorf("password %s: status %d, %d systems", c.password, resp.StatusCode, len(got.Members))
		}
	}
}

func TestManyBMCs(t *testing.T) {
	url := start(t, "--bmcs", "3", "--port", "0", "--vendor", "dell,hpe")
	resp, err := http.Get(url + "/redfish/v1/")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	var got struct{ Product string }
	if err := json.NewDecoder(resp.Body).Decode(&got); err != nil || !strings.Contains(got.Product, "Dell") || !strings.HasPrefix(url, "http://127.16.0.0:") {
		t.Errorf("first BMC at %s is a %q, %v", url, got.Product, err)
	}
}

func TestTheHostsAreDescribed(t *testing.T) {
	for _, secure := range []bool{false, true} {
		file, password := filepath.Join(t.TempDir(), "hosts.yaml"), filepath.Join(t.TempDir(), "password")
		if err := os.WriteFile(password, []byte("hunter2\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		url := start(t, "--bmcs", "2", "--port", "0", "--systems", "2", "--vendor", "generic,dell", "--password-file", password, "--write-hosts", file, "--tls="+strconv.FormatBool(secure))
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		docs, err := metal3v1alpha1.Decode(bytes.NewReader(text))
		if err != nil || len(docs.Hosts) != 4 || len(docs.Warnings) > 0 {
			t.Fatalf("%d hosts, warnings %v, %v", len(docs.Hosts), docs.Warnings, err)
		}
		last := docs.Hosts[3]
		address, err := bmc.Parse(last.Spec.BMC.Address)
		if err != nil || address.Endpoint() != strings.Replace(url, "127.16.0.0", "127.16.0.1", 1) || address.Path != "/redfish/v1/Systems/System.Embedded.1-1" {
			t.Errorf("address %s, %v", last.Spec.BMC.Address, err)
		}
		secret, _ := docs.SecretFor("", last.Spec.BMC.CredentialsName)
		if got, _ := secret.Value("password"); got != "hunter2" || last.Spec.BootMACAddress != "52:54:00:00:00:03" || last.Metadata.Name != "fake-3" {
			t.Errorf("password %q, MAC address %s, name %s", got, last.Spec.BootMACAddress, last.Metadata.Name)
		}
		if _, err := bmc.ParseFingerprint(last.Spec.BMC.CertificateFingerprint); secure != (err == nil) {
			t.Errorf("fingerprint %q with TLS %t", last.Spec.BMC.CertificateFingerprint, secure)
		}
	}
}

// Slow answers come piece by piece through what bounds slow clients.
func TestADrippingBMCDrips(t *testing.T) {
	url := start(t, "--listen", "127.0.0.1:0")
	resp, err := http.Post(url+"/fakebmc/faults", "application/json", strings.NewReader(`{"kind": "drip", "times": 1}`))
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp, err = http.Get(url + "/redfish/v1/"); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text := make([]byte, len(`{"Name":"A`))
	if _, err := io.ReadFull(resp.Body, text); err != nil || string(text) != `{"Name":"A` {
		t.Errorf("answer begins with %q, %v", text, err)
	}
}

func TestTheStandInOfTheInstallerIsWritten(t *testing.T) {
	file := filepath.Join(t.TempDir(), "stand-in.efi")
	if err := run(t.Context(), []string{"--write-installer", file}, io.Discard, io.Discard); err != nil {
		t.Fatal(err)
	}
	if err := media.CheckProgram(file); err != nil {
		t.Errorf("a controller would not take it: %v", err)
	}
}

// All BMCs have the port of the first, since that alone is printed.
func TestBMCsShareAFreePort(t *testing.T) {
	first := start(t, "--bmcs", "3", "--port", "0", "--installer")
	resp, err := http.Get(strings.Replace(first, "127.16.0.0", "127.16.0.2", 1) + "/redfish/v1/")
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("the last BMC answers %s", resp.Status)
	}
}

func TestRefusals(t *testing.T) {
	folder := t.TempDir()
	for name, c := range map[string]struct {
		args  []string
		want  string
		usage bool
	}{
		"unknown flag":  {[]string{"--nope"}, "flag provided but not defined: -nope", true},
		"argument":      {[]string{"x"}, `unexpected argument "x"`, true},
		"vendor":        {[]string{"--vendor", "acme"}, `unknown vendor "acme"; want one of generic, dell`, true},
		"bmcs":          {[]string{"--bmcs", "-1"}, "--bmcs is not between", true},
		"systems":       {[]string{"--systems", "0"}, "--systems is not between", true},
		"kvm":           {[]string{"--kvm", "maybe"}, "--kvm is none of on, off, auto", true},
		"imitation":     {[]string{"--installer", "--qemu", "x"}, "--installer is for machines in memory", true},
		"failures":      {[]string{"--installer", "--install-failures", "2"}, "--install-failures is not between 0 and 1", true},
		"no number":     {[]string{"--installer", "--install-failures", "NaN"}, "--install-failures is not between 0 and 1", true},
		"no seed":       {[]string{"--seed", "-1"}, `invalid value "-1" for flag -seed`, true},
		"time":          {[]string{"--installer", "--install-time", "-1s"}, "--install-time is less than 0", true},
		"delay":         {[]string{"--soft-off", "-1s"}, "--soft-off or --media is less than 0", true},
		"port":          {[]string{"--bmcs", "1", "--port", "65536"}, "--port is not between", true},
		"listen":        {[]string{"--listen", "127.0.0.1:65536"}, `--listen "127.0.0.1:65536" is not HOST:PORT`, true},
		"no port":       {[]string{"--listen", "127.0.0.1"}, "is not HOST:PORT", true},
		"sessions":      {[]string{"--max-sessions", "0"}, "--max-sessions is less than 1", true},
		"media for all": {[]string{"--media-ca", "x"}, "--media-ca is for --installer or --qemu", true},
		"all alike":     {[]string{"--machines", "x"}, "--machines is for --qemu", true},
		"no password":   {[]string{"--password-file", write(t, "\n")}, "has no password in it", false},
		"a folder":      {[]string{"--write-installer", folder}, "write " + folder + ": is a directory", false},
		"media":         {[]string{"--installer", "--media-ca", "/nonexistent"}, "cannot read --media-ca", false},
		"stand-in":      {[]string{"--write-installer", "/nonexistent/x"}, "cannot write the stand-in of the installer", false},
		"memory":        {[]string{"--memory", "1"}, "--memory is less than 64 MiB", true},
		"half a pair":   {[]string{"--cert", "x"}, "--cert and --key go together", true},
		"password file": {[]string{"--password-file", "/nonexistent"}, "cannot read the password", false},
		"certificate":   {[]string{"--listen", "127.0.0.1:0", "--cert", "/nonexistent", "--key", "/nonexistent"}, "cannot load the certificate", false},
		"hosts":         {[]string{"--listen", "127.0.0.1:0", "--write-hosts", "/nonexistent/x"}, "cannot write --write-hosts", false},
		"address":       {[]string{"--listen", "192.0.2.1:1"}, "cannot listen at 192.0.2.1:1", false},
		"machines":      {[]string{"--qemu", t.TempDir(), "--machines", "/nonexistent"}, "cannot read --machines", false},
		"no machine":    {[]string{"--qemu", t.TempDir(), "--machines", write(t, `{"1": {}}`)}, `machine "1" in --machines (there are 0 to 0) not valid`, false},
		"no property":   {[]string{"--qemu", t.TempDir(), "--machines", write(t, `{"0": {"disc": "x"}}`)}, `unknown field "disc"`, false},
		"log level":     {[]string{"--log", "LOUD"}, "cannot set the log level", true},
	} {
		t.Run(name, func(t *testing.T) {
			var stderr bytes.Buffer
			err := run(context.Background(), c.args, io.Discard, &stderr)
			if err == nil || isUsage(err) != c.usage || !strings.Contains(stderr.String()+err.Error(), c.want) {
				t.Errorf("run = %v, stderr %q; want %q", err, stderr.String(), c.want)
			}
			if said := strings.Count(stderr.String(), "\n"); c.usage && said != 1 {
				t.Errorf("%d lines, want 1: %s", said, stderr.String())
			}
		})
	}
}

func TestHelpIsNoFailure(t *testing.T) {
	var stderr bytes.Buffer
	if err := run(t.Context(), []string{"--help"}, io.Discard, &stderr); err != nil || !strings.Contains(stderr.String(), "-write-hosts") {
		t.Errorf("run = %v, stderr %q", err, stderr.String())
	}
}

// write writes a file and returns its name.
func write(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}
