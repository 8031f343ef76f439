package apiserver_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/slipway-project/slipway/apiserver"
	metal3v1alpha1 "github.com/slipway-project/slipway/environs/baremetal/metal3/v1alpha1"
	"github.com/slipway-project/slipway/internal/hostkey"
	"github.com/slipway-project/slipway/provision/config"
	"github.com/slipway-project/slipway/provision/media"
	"github.com/slipway-project/slipway/state"
	"github.com/slipway-project/slipway/state/install"
	"github.com/slipway-project/slipway/state/statetest"
	"github.com/slipway-project/slipway/store/storetest"
)

// moved is a clock that tests move.
type moved struct {
	mu  sync.Mutex
	now time.Time
}

func (m *moved) Now() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.now
}

func (m *moved) advance(d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.now = m.now.Add(d)
}

// installerSite is a site that can install machines.
type installerSite struct {
	*site
	clock    *moved
	installs *install.Installs
	images   string
}

// efiProgram writes the least EFI program that has an initramfs, and returns its path.
func efiProgram(t *testing.T) string {
	t.Helper()
	stub := make([]byte, 0x600)
	le := binary.LittleEndian
	copy(stub, "MZ")
	le.PutUint32(stub[0x3c:], 0x80)
	copy(stub[0x80:], "PE\x00\x00\x64\x86")
	le.PutUint16(stub[0x86:], 1)
	le.PutUint16(stub[0x94:], 240)
	opt := stub[0x98:]
	le.PutUint16(opt, 0x20b)
	le.PutUint32(opt[32:], 0x1000)
	le.PutUint32(opt[36:], 0x200)
	le.PutUint32(opt[56:], 0x2000)
	le.PutUint32(opt[60:], 0x400)
	le.PutUint32(opt[108:], 16)
	text := stub[0x98+240:]
	copy(text, ".text")
	le.PutUint32(text[8:], 0x123)
	le.PutUint32(text[12:], 0x1000)
	le.PutUint32(text[16:], 0x200)
	le.PutUint32(text[20:], 0x400)
	dir := t.TempDir()
	init := filepath.Join(dir, "init")
	if err := os.WriteFile(init, []byte("init"), 0o700); err != nil {
		t.Fatal(err)
	}
	initrd, err := media.Initrd(media.Config{Installer: init})
	if err != nil {
		t.Fatal(err)
	}
	program, err := media.UKI(stub, []byte("KERNEL"), initrd, "quiet")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "installer.efi")
	if err := os.WriteFile(path, program, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func newInstallerSite(t *testing.T) *installerSite {
	t.Helper()
	s := &installerSite{clock: &moved{now: time.Now()}, images: t.TempDir()}
	s.site = &site{t: t, Site: statetest.OpenWith(t, statetest.Config{
		Store: storetest.New(t, state.Collections()), Options: state.Options{HostKeys: hostkey.New(), Now: s.clock.Now},
	})}
	program, dir := efiProgram(t), t.TempDir()
	template := sync.OnceValues(func() (*media.Template, error) { return media.NewTemplate(program, dir) })
	s.serve(func(c *apiserver.Config) {
		c.Installer = apiserver.InstallerConfig{Template: template, Images: s.images}
	})
	s.installs = install.New(s.SiteDocs())
	return s
}

// order makes an order for a host and returns where its media are.
func (s *installerSite) order(host string) (base string) {
	s.t.Helper()
	one, err := s.installs.Start(context.Background(), install.Order{
		Purpose: install.PurposeInstall, Host: host, Name: "name-of-" + host,
		Image: metal3v1alpha1.Image{URL: "https://images.test/i", Checksum: strings.Repeat("ab", 32)},
		Data:  install.Data{User: "planted"},
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return "/installer/media/" + host + "/" + string(one.Medium)
}

// ask makes a request with a bearer and further headers.
func (s *installerSite) ask(method, path, bearer, body string, header ...string) (int, http.Header, []byte) {
	s.t.Helper()
	transport := &http.Transport{TLSClientConfig: s.tls}
	defer transport.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, "https://"+s.addr+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	if bearer != "" {
		r.Header.Set("Authorization", "Bearer "+bearer)
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	answer, err := transport.RoundTrip(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return answer.StatusCode, answer.Header, text
}

// bootFrom reads the boot file of a host's ISO.
func (s *installerSite) bootFrom(base string) *config.Boot {
	s.t.Helper()
	code, _, iso := s.ask("GET", base+"/installer.iso", "", "")
	if code != http.StatusOK {
		s.t.Fatalf("medium: %d %.100s", code, iso)
	}
	b, err := media.ReadBoot(bytes.NewReader(iso))
	if err != nil {
		s.t.Fatal(err)
	}
	return b
}

// token is the body of an exchange with a new key, or with the one given.
func token(t *testing.T, b *config.Boot, private ed25519.PrivateKey) string {
	t.Helper()
	e := config.Exchange{Host: b.Host, Boot: b.Number, Token: b.Token, PublicKey: private.Public().(ed25519.PublicKey)}
	e.Signature = ed25519.Sign(private, e.Message())
	text, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func newKey(t *testing.T) ed25519.PrivateKey {
	t.Helper()
	_, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	return private
}

// prove exchanges a token for a credential.
func (s *installerSite) prove(b *config.Boot) string {
	s.t.Helper()
	code, _, text := s.ask("POST", "/installer/token", "", token(s.t.(*testing.T), b, newKey(s.t.(*testing.T))))
	var reply struct{ Credential string }
	if err := json.Unmarshal(text, &reply); code != http.StatusOK || err != nil || reply.Credential == "" {
		s.t.Fatalf("token: %d %s", code, text)
	}
	return reply.Credential
}

// The installer's own client gets through a whole run against the server.
func TestInstallersClientAgainstTheServer(t *testing.T) {
	s := newInstallerSite(t)
	boot := s.bootFrom(s.order("h1"))
	if boot.Server != "https://10.0.0.1:17070/installer" || boot.CA == "" || boot.Host != "h1" || boot.Number != 1 {
		t.Errorf("boot file: %+v", boot)
	}
	boot.Server = "https://" + s.addr + "/installer"
	ctx := t.Context()
	client, err := config.NewClient(boot)
	if err != nil {
		t.Fatal(err)
	}
	if now, err := config.ServerClock(ctx, boot); err != nil || now.IsZero() {
		t.Errorf("the server's clock: %v, %v", now, err)
	}
	private := newKey(t)
	e := config.Exchange{Host: boot.Host, Boot: boot.Number, Token: boot.Token, PublicKey: private.Public().(ed25519.PublicKey)}
	e.Signature = ed25519.Sign(private, e.Message())
	if err := client.Exchange(ctx, e); err != nil {
		t.Fatal(err)
	}
	cfg, err := client.GetConfig(ctx)
	if err != nil || cfg.Host != "name-of-h1" || cfg.CloudInit.UserData != "planted" {
		t.Fatalf("config: %v, %v", cfg, err)
	}
	for i, err := range []error{
		client.ReportStatus(ctx, config.Status{State: config.StateInit}), client.ReportInventory(ctx, []byte(`{"cpus":1}`)),
		client.ReportFirmware(ctx, []byte(`{}`)), client.ReportHealthChecks(ctx, nil), client.Heartbeat(ctx),
		client.ShipLog(ctx, []string{"hello"}), client.ReportStatus(ctx, config.Status{State: config.StateSuccess}),
	} {
		if err != nil {
			t.Errorf("report %d: %v", i, err)
		}
	}
	if got, err := s.installs.Get(ctx, []string{"h1"}, false); err != nil || got[0].Phase != install.PhaseDone || string(got[0].Inventory) != `{"cpus":1}` {
		t.Errorf("order: %+v, %v", got, err)
	}
	if l, err := s.installs.Log(ctx, "h1", 1); err != nil || l.Len() != 1 {
		t.Errorf("log: %v, %v", l, err)
	}
}

func TestMediaAreServedInParts(t *testing.T) {
	s := newInstallerSite(t)
	base := s.order("h1")
	for _, path := range []string{base + "/installer.iso", base + "/boot.efi", "/installer/boot.efi"} {
		code, header, whole := s.ask("GET", path, "", "")
		if code != http.StatusOK || header.Get("Accept-Ranges") != "bytes" || header.Get("ETag") == "" {
			t.Fatalf("%s: %d %v", path, code, header)
		}
		if code, h, body := s.ask("HEAD", path, "", ""); code != http.StatusOK || len(body) != 0 || h.Get("Content-Length") != fmt.Sprint(len(whole)) {
			t.Errorf("HEAD %s: %d, %s bytes of %d", path, code, h.Get("Content-Length"), len(whole))
		}
		if code, _, part := s.ask("GET", path, "", "", "Range", "bytes=1000-2999", "If-Range", header.Get("ETag")); code != http.StatusPartialContent || !bytes.Equal(part, whole[1000:3000]) {
			t.Errorf("part of %s: %d, %d bytes", path, code, len(part))
		}
	}
	if _, _, generic := s.ask("GET", "/installer/boot.efi", "", ""); bytes.Contains(generic, []byte(`"token"`)) {
		t.Error("the program for all has a token")
	}
	if code, _, script := s.ask("GET", "/installer/ipxe?mac=52:54:00:00:00:01", "", ""); code != http.StatusOK || !strings.HasPrefix(string(script), "#!ipxe\n") ||
		!strings.Contains(string(script), "chain https://10.0.0.1:17070/installer/boot.efi") || strings.Contains(string(script), "media") {
		t.Errorf("iPXE script: %d %s", code, script)
	}
}

func TestImagesAreServedInParts(t *testing.T) {
	s := newInstallerSite(t)
	for name, text := range map[string]string{"tiny.raw.zst": "0123456789", ".hidden": "x"} {
		if err := os.WriteFile(filepath.Join(s.images, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(s.images, "folder"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(s.images, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	code, header, body := s.ask("GET", "/installer/images/tiny.raw.zst", "", "", "Range", "bytes=2-4")
	if code != http.StatusPartialContent || string(body) != "234" || header.Get("ETag") == "" {
		t.Errorf("part of an image: %d %q %v", code, body, header)
	}
	if code, _, _ := s.ask("GET", "/installer/images/tiny.raw.zst", "", "", "If-Match", `"another"`); code != http.StatusPreconditionFailed {
		t.Errorf("another image: %d", code)
	}
	for _, name := range []string{".hidden", "folder", "pipe", "none", "..%2f..%2fetc%2fpasswd", "a%00b", ""} {
		if code, _, body := s.ask("GET", "/installer/images/"+name, "", ""); code != http.StatusNotFound {
			t.Errorf("image %q: %d %.50s", name, code, body)
		}
	}
}

// Everybody who may not, at every route that is not for all: each with what the server says.
func TestWhoIsTurnedAwayByInstallersRoutes(t *testing.T) {
	s := newInstallerSite(t)
	base := s.order("h1")
	boot := s.bootFrom(base)
	other := s.prove(s.bootFrom(s.order("h2")))
	old := s.prove(boot)
	if err := s.installs.Renew(t.Context(), "h1", 1, "silent"); err != nil {
		t.Fatal(err)
	}
	wrong := *boot
	wrong.Number, wrong.Token = 2, "guess"
	otherHost := *boot
	otherHost.Host = "h2"
	for what, body := range map[string]string{
		"token of an old boot": token(t, boot, newKey(t)), "wrong token": token(t, &wrong, newKey(t)), "token of another host": token(t, &otherHost, newKey(t)),
		"empty": "{}",
	} {
		if code, _, text := s.ask("POST", "/installer/token", "", body); code != http.StatusUnauthorized || string(text) != "unknown installer\n" {
			t.Errorf("%s: %d %s", what, code, text)
		}
	}
	routes := []string{"GET config", "POST status", "POST inventory", "POST firmware", "POST health", "POST heartbeat", "POST log"}
	for who, bearer := range map[string]string{"nobody": "", "a guess": "h1.guess", "an old boot": old, "an agent's password": agentPassword} {
		for _, route := range routes {
			method, name, _ := strings.Cut(route, " ")
			if code, _, text := s.ask(method, "/installer/"+name, bearer, "{}"); code != http.StatusUnauthorized || strings.Contains(string(text), "h1") {
				t.Errorf("%s by %s: %d %s", route, who, code, text)
			}
		}
	}
	// An installer cannot act on another host: its credential is all there is to name one.
	if got, err := s.installs.Get(t.Context(), []string{"h1"}, false); err != nil || got[0].Phase != install.PhaseWaiting || len(got[0].Steps) > 0 {
		t.Errorf("h1 after all this: %+v, %v", got, err)
	}
	s2 := newInstallerSite(t) // its failures are not counted yet
	if code, _, text := s2.ask("GET", "/installer/config", other, ""); code != http.StatusUnauthorized {
		t.Errorf("credential of another site: %d %s", code, text)
	}
}

func TestMediaThatAreNotServed(t *testing.T) {
	s := newInstallerSite(t)
	base := s.order("h1")
	elsewhere := strings.Replace(base, "/h1/", "/h2/", 1)
	for _, file := range []string{"/installer.iso", "/boot.efi"} {
		for what, path := range map[string]string{"a guess": "/installer/media/h1/guess" + file, "another host": elsewhere + file} {
			if code, _, text := s.ask("GET", path, "", ""); code != http.StatusNotFound {
				t.Errorf("%s: %d %.50s", what, code, text)
			}
		}
	}
	s.clock.advance(install.MediumLife + time.Minute)
	if code, _, _ := s.ask("GET", base+"/installer.iso", "", ""); code != http.StatusGone {
		t.Errorf("medium after an hour: %d, want 410", code)
	}
	base = s.order("h1")
	s.prove(s.bootFrom(base))
	if code, _, _ := s.ask("GET", base+"/installer.iso", "", ""); code != http.StatusGone {
		t.Errorf("medium of which the token was used: %d, want 410", code)
	}
	plain := newSite(t)
	for _, path := range []string{"/installer/boot.efi", "/installer/ipxe"} {
		if code, _, text := plain.request("GET", path, "", credentials{}); code != http.StatusNotFound || !strings.Contains(text, "--installer-image FILE") {
			t.Errorf("%s without an installer: %d %s", path, code, text)
		}
	}
}

func TestATokenWithTwoKeys(t *testing.T) {
	s := newInstallerSite(t)
	boot := s.bootFrom(s.order("h1"))
	first := newKey(t)
	codes := []int{}
	var credential string
	for _, private := range []ed25519.PrivateKey{first, first, newKey(t)} {
		code, _, text := s.ask("POST", "/installer/token", "", token(t, boot, private))
		codes = append(codes, code)
		var reply struct{ Credential string }
		if code == http.StatusOK && json.Unmarshal(text, &reply) == nil {
			credential = reply.Credential
		}
	}
	if fmt.Sprint(codes) != "[200 200 403]" {
		t.Errorf("first key, again, another key: %v", codes)
	}
	if code, _, _ := s.ask("GET", "/installer/config", credential, ""); code != http.StatusUnauthorized {
		t.Errorf("the revoked credential: %d", code)
	}
}

func TestInstallersBodiesAreBounded(t *testing.T) {
	s := newInstallerSite(t)
	credential := s.prove(s.bootFrom(s.order("h1")))
	long := `"` + strings.Repeat("x", 2<<20) + `"`
	for name, body := range map[string]string{"status": `{"message":` + long + `}`, "inventory": long, "firmware": long, "health": long, "heartbeat": `{"x":` + long + `}`, "log": "[" + long + "]"} {
		if code, _, text := s.ask("POST", "/installer/"+name, credential, body); code != http.StatusRequestEntityTooLarge {
			t.Errorf("%s of 2 MiB: %d %.50s", name, code, text)
		}
	}
	for name, body := range map[string]string{"status": "[]", "log": "{}", "inventory": "", "heartbeat": "x"} {
		if code, _, text := s.ask("POST", "/installer/"+name, credential, body); code != http.StatusBadRequest {
			t.Errorf("%s of %q: %d %s", name, body, code, text)
		}
	}
	if code, _, text := s.ask("POST", "/installer/status", credential, `{"state":"dance"}`); code != http.StatusBadRequest || !strings.Contains(string(text), "dance") {
		t.Errorf("status of no state: %d %s", code, text)
	}
	lines, err := json.Marshal(make([]string, 6000))
	if err != nil {
		t.Fatal(err)
	}
	if code, _, _ := s.ask("POST", "/installer/log", credential, string(lines)); code != http.StatusRequestEntityTooLarge {
		t.Errorf("log of 6000 lines: %d", code)
	}
}

func TestWhoGuessesIsSlowedDown(t *testing.T) {
	s := newInstallerSite(t)
	limited := false
	for range 100 {
		code, header, _ := s.ask("GET", "/installer/config", "h1.guess", "")
		if code == http.StatusTooManyRequests && header.Get("Retry-After") != "" {
			limited = true
			break
		}
	}
	if !limited {
		t.Error("a hundred guesses from one address are all looked at")
	}
}
