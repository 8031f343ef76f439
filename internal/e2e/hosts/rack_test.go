//go:build e2e

package hosts_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/slipway-project/slipway/api"
	"github.com/slipway-project/slipway/api/clientstore"
	"github.com/slipway-project/slipway/api/hosts"
	"github.com/slipway-project/slipway/environs/baremetal/fakebmc"
	"github.com/slipway-project/slipway/environs/baremetal/fakeinstaller"
	metal3v1alpha1 "github.com/slipway-project/slipway/environs/baremetal/metal3/v1alpha1"
	"github.com/slipway-project/slipway/internal/e2e/harness"
	"github.com/slipway-project/slipway/params"
)

// programs is the folder that the programs are built into.
var programs string

func TestMain(m *testing.M) {
	os.Exit(harness.Main(m, &programs, "controllerd", "provisionerd", "fakebmcd", "slipway"))
}

// patience bounds every wait. It is long, since hosts that a killed process was at work on
// are left alone for a while, on a machine that may have other work.
const patience = 10 * time.Minute

// bmcPatience is how long BMCs may take; hosts of a killed process are left alone for twice
// as long.
const bmcPatience = 10 * time.Second

// rack is a site and its processes.
type rack struct {
	*testing.T
	seed   uint64
	dir    string
	env    []string
	worker *harness.Process
	image  string               // its URL
	port   string               // of all BMCs
	pin    string               // of their certificate
	conns  map[string]*api.Conn // by model
	uuids  map[string]string    // of models
	client *hosts.Client
	kills  map[metal3v1alpha1.ProvisioningState]int
	bmcs   *http.Client
}

// newRack starts a controller and fake BMCs. The worker is not started.
func newRack(t *testing.T, seed uint64, o fakeinstaller.Options) *rack {
	t.Helper()
	r := &rack{T: t, seed: seed, dir: t.TempDir(), conns: map[string]*api.Conn{}, uuids: map[string]string{}, kills: map[metal3v1alpha1.ProvisioningState]int{}}
	r.bmcs = &http.Client{Timeout: time.Minute, Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} // it only injects faults
	t.Cleanup(r.bmcs.CloseIdleConnections)
	r.certificate()
	r.write("password", "calvin\n")
	r.run("fakebmcd", "--write-installer", r.path("stand-in.efi"))
	r.run("controllerd", "bootstrap", "--data-dir", r.path("site"), "--listen", "127.0.0.1:0", "--provider", "baremetal")
	r.env = []string{"SLIPWAY_DATA=" + r.path("site", "client")}
	r.must(os.MkdirAll(r.path("site", "images"), 0o755))
	r.write("site/images/a.raw", content)
	addr := r.process("controllerd", "run", "--data-dir", r.path("site"), "--listen", "127.0.0.1:0", "--installer-image", r.path("stand-in.efi")).Serve()
	r.image = "https://" + addr + "/installer/images/a.raw"
	r.connect(addr)
	r.client = hosts.New(r.conns["default"])
	var vendors []string
	for _, v := range fakebmc.Vendors() {
		vendors = append(vendors, v.Name)
	}
	b := r.process("fakebmcd", "--bmcs", fmt.Sprint(many+extra), "--port", "0", "--tls", "--cert", r.path("cert.pem"), "--key", r.path("key.pem"), "--vendor", strings.Join(vendors, ","),
		"--password-file", r.path("password"), "--delay", "30ms", "--power-on", "200ms", "--power-off", "200ms", "--soft-off", "400ms", "--media-ca", r.path("site", "ca.pem"),
		"--installer", "--install-time", "3s", "--install-failures", fmt.Sprint(o.Failures), "--seed", fmt.Sprint(o.Seed))
	b.Start()
	b.Says(" machines each at ", 0)
	r.port = regexp.MustCompile(`:([0-9]+) to `).FindStringSubmatch(b.Printed())[1]
	r.worker = r.process("provisionerd", "model", "--agent-file", r.path("site", "agents", "machine-0.yaml"), "--lease", "1s", "--bmc-patience", bmcPatience.String(), "--installs-at-once", "60")
	return r
}

func (r *rack) must(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

func (r *rack) path(names ...string) string {
	return filepath.Join(append([]string{r.dir}, names...)...)
}

func (r *rack) write(name, text string) {
	r.Helper()
	r.must(os.WriteFile(r.path(name), []byte(text), 0o600))
}

// process returns a process that is not running.
func (r *rack) process(program string, args ...string) *harness.Process {
	return harness.New(r.T, harness.Config{Program: filepath.Join(programs, program), Args: func() []string { return args }})
}

// run runs a program to its end.
func (r *rack) run(program string, args ...string) string {
	r.Helper()
	return harness.Run(r.T, r.env, filepath.Join(programs, program), args...)
}

// connect connects to the controller at addr: to the model that is there, and to another.
func (r *rack) connect(addr string) {
	r.Helper()
	r.run("slipway", "add-model", "other", "--config", "type=baremetal")
	for model, sum := range map[string][32]byte{"default": sha256.Sum256([]byte(content)), "other": sha256.Sum256([]byte("another image"))} {
		r.run("slipway", "model-config", "-m", model, "baremetal-image="+r.image, "baremetal-image-has-agent=true",
			"baremetal-image-checksum="+hex.EncodeToString(sum[:]))
	}
	c, err := clientstore.New(r.path("site", "client")).Read()
	r.must(err)
	for _, model := range []string{"default", "other"} {
		r.uuids[model] = c.Models[c.Current].Models["admin/"+model].UUID
		conn, err := api.Open(r.Context(), api.Info{
			Addrs: []string{addr}, CACert: c.Controllers[c.Current].CACert, ModelUUID: r.uuids[model],
			Tag: "user-" + c.Accounts[c.Current].User, Password: c.Accounts[c.Current].Password,
		}, api.DialOptions{})
		r.must(err)
		r.Cleanup(func() { _ = conn.Close() }) // the test is over
		r.conns[model] = conn
	}
}

// certificate makes the certificate of the BMCs.
func (r *rack) certificate() {
	r.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	r.must(err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	r.must(err)
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	r.must(err)
	r.write("cert.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
	r.write("key.pem", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})))
	sum := sha256.Sum256(der)
	r.pin = hex.EncodeToString(sum[:])
}

// control puts a fault into a fake BMC, behind everybody's back, or takes all out.
func (r *rack) control(n int, method string, f *fakebmc.Fault) {
	r.Helper()
	body, err := json.Marshal(f)
	r.must(err)
	r.ask(n, method, "faults", bytes.NewReader(body))
}

// stats returns what a fake BMC has counted.
func (r *rack) stats(n int) (s fakebmc.Stats) {
	r.Helper()
	r.must(json.Unmarshal(r.ask(n, http.MethodGet, "stats", nil), &s))
	return s
}

// ask asks a fake BMC for what is none of Redfish.
func (r *rack) ask(n int, method, what string, body io.Reader) []byte {
	r.Helper()
	req, err := http.NewRequest(method, "https://"+fakebmc.AddressOf(n)+":"+r.port+"/fakebmc/"+what, body)
	r.must(err)
	resp, err := r.bmcs.Do(req)
	r.must(err)
	defer func() { _ = resp.Body.Close() }() // it is read to its end
	answer, err := io.ReadAll(resp.Body)
	r.must(err)
	if resp.StatusCode > 299 {
		r.Fatalf("%s of %s of BMC %d: %s", method, what, n, resp.Status)
	}
	return answer
}

// view is a host as the API shows it.
type view struct {
	params.Host
	record metal3v1alpha1.BareMetalHost
}

func (r *rack) list() map[string]view {
	r.Helper()
	ctx, cancel := context.WithTimeout(r.Context(), time.Minute)
	defer cancel()
	list, err := r.client.List(ctx)
	r.must(err)
	out := make(map[string]view, len(list))
	for _, one := range list {
		r.must(one.Err)
		v := view{Host: one.Value}
		r.must(json.Unmarshal(one.Value.Record, &v.record))
		out[v.Name] = v
	}
	return out
}

// do asks something of a host.
func (r *rack) do(name, action string) {
	r.Helper()
	r.must(r.client.Do(r.Context(), name, action))
}

// eventually looks until content is true. It shows the hosts that are named at the end.
func (r *rack) eventually(what string, content func(map[string]view) (missing []string)) {
	r.Helper()
	started := time.Now()
	tick := time.NewTicker(150 * time.Millisecond)
	defer tick.Stop()
	for {
		all := r.list()
		missing := content(all)
		if len(missing) == 0 {
			return
		}
		if time.Since(started) > patience {
			for _, name := range missing {
				v := all[name]
				r.Logf("%s: state %q, %s %q, power %t, %d faults, %s", name, v.record.Status.Provisioning.State, v.record.Status.ErrorType, v.record.Status.ErrorMessage,
					v.record.Status.PoweredOn, v.Progress.Faults, v.Progress.Reason)
			}
			r.Fatalf("SEED=%d: not within %v: %s", r.seed, patience, what)
		}
		<-tick.C
	}
}

// histogram counts hosts by state.
func histogram(all map[string]view) map[metal3v1alpha1.ProvisioningState]int {
	out := map[metal3v1alpha1.ProvisioningState]int{}
	for _, v := range all {
		out[v.record.Status.Provisioning.State]++
	}
	return out
}

// killIn kills the worker when at least so many hosts are in a state, and starts another.
// That some were is what the controller says after the death; a worker that was too quick
// is started, and killed, again. If none comes, again brings it about; nil: it cannot.
func (r *rack) killIn(state metal3v1alpha1.ProvisioningState, least int, again func()) {
	r.Helper()
	// Broken hosts stay in some of the states for ever: it is those at work that count,
	// where there are any.
	hit := func(all map[string]view) (names []string) {
		for name, v := range all {
			s := v.record.Status
			stuck := (s.ErrorType != metal3v1alpha1.NoError || v.Progress.Faults > 0) && state != metal3v1alpha1.StateMatchProfile
			if s.Provisioning.State == state && !stuck {
				names = append(names, name)
			}
		}
		return names
	}
	for looks := 0; ; {
		r.eventually(fmt.Sprintf("%d hosts in state %q", least, state), func(all map[string]view) []string {
			if looks++; looks%100 == 0 && again != nil {
				again()
			}
			if len(hit(all)) >= least {
				return nil
			}
			return []string{"none"}
		})
		r.worker.Kill()
		all := r.list()
		names := hit(all)
		r.worker.Start()
		if len(names) > 0 {
			r.kills[state]++
			r.Logf("worker killed while %d hosts were %q; all: %v", len(names), state, histogram(all))
			return
		}
	}
}

// hostName returns the name of a host.
func hostName(n int) string { return fmt.Sprintf("host-%d", n) }
