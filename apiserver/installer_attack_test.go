package apiserver_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/slipway-project/slipway/provision/config"
	"github.com/slipway-project/slipway/state/install"
)

// get returns how a host's order stands.
func (s *installerSite) get(host string) install.Install {
	s.t.Helper()
	all, err := s.installs.Get(s.t.(*testing.T).Context(), []string{host}, false)
	if err != nil || len(all) != 1 {
		s.t.Fatalf("orders of %s: %v, %v", host, all, err)
	}
	return all[0]
}

// report sends a report and fails the test unless it is taken.
func (s *installerSite) report(name, credential, body string) {
	s.t.Helper()
	if code, _, text := s.ask("POST", "/installer/"+name, credential, body); code != http.StatusNoContent {
		s.t.Errorf("%s of the machine that is installed: %d %s", name, code, text)
	}
}

// slowImage begins to fetch an image and returns what reads the rest of it.
func (s *installerSite) slowImage(content []byte) (rest func() []byte) {
	s.t.Helper()
	if err := os.WriteFile(filepath.Join(s.images, "image.raw"), content, 0o600); err != nil {
		s.t.Fatal(err)
	}
	transport := &http.Transport{TLSClientConfig: s.tls}
	r, err := http.NewRequestWithContext(s.t.(*testing.T).Context(), http.MethodGet, "https://"+s.addr+"/installer/images/image.raw", nil)
	if err != nil {
		s.t.Fatal(err)
	}
	answer, err := transport.RoundTrip(r)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		_ = answer.Body.Close()
		transport.CloseIdleConnections()
	})
	first := make([]byte, 1<<10)
	if _, err := io.ReadFull(answer.Body, first); err != nil {
		s.t.Fatal(err)
	}
	return func() []byte {
		all, err := io.ReadAll(answer.Body)
		if err != nil {
			s.t.Errorf("the rest of the image: %v", err)
		}
		return append(first, all...)
	}
}

// While one machine writes its image, everybody else who can reach the installer's routes
// tries what there is to try; the machine gets through, and its order tells of nothing else.
func TestAttacksWhileAnImageIsWritten(t *testing.T) {
	s := newInstallerSite(t)
	oldBase := s.order("h1")
	old := s.bootFrom(oldBase)
	oldCredential := s.prove(old)
	if err := s.installs.Renew(t.Context(), "h1", 1, "silent"); err != nil {
		t.Fatal(err)
	}
	all, err := s.installs.Get(t.Context(), []string{"h1"}, true)
	if err != nil {
		t.Fatal(err)
	}
	base := "/installer/media/h1/" + string(all[0].Medium)
	boot := s.bootFrom(base)
	credential := s.prove(boot)
	other := s.prove(s.bootFrom(s.order("h2")))
	image := bytes.Repeat([]byte("an image of a system "), 400<<10)
	rest := s.slowImage(image)
	s.report("status", credential, `{"state":"init"}`)
	s.report("status", credential, `{"state":"step","step":"stream-image","number":21,"total":37,"result":"running"}`)
	heard := s.get("h1").Heard
	s.clock.advance(10 * time.Second)

	t.Run("a boot that is over", func(t *testing.T) { s.replay(t, old, oldBase, oldCredential, base) })
	if now := s.get("h1"); now.Phase != install.PhaseRunning || !strings.HasPrefix(now.Step, "stream-image") || !now.Heard.Equal(heard) || len(now.Steps) != 2 {
		t.Errorf("h1 after the replays: %+v", now)
	}
	t.Run("another host's installer", func(t *testing.T) { s.actAs(t, other) })
	t.Run("floods", func(t *testing.T) { s.flood(t, other, credential) })

	if now := s.get("h1"); now.Phase != install.PhaseRunning || len(now.Inventory) > 0 {
		t.Errorf("h1 after reports of h2: %+v", now)
	}
	if got := rest(); !bytes.Equal(got, image) {
		t.Errorf("the image came as %d bytes of %d, or others", len(got), len(image))
	}
	s.report("status", credential, `{"state":"success"}`)
	if now := s.get("h1"); now.Phase != install.PhaseDone || now.Number != 2 {
		t.Errorf("h1 at the end: %+v", now)
	}
}

// replay shows what a medium of a boot that is over is good for, and the medium of the one
// under way once its token is used: for nothing.
func (s *installerSite) replay(t *testing.T, old *config.Boot, oldBase, oldCredential, base string) {
	renumbered := *old
	renumbered.Number = 2
	for what, b := range map[string]*config.Boot{"its token": old, "its token with the new number": &renumbered} {
		if code, _, text := s.ask("POST", "/installer/token", "", token(t, b, newKey(t))); code != http.StatusUnauthorized || string(text) != "unknown installer\n" {
			t.Errorf("%s: %d %s", what, code, text)
		}
	}
	for _, route := range []string{"status", "log", "inventory", "heartbeat"} {
		if code, _, text := s.ask("POST", "/installer/"+route, oldCredential, `{"state":"error","message":"planted"}`); code != http.StatusUnauthorized {
			t.Errorf("%s with its credential: %d %s", route, code, text)
		}
	}
	for path, want := range map[string]int{oldBase + "/installer.iso": http.StatusNotFound, base + "/installer.iso": http.StatusGone, base + "/boot.efi": http.StatusGone} {
		if code, _, text := s.ask("GET", path, "", ""); code != want || bytes.Contains(text, []byte(old.Token)) {
			t.Errorf("GET %s: %d %.100s, want %d", path, code, text, want)
		}
	}
}

// actAs has an installer whose host is h2 try to speak of h1: its credential alone says of which host
// a report is, whatever the report says.
func (s *installerSite) actAs(t *testing.T, credential string) {
	for name, body := range map[string]string{
		"status": `{"state":"error","step":"stream-image","message":"h1 has failed","host":"h1","boot":2}`,
		"log":    `["order for h1: planted"]`,
	} {
		if code, _, text := s.ask("POST", "/installer/"+name+"?host=h1", credential, body, "X-Host", "h1"); code != http.StatusNoContent {
			t.Errorf("%s of h2: %d %s", name, code, text)
		}
		if name == "log" {
			continue
		}
		if now := s.get("h2"); now.Phase != install.PhaseFailed {
			t.Errorf("h2 after its own report: %+v", now)
		}
	}
	if l, err := s.installs.Log(t.Context(), "h1", 2); err != nil || l.Len() != 0 {
		t.Errorf("log of h1: %v, %v", l, err)
	}
	if code, _, text := s.ask("GET", "/installer/config?host=h1", credential, ""); code == http.StatusOK || bytes.Contains(text, []byte("planted")) {
		t.Errorf("config by an installer whose run has ended: %d %.100s", code, text)
	}
}

// flood has two hosts send more than they may, at once with reports of the machine that is installed.
func (s *installerSite) flood(t *testing.T, ended, credential string) {
	flooder := s.prove(s.bootFrom(s.order("h3")))
	lines, err := json.Marshal([]string{strings.Repeat("x", 3000), strings.Repeat("y", 3000), "z\n\x1b[2Jz"})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for who, n := range map[string]int{flooder: 40, ended: 5} { // 40 are more than is kept
		wg.Go(func() {
			for range n {
				s.ask("POST", "/installer/log", who, string(lines))
			}
		})
	}
	for range 10 {
		s.report("heartbeat", credential, "{}")
		s.report("log", credential, `["writing"]`)
	}
	wg.Wait()
	l, err := s.installs.Log(t.Context(), "h3", 1)
	if err != nil {
		t.Fatal(err)
	}
	kept := strings.Join(l.After(0), "\n")
	if len(kept) > 200<<10 || l.Dropped == 0 || strings.Contains(kept, "\x1b") {
		t.Errorf("of a flood of lines %d bytes are kept, %d lines dropped", len(kept), l.Dropped)
	}
	if l, err := s.installs.Log(t.Context(), "h1", 2); err != nil || l.Len() != 10 {
		t.Errorf("the machine's own log has %d lines of 10, %v", l.Len(), err)
	}
	deep := strings.Repeat("[", 20<<10)
	for what, want := range map[string]int{`{"x":"` + strings.Repeat("x", 300<<10) + `"}`: http.StatusRequestEntityTooLarge, deep: http.StatusBadRequest} {
		if code, _, text := s.ask("POST", "/installer/inventory", flooder, what); code != want {
			t.Errorf("inventory %.20q: %d %.100s, want %d", what, code, text, want)
		}
	}
	if now := s.get("h3"); len(now.Inventory) > 0 {
		t.Errorf("%d bytes of an inventory that is too long are kept", len(now.Inventory))
	}
}

// A token that comes with a second key while the image is written ends the run, since nobody can
// tell which of the two is the machine: no more is told to either, the reason is on record, and
// another boot is another run.
func TestASecondKeyWhileAnImageIsWritten(t *testing.T) {
	s := newInstallerSite(t)
	boot := s.bootFrom(s.order("h1"))
	credential := s.prove(boot)
	s.report("status", credential, `{"state":"step","step":"stream-image"}`)
	if code, _, text := s.ask("POST", "/installer/token", "", token(t, boot, newKey(t))); code != http.StatusForbidden {
		t.Errorf("the token with a second key: %d %s", code, text)
	}
	for _, route := range []string{"GET config", "POST status", "POST heartbeat"} {
		method, name, _ := strings.Cut(route, " ")
		if code, _, text := s.ask(method, "/installer/"+name, credential, `{"state":"success"}`); code != http.StatusUnauthorized || bytes.Contains(text, []byte("planted")) {
			t.Errorf("%s with the revoked credential: %d %s", route, code, text)
		}
	}
	if now := s.get("h1"); now.Phase != install.PhaseFailed || !strings.Contains(now.Message, "installer token used twice") || !strings.Contains(now.Message, "network of the BMCs") {
		t.Errorf("the order: %+v", now)
	}
	next := s.bootFrom(s.order("h1"))
	if next.Number != 2 || next.Token == boot.Token {
		t.Errorf("the next boot: %+v", next)
	}
	s.report("status", s.prove(next), `{"state":"init"}`)
}
