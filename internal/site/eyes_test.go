package site_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/api"
	"github.com/slipway-project/slipway/api/clientstore"
	"github.com/slipway-project/slipway/environs/all"
	"github.com/slipway-project/slipway/internal/site"
	"github.com/slipway-project/slipway/internal/testlog"
	"github.com/slipway-project/slipway/params"
	"github.com/slipway-project/slipway/rpc"
)

// served is a site that a test serves.
type served struct {
	*site.Site
	dir   site.Dir
	known clientstore.Site
	http  *http.Client
}

// begin prepares and serves a site. Change may change how.
func begin(t *testing.T, change func(*site.Options)) *served {
	t.Helper()
	dir := site.Dir(filepath.Join(t.TempDir(), "site"))
	registry := all.Registry(all.Backends{})
	if err := site.Bootstrap(t.Context(), site.BootstrapOptions{Dir: dir, Listen: "127.0.0.1:0", Registry: registry}); err != nil {
		t.Fatal(err)
	}
	o := site.Options{Dir: dir, Registry: registry}
	if change != nil {
		change(&o)
	}
	return open(t, dir, o)
}

// open serves a site that is prepared.
func open(t *testing.T, dir site.Dir, o site.Options) *served {
	t.Helper()
	s, err := site.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.Kill()
		if err := s.Wait(); err != nil {
			t.Errorf("site: %v", err)
		}
	})
	all, err := clientstore.New(dir.Client()).Read()
	if err != nil {
		t.Fatal(err)
	}
	known := clientstore.Site{Controller: all.Controllers["slipway"], Account: all.Accounts["slipway"]}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(known.Controller.CACert))
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, DisableKeepAlives: true}
	return &served{Site: s, dir: dir, known: known, http: &http.Client{Transport: transport, Timeout: time.Minute}}
}

// get asks for a page.
func (s *served) get(t *testing.T, url string, auth ...string) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), "GET", url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(auth) == 2 {
		request.SetBasicAuth(auth[0], auth[1])
	}
	answer, err := s.http.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(body)
}

// until asks for a page until the status is as wanted.
func (s *served) until(t *testing.T, url string, want int) (int, string) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		code, body := s.get(t, url)
		if code == want {
			return code, body
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s = %d %s, want %d in time", url, code, body, want)
		}
		<-tick.C
	}
}

// connect logs in to the site.
func (s *served) connect(t *testing.T, user string, password params.Secret, model string) (*api.Conn, error) {
	t.Helper()
	c, err := api.Open(t.Context(), api.Info{
		Addrs: []string{s.Addr()}, CACert: s.known.Controller.CACert, ModelUUID: model, Tag: "user-" + user, Password: password,
	}, api.DialOptions{})
	if err == nil {
		t.Cleanup(func() { _ = c.Close() })
	}
	return c, err
}

func TestHealth(t *testing.T) {
	dir := t.TempDir()
	log := filepath.Join(dir, "sub", "audit.log")
	if err := os.Mkdir(filepath.Dir(log), 0o700); err != nil {
		t.Fatal(err)
	}
	s := begin(t, func(o *site.Options) { o.AuditLog = log })
	url := "https://" + s.Addr() + "/health"
	code, body := s.until(t, url, 200) // a busy machine may take longer than the check waits
	if want := `{"status":"ok","checks":{"audit-log":"ok","changes":"ok","store":"ok"}}`; code != 200 || strings.TrimSpace(body) != want {
		t.Errorf("health = %d %s, want %s", code, body, want)
	}
	if err := os.RemoveAll(filepath.Dir(log)); err != nil {
		t.Fatal(err)
	}
	s.Reopen()
	code, body = s.until(t, url, 503)
	var told struct{ Status, Reason string }
	if err := json.Unmarshal([]byte(body), &told); err != nil || code != 503 || told.Status != "not ok" || told.Reason != "audit-log" {
		t.Errorf("health without the audit log's folder = %d %s, %v", code, body, err)
	}
	if err := os.Mkdir(filepath.Dir(log), 0o700); err != nil {
		t.Fatal(err)
	}
	s.until(t, url, 200)
}

// TestNoSecretsAnywhere does what there is to do with secrets, and looks for them
// wherever a site tells of what it does.
func TestNoSecretsAnywhere(t *testing.T) {
	logged := testlog.Capture(t)
	audit := filepath.Join(t.TempDir(), "audit.log")
	s := begin(t, func(o *site.Options) { o.AuditLog, o.MetricsListen = audit, "127.0.0.1:0" })
	const planted = "planted-secret"
	secrets := []string{planted, string(s.known.Account.Password)}
	conn, err := s.connect(t, "admin", s.known.Account.Password, "")
	if err != nil {
		t.Fatal(err)
	}
	do := func(c *api.Conn, facade string, version int, method string, args, result any) {
		t.Helper()
		if err := c.Call(t.Context(), rpc.Request{Type: facade, Version: version, Method: method}, args, result); err != nil {
			t.Errorf("%s.%s: %v", facade, method, err)
		}
	}
	var info params.ModelInfo
	do(conn, "ModelManager", 2, "CreateModel", params.ModelCreateArgs{Name: "m", OwnerTag: "user-admin",
		Config: map[string]any{"type": "simulated", "http-proxy": "http://u:" + planted + "@proxy:1"}}, &info)
	do(conn, "UserManager", 1, "AddUser", params.AddUsers{Users: []params.AddUser{{UserName: "bob", Password: planted}}}, nil)
	do(conn, "UserManager", 1, "SetPassword", params.EntityPasswords{Changes: []params.EntityPassword{{Tag: "user-bob", Password: planted + "-2"}}}, nil)
	var workers params.AddWorkerResults
	do(conn, "ModelWorkers", 1, "AddWorkers", params.AddWorkers{Workers: []params.AddWorker{{Name: "w"}}}, &workers)
	secrets = append(secrets, string(workers.Results[0].Result.Password), workers.Results[0].Result.Nonce)
	if _, err := s.connect(t, "bob", planted+"-wrong", ""); !errors.Is(err, errors.Unauthorized) {
		t.Errorf("login with a wrong password = %v", err)
	}
	if _, err := s.connect(t, planted+"@", planted, ""); err == nil {
		t.Error("login with a password for a name succeeds")
	}
	model, err := s.connect(t, "admin", s.known.Account.Password, info.UUID)
	if err != nil {
		t.Fatal(err)
	}
	do(model, "ModelConfig", 1, "ModelSet", params.ModelSet{Config: map[string]any{"https-proxy": "http://u:" + planted + "@proxy:1"}}, nil)
	code, metrics := s.get(t, "http://"+s.MetricsAddr()+"/metrics")
	if code != 200 || !strings.Contains(metrics, `slipway_rpc_calls_total{method="UserManager.AddUser",outcome="ok"} 1`) {
		t.Errorf("metrics = %d\n%s", code, metrics)
	}
	s.Kill()
	if err := s.Wait(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(audit)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"method":"UserManager.AddUser","version":1,"entities":[{"name":"user-bob"}]`, `"method":"ModelManager.CreateModel"`, `"http-proxy"`, `"outcome":"unauthorized access"`} {
		if !strings.Contains(string(text), want) {
			t.Errorf("audit log lacks %s:\n%s", want, text)
		}
	}
	var lines []string
	for _, e := range logged.Entries() {
		lines = append(lines, e.Message)
	}
	for where, text := range map[string]string{"audit log": string(text), "metrics": metrics, "log": strings.Join(lines, "\n")} {
		for _, secret := range secrets {
			if strings.Contains(text, secret) {
				t.Errorf("%s holds %q:\n%s", where, secret, text)
			}
		}
	}
}

func TestMetricsElsewhereAreForSuperusers(t *testing.T) {
	s := begin(t, func(o *site.Options) { o.MetricsListen = "0.0.0.0:0" })
	_, port, err := net.SplitHostPort(s.MetricsAddr())
	if err != nil {
		t.Fatal(err)
	}
	url := "https://127.0.0.1:" + port + "/metrics"
	if code, body := s.get(t, url); code != 401 || !strings.Contains(body, `"code":"no credentials provided"`) {
		t.Errorf("metrics without login = %d %s", code, body)
	}
	if code, body := s.get(t, url, "user-admin", "wrong"); code != 401 || strings.Contains(body, "slipway_") {
		t.Errorf("metrics with a wrong password = %d %s", code, body)
	}
	if code, body := s.get(t, url, "user-admin", string(s.known.Account.Password)); code != 200 || !strings.Contains(body, "slipway_state_up 1") {
		t.Errorf("metrics for a superuser = %d %s", code, body)
	}
	conn, err := s.connect(t, "admin", s.known.Account.Password, "")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := conn.Call(ctx, rpc.Request{Type: "UserManager", Version: 1, Method: "AddUser"},
		params.AddUsers{Users: []params.AddUser{{UserName: "bob", Password: "bobs password"}}}, nil); err != nil {
		t.Fatal(err)
	}
	if code, body := s.get(t, url, "user-bob", "bobs password"); code != 401 || strings.Contains(body, "slipway_") {
		t.Errorf("metrics for somebody else = %d %s", code, body)
	}
}
