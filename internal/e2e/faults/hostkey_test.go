//go:build e2e

package faults_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/slipway-project/slipway/api"
	"github.com/slipway-project/slipway/api/agentfile"
	"github.com/slipway-project/slipway/api/hosts"
	"github.com/slipway-project/slipway/api/singular"
	"github.com/slipway-project/slipway/environs/simulated"
	"github.com/slipway-project/slipway/internal/e2e/harness"
	"github.com/slipway-project/slipway/internal/hostkey"
	"github.com/slipway-project/slipway/params"
	"github.com/slipway-project/slipway/state"
	"github.com/slipway-project/slipway/state/host"
	"github.com/slipway-project/slipway/store"
	"github.com/slipway-project/slipway/store/mongo"
	"github.com/slipway-project/slipway/store/mongo/bson"
	"github.com/slipway-project/slipway/store/mongo/mongotest"
)

const (
	sealedHosts = 130 // with credentials: more than one batch of the sealing
	sealedData  = 30  // that machines have, with data
)

// sealer is a controller whose state is in a double of MongoDB in this process: so the test
// sees each command of its, and kills it at a chosen one.
type sealer struct {
	*site
	server *mongotest.Server
	url    string

	mu       sync.Mutex
	armed    bool
	id       []byte          // of the key that seals since the replacement began; nil before
	sessions map[string]bool // whose transactions write what it has sealed
	seen     int             // commands of the sealing
	strike   int             // the one to kill at; 0 means none
	struck   string          // what it was
	pid      int
	dead     <-chan struct{}
}

// sealedIn says what collections have to do with the sealing.
func sealedIn(collection string) bool {
	switch collection {
	case state.HostsCollection, state.HostDataCollection, state.InstallsCollection, "site":
		return true
	}
	return false
}

// observe kills the controller when the command comes that was chosen. It is carried out
// all the same, and its answer lost.
func (s *sealer) observe(cmd bson.D) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.armed || len(cmd) == 0 || !s.begun() || !s.ofSealing(cmd) {
		return
	}
	if s.seen++; s.seen != s.strike {
		return
	}
	s.struck = fmt.Sprintf("%s %v", cmd[0].K, cmd[0].V)
	_ = syscall.Kill(s.pid, syscall.SIGKILL) // its end is waited for
	<-s.dead
}

// begun reports whether there is more than one key, or was before.
func (s *sealer) begun() bool {
	if s.id == nil {
		text, err := os.ReadFile(s.keyFile())
		if err == nil && bytes.Count(bytes.TrimSpace(text), []byte("\n")) > 0 {
			id, _, _ := bytes.Cut(text, []byte(" "))
			s.id = append(id, ':')
		}
	}
	return s.id != nil
}

// keyFile is where the controller has its keys.
func (s *sealer) keyFile() string { return filepath.Join(s.dataDir, "hosts.key") }

// ofSealing reports whether a command looks for secrets, or writes those that the newest
// key has sealed.
func (s *sealer) ofSealing(cmd bson.D) bool {
	session, _ := cmd.Get("lsid")
	lsid := fmt.Sprint(session)
	target, _ := cmd[0].V.(string)
	switch cmd[0].K {
	case "find":
		return sealedIn(target)
	case "update":
		if !sealedIn(target) || !bytes.Contains(bson.Marshal(cmd), append([]byte(`"sealed":"`), s.id...)) {
			return false
		}
		s.sessions[lsid] = true
		return true
	case "commitTransaction":
		return s.sessions[lsid]
	}
	return false
}

// newSealer starts a controller with hosts, of which some belong to machines.
func newSealer(t *testing.T) *sealer {
	s := &sealer{site: &site{t: t, dir: t.TempDir()}, sessions: map[string]bool{}}
	var err error
	// A controller that is killed amid a transaction holds up the next one for that long.
	if s.server, err = mongotest.Start(mongotest.Config{Observe: s.observe, TransactionLifetime: time.Second}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.server.Close(); err != nil {
			t.Error(err)
		}
	})
	s.url = s.server.URL("slipway")
	s.dataDir = filepath.Join(s.dir, "site")
	program := filepath.Join(programs, "controllerd")
	harness.Run(t, nil, program, "bootstrap", "--data-dir", s.dataDir, "--listen", "127.0.0.1:0", "--store", s.url)
	s.addr = "127.0.0.1:0"
	s.controller = harness.New(t, harness.Config{Name: "controller", Program: program, Args: func() []string {
		return []string{"run", "--data-dir", s.dataDir, "--listen", s.addr}
	}})
	s.addr = s.controller.Serve()
	s.fill()
	return s
}

func hostName(i int) string { return fmt.Sprintf("h%03d", i) }

// password is that of a host's BMC.
func password(i int) string { return fmt.Sprintf("calvin-%d-of-%s", i, hostName(i)) }

// dial connects until the end of the test.
func (s *sealer) dial(info api.Info) *api.Conn {
	s.t.Helper()
	conn, err := api.Open(s.t.Context(), info, api.DialOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = conn.Close() }) // it has ended with a controller, most often
	return conn
}

// manager connects as the site's worker, and claims a lease: a model's, or the site's if
// that is empty.
func (s *sealer) manager(model string) *hosts.Client {
	s.t.Helper()
	file, err := agentfile.Read(filepath.Join(s.dataDir, "agents", "machine-0.yaml"))
	if err != nil {
		s.t.Fatal(err)
	}
	info := file.Info()
	info.Addrs = []string{s.addr}
	if model != "" {
		info.ModelUUID = model
	}
	conn := s.dial(info)
	entity := "controller-" + conn.ControllerUUID()
	if model != "" {
		entity = "model-" + model
	}
	if _, err := singular.New(singular.Config{Caller: conn, Entity: entity, Claimant: info.Tag, Session: "test", Duration: time.Minute}).Claim(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
	return hosts.New(conn)
}

// fill adds hosts, and gives some of them to machines.
func (s *sealer) fill() {
	s.t.Helper()
	ctx := s.t.Context()
	all := func(errs []error, err error) {
		s.t.Helper()
		for _, e := range append(errs, err) {
			if e != nil {
				s.t.Fatal(e)
			}
		}
	}
	s.connect()                        // which learns the default model's UUID
	s.startRack(simulated.Behaviour{}) // machines are added to it, and put on hosts by the test
	s.configure(nil)
	var add []params.AddHost
	var ready []params.HostUpdate
	for i := range sealedHosts {
		add = append(add, params.AddHost{
			Name: hostName(i), Spec: json.RawMessage(`{"bmc":{"address":"simulated://` + hostName(i) + `"}}`),
			Credentials: params.HostCredentials{Username: "root", Password: params.Secret(password(i))},
		})
		ready = append(ready, params.HostUpdate{Name: hostName(i), Status: json.RawMessage(
			`{"provisioning":{"state":"ready"},"hardware":{"ramMebibytes":2048,"cpu":{"arch":"x86_64","count":8}}}`)})
	}
	added, err := hosts.New(s.dial(s.info(""))).Add(ctx, add...)
	for _, a := range added {
		all(nil, a.Err)
	}
	all(nil, err)
	all(s.manager("").Save(ctx, ready...))
	var asks []params.AllocateHost
	for i, id := range s.add(sealedData) {
		asks = append(asks, params.AllocateHost{
			MachineTag: "machine-" + id, Nonce: "n", Host: hostName(i), Image: json.RawMessage(`{"url":"http://x/y"}`),
			Data: params.HostData{UserData: params.Secret("hush " + password(i))},
		})
	}
	_, failed, err := s.manager(s.model).Allocate(ctx, asks...)
	all(failed, err)
}

// ring returns the keys in the controller's file.
func (s *sealer) ring() *hostkey.Ring {
	s.t.Helper()
	r, err := hostkey.Read(s.keyFile())
	if err != nil {
		s.t.Fatal(err)
	}
	return r
}

// newest returns the id of the key that seals.
func (s *sealer) newest() string {
	s.t.Helper()
	text, err := os.ReadFile(s.keyFile())
	if err != nil {
		s.t.Fatal(err)
	}
	id, _, _ := strings.Cut(string(text), " ")
	return id
}

// arm has the controller killed at a command of the sealing that follows; 0 means none.
func (s *sealer) arm(strike int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.armed, s.seen, s.strike, s.struck = true, 0, strike, ""
	s.id, s.pid, s.dead = nil, s.controller.Pid(), s.controller.Done()
}

// disarm returns how many commands the sealing has had, and at which the controller was
// killed.
func (s *sealer) disarm() (seen int, struck string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.armed = false
	return s.seen, s.struck
}

// rotate begins a replacement of the key, while the controller runs: it may still be busy
// with the file of the one before.
func (s *sealer) rotate(strike int) {
	s.t.Helper()
	s.arm(strike)
	harness.Eventually(s.t, "a replacement begins", func() bool {
		out, err := exec.Command(filepath.Join(programs, "controllerd"), "rotate-host-key", "--data-dir", s.dataDir).CombinedOutput()
		if err != nil && !bytes.Contains(out, []byte("is in use by process")) {
			s.t.Fatalf("rotate-host-key: %v\n%s", err, out)
		}
		return err == nil
	})
}

// rotated waits until there is but one key.
func (s *sealer) rotated() {
	s.t.Helper()
	harness.Eventually(s.t, "the old key is dropped", func() bool { return s.ring().Len() == 1 || s.controller.Ended() })
}

// readable looks, past the controller, whether everything opens with the keys in its
// file, and returns how many secrets the newest of them has not sealed.
func (s *sealer) readable() (old int) {
	s.t.Helper()
	ctx := context.Background()
	db, err := mongo.Open(ctx, mongo.Config{URL: s.url, Collections: state.Collections()})
	if err != nil {
		s.t.Fatal(err)
	}
	defer db.Close()
	c, err := state.Open(ctx, db, state.Options{HostKeys: s.ring()})
	if err != nil {
		s.t.Fatal(err)
	}
	defer c.Close()
	if err := host.New(c.SiteDocs()).CheckKeys(ctx, s.ring()); err != nil {
		s.t.Fatalf("with %d keys: %v", s.ring().Len(), err)
	}
	for _, collection := range []string{state.HostsCollection, state.HostDataCollection} {
		current := []byte(`"sealed":"` + s.newest() + ":")
		n := 0
		if err := eachDoc(ctx, db, collection, func(data []byte) {
			if n++; !bytes.Contains(data, current) {
				old++
			}
		}); err != nil {
			s.t.Fatal(err)
		}
		if want := map[string]int{state.HostsCollection: sealedHosts, state.HostDataCollection: sealedData}[collection]; n != want {
			s.t.Errorf("%d documents in %s, want %d", n, collection, want)
		}
	}
	return old
}

// eachDoc calls fn for the content of each document of a collection.
func eachDoc(ctx context.Context, db store.Store, collection string, fn func(data []byte)) error {
	for q := (store.Query{Collection: collection}); ; {
		page, err := db.List(ctx, q)
		if err != nil {
			return err
		}
		for _, d := range page.Docs {
			fn(d.Data)
		}
		if q.After = page.Next; q.After == "" {
			return nil
		}
	}
}

// delivered looks whether the host manager is told all credentials, and all data.
func (s *sealer) delivered() {
	s.t.Helper()
	ctx := s.t.Context()
	m := s.manager("")
	var names []string
	for i := range sealedHosts {
		names = append(names, hostName(i))
	}
	managed, err := m.Managed(ctx, names)
	if err != nil || len(managed) != sealedHosts {
		s.t.Fatalf("%d hosts for their manager, %v, want %d", len(managed), err, sealedHosts)
	}
	for i, h := range managed {
		if h.Name != hostName(i) || string(h.Credentials.Password) != password(i) {
			s.t.Errorf("host %s has other credentials than it was given", h.Name)
		}
	}
	for i := range sealedData {
		if d, err := m.Data(ctx, hostName(i)); err != nil || string(d.UserData) != "hush "+password(i) {
			s.t.Errorf("host %s has other data than its machine was given: %v", hostName(i), err)
		}
	}
}

// TestTheKeyOfHostsIsReplacedThroughKills kills the controller, with SIGKILL, while it seals
// everything anew: before the first command of that, after the last, and in between. At no
// moment is there a secret that the keys in the file do not open; the replacement goes on
// at the next start, and ends with one key, with which the host manager gets everything.
func TestTheKeyOfHostsIsReplacedThroughKills(t *testing.T) {
	dice := dice(t)
	s := newSealer(t)
	s.rotate(0)
	s.rotated()
	n, _ := s.disarm()
	if old := s.readable(); s.controller.Ended() || old != 0 {
		t.Fatalf("%d secrets are not sealed with the only key", old)
	}
	s.delivered()
	t.Logf("a replacement has %d commands", n)
	if n < 10 {
		t.Fatalf("a replacement has but %d commands", n)
	}
	halfway := 0
	kills := soak(8)
	for i := range kills {
		strike := 1 + i*(n-1)/(kills-1) // the first, the last, and some between
		s.rotate(strike)
		for again := range 2 {
			s.rotated()
			<-time.After(time.Duration(dice.IntN(20)) * time.Millisecond) // also at any moment after the chosen one
			s.controller.Kill()
			_, struck := s.disarm()
			keys, old := s.ring().Len(), s.readable()
			t.Logf("killed at command %d of %d (%s): %d keys, %d secrets of the old one", strike, n, struck, keys, old)
			if old > 0 && keys != 2 {
				t.Errorf("the old key is gone, and %d secrets need it", old)
			}
			if old > 0 && old < sealedHosts+sealedData {
				halfway++
			}
			if again == 0 { // the next one is killed too, while it goes on
				strike = 1 + dice.IntN(n)
				s.controller.Start()
				s.arm(strike)
			}
		}
		s.addr = s.controller.Serve()
		s.rotated()
		if old := s.readable(); old != 0 || s.ring().Len() != 1 {
			t.Errorf("in the end there are %d keys, and %d secrets of an old one", s.ring().Len(), old)
		}
		s.delivered()
	}
	if halfway == 0 {
		t.Error("no kill came when some secrets were sealed anew and some were not")
	}
}
