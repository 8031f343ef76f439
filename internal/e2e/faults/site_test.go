//go:build e2e

package faults_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/slipway-project/slipway/api"
	"github.com/slipway-project/slipway/api/agentfile"
	"github.com/slipway-project/slipway/api/client"
	"github.com/slipway-project/slipway/api/clientstore"
	"github.com/slipway-project/slipway/api/modelconfig"
	"github.com/slipway-project/slipway/api/modelworkers"
	"github.com/slipway-project/slipway/environs"
	"github.com/slipway-project/slipway/environs/simulated"
	"github.com/slipway-project/slipway/internal/e2e/harness"
	"github.com/slipway-project/slipway/params"
)

// programs is the folder of the programs, made once.
var programs string

func TestMain(m *testing.M) { os.Exit(harness.Main(m, &programs, "controllerd", "provisionerd")) }

// soak returns n times what SOAK says; SOAK=1 and no SOAK mean n.
func soak(n int) int {
	if factor, err := strconv.ParseFloat(os.Getenv("SOAK"), 64); err == nil && factor > 1 {
		return int(float64(n) * factor)
	}
	return n
}

// dice returns dice that are thrown from SEED, or from a seed that is printed.
func dice(t testing.TB) *rand.Rand {
	t.Helper()
	seed, err := strconv.ParseUint(os.Getenv("SEED"), 10, 64)
	if err != nil {
		seed = rand.Uint64()
	}
	t.Logf("SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// site is a controller, a rack and some workers.
type site struct {
	t          testing.TB
	dir        string
	dataDir    string // of the controller, as this process sees it
	controller *harness.Process
	rack       *harness.Process
	workers    []*harness.Process
	addr       string // of the controller
	rackAddr   string
	model      string // UUID of the default model
	uuid       string // of the controller

	conn    *api.Conn // to the default model; see client
	machine *simulated.Client
}

// siteConfig says what a site is like.
type siteConfig struct {
	workers   int           // 0 means 1
	lease     time.Duration // 0 means the usual
	behaviour simulated.Behaviour
	disk      *disk // that the controller's data is on; nil means the usual
	settings  map[string]any
}

// newSite starts a site.
func newSite(t testing.TB, c siteConfig) *site {
	t.Helper()
	s := &site{t: t, dir: t.TempDir()}
	dataDir := filepath.Join(s.dir, "site")
	s.dataDir = dataDir
	var inside []string
	if c.disk != nil {
		dataDir, inside = filepath.Join(c.disk.path, "site"), c.disk.inside()
		s.dataDir = c.disk.outside(dataDir)
	}
	t.Cleanup(func() {
		if s.conn != nil {
			_ = s.conn.Close() // its end is known
		}
	})
	s.startRack(c.behaviour)
	line := append(slices.Clone(inside), filepath.Join(programs, "controllerd"), "bootstrap", "--data-dir", dataDir, "--listen", "127.0.0.1:0")
	harness.Run(t, nil, line[0], line[1:]...)
	s.addr = "127.0.0.1:0"
	s.controller = harness.New(t, harness.Config{Name: "controller", Program: filepath.Join(programs, "controllerd"), Inside: inside, Args: func() []string {
		return []string{"run", "--data-dir", dataDir, "--listen", s.addr}
	}})
	s.addr = s.controller.Serve()
	s.connect()
	s.configure(c.settings)
	for i := range max(1, c.workers) {
		file := filepath.Join(s.dataDir, "agents", "machine-0.yaml")
		if i > 0 {
			file = s.identity(fmt.Sprintf("worker-%d", i))
		}
		args := []string{"model", "--agent-file", file, "--model", s.model}
		if c.lease != 0 {
			args = append(args, "--lease", c.lease.String())
		}
		w := harness.New(t, harness.Config{Name: fmt.Sprintf("worker %d", i), Program: filepath.Join(programs, "provisionerd"), Args: func() []string { return args }})
		w.Start()
		s.workers = append(s.workers, w)
	}
	return s
}

// startRack starts the rack, with a behaviour that it keeps.
func (s *site) startRack(b simulated.Behaviour) {
	dir := filepath.Join(s.dir, "rack")
	token, err := simulated.Token(dir)
	if err != nil {
		s.t.Fatal(err)
	}
	s.rackAddr = "127.0.0.1:0"
	s.rack = harness.New(s.t, harness.Config{Name: "rack", Program: filepath.Join(programs, "provisionerd"), Args: func() []string {
		return []string{"simrack", "--data-dir", dir, "--listen", s.rackAddr}
	}})
	s.rackAddr = s.rack.Serve()
	if s.machine, err = simulated.Dial(simulated.DialConfig{URL: "http://" + s.rackAddr, Token: token}); err != nil {
		s.t.Fatal(err)
	}
	s.behave(b)
}

// behave has the rack behave in another way from now on.
func (s *site) behave(b simulated.Behaviour) {
	s.t.Helper()
	if err := s.machine.SetBehaviour(context.Background(), b); err != nil {
		s.t.Fatal(err)
	}
}

// info returns how the site's first user logs in to a model, or to the controller
// if that is empty.
func (s *site) info(model string) api.Info {
	known, err := clientstore.New(filepath.Join(s.dataDir, "client")).Read()
	if err != nil {
		s.t.Fatal(err)
	}
	name := known.Current
	c, account := known.Controllers[name], known.Accounts[name]
	s.model, s.uuid = known.Models[name].Models["admin/default"].UUID, c.UUID
	info := api.Info{Addrs: []string{s.addr}, CACert: c.CACert, Tag: "user-" + account.User, Password: account.Password}
	if model == "default" {
		info.ModelUUID = s.model
	}
	return info
}

// connect connects to the default model. It goes on until that succeeds.
func (s *site) connect() {
	s.t.Helper()
	info := s.info("default")
	harness.Eventually(s.t, "logged in", func() bool {
		conn, err := api.Open(context.Background(), info, api.DialOptions{Timeout: 5 * time.Second})
		s.conn = conn
		return err == nil
	})
}

// client returns a client over a connection that works, as far as is known.
func (s *site) client() *client.Client {
	s.t.Helper()
	select {
	case <-s.conn.Broken():
		_ = s.conn.Close() // it has ended
		s.connect()
	default:
	}
	return client.New(s.conn)
}

// configure sets the model's configuration: the rack, and short pauses.
func (s *site) configure(settings map[string]any) {
	token, err := simulated.Token(filepath.Join(s.dir, "rack"))
	if err != nil {
		s.t.Fatal(err)
	}
	all := map[string]any{
		"rack-url": "http://" + s.rackAddr, "rack-token": token,
		"provisioner-retry-delay": "200ms", "provisioner-retry-count": 50,
	}
	maps.Copy(all, settings)
	if err := modelconfig.New(s.conn).Set(context.Background(), all); err != nil {
		s.t.Fatal(err)
	}
}

// identity makes an identity for one more worker, and returns its file.
func (s *site) identity(name string) string {
	ctx := context.Background()
	conn, err := api.Open(ctx, s.info(""), api.DialOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	defer conn.Close()
	w, err := modelworkers.New(conn).Add(ctx, name)
	if err != nil {
		s.t.Fatal(err)
	}
	file := filepath.Join(s.dir, name+".yaml")
	if err := agentfile.Write(file, agentfile.File{
		Tag: w.Tag, Password: string(w.Password), Nonce: w.Nonce, ModelUUID: w.ModelUUID,
		APIAddresses: []string{s.addr}, CACert: conn.CACert(),
	}); err != nil {
		s.t.Fatal(err)
	}
	return file
}

// add adds machines and returns their ids.
func (s *site) add(n int) []string {
	s.t.Helper()
	return s.addAll(slices.Repeat([]params.AddMachineParams{{Jobs: []string{"JobHostUnits"}}}, n)...)
}

func (s *site) addAll(specs ...params.AddMachineParams) []string {
	s.t.Helper()
	results, err := s.client().AddMachines(context.Background(), specs...)
	if err != nil {
		s.t.Fatal(err)
	}
	ids := make([]string, len(specs))
	for i, r := range results {
		if ids[i] = r.Value; r.Err != nil {
			s.t.Fatal(r.Err)
		}
	}
	return ids
}

// addInside adds containers to a machine and returns their ids.
func (s *site) addInside(host string, n int) []string {
	s.t.Helper()
	return s.addAll(slices.Repeat([]params.AddMachineParams{{Jobs: []string{"JobHostUnits"}, ParentID: host, ContainerType: "lxd"}}, n)...)
}

// remove asks for the end of machines.
func (s *site) remove(force bool, ids ...string) {
	s.t.Helper()
	if err := s.client().DestroyMachines(context.Background(), force, ids...); err != nil {
		s.t.Fatal(err)
	}
}

// status returns the status of all machines, containers among them, by id; nil
// while the controller does not answer.
func (s *site) status() map[string]params.MachineStatus {
	select {
	case <-s.conn.Broken():
		_ = s.conn.Close() // it has ended
		conn, err := api.Open(context.Background(), s.info("default"), api.DialOptions{Timeout: 2 * time.Second})
		if err != nil {
			return nil
		}
		s.conn = conn
	default:
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	full, err := client.New(s.conn).FullStatus(ctx)
	if err != nil {
		return nil
	}
	all := map[string]params.MachineStatus{}
	var take func(map[string]params.MachineStatus)
	take = func(machines map[string]params.MachineStatus) {
		maps.Copy(all, machines)
		for _, m := range machines {
			take(m.Containers)
		}
	}
	take(full.Machines)
	return all
}

// instances returns what is in the rack, by machine; nil while the rack does not
// answer.
func (s *site) instances() map[string][]environs.Instance {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	list, err := s.machine.List(ctx, simulated.ListRequest{ControllerUUID: s.uuid, ModelUUID: s.model, Host: simulated.Everywhere})
	if err != nil {
		return nil
	}
	all := map[string][]environs.Instance{}
	for _, i := range list {
		all[i.Owner.MachineID] = append(all[i.Owner.MachineID], i)
	}
	return all
}

// started waits until machines have started.
func (s *site) started(ids ...string) {
	s.t.Helper()
	harness.Eventually(s.t, fmt.Sprintf("machines %v have started", ids), func() bool {
		all := s.status()
		return !slices.ContainsFunc(ids, func(id string) bool { return all[id].AgentStatus.Status != "started" })
	})
}

// gone waits until machines are gone.
func (s *site) gone(ids ...string) {
	s.t.Helper()
	harness.Eventually(s.t, fmt.Sprintf("machines %v are gone", ids), func() bool {
		all := s.status()
		return all != nil && !slices.ContainsFunc(ids, func(id string) bool { _, there := all[id]; return there })
	})
}

// settled waits until the living machines are those that are wanted, all started,
// and until each has its one instance and there is no other.
func (s *site) settled(living ...string) {
	s.t.Helper()
	s.settledBut(nil, living...)
}

// settledBut is settled, but for some machines that are left out.
func (s *site) settledBut(but []string, living ...string) {
	s.t.Helper()
	wrong := ""
	defer func() {
		if wrong != "" {
			s.t.Errorf("at the end: %s", wrong)
		}
	}()
	harness.Eventually(s.t, fmt.Sprintf("settled with %d machines", len(living)), func() bool {
		wrong = s.wrong(but, living)
		return wrong == ""
	})
}

// wrong says what is not as it should be in the end; empty means nothing.
func (s *site) wrong(but, living []string) string {
	all, instances := s.status(), s.instances()
	if all == nil || instances == nil {
		return "no answer"
	}
	for _, id := range but {
		delete(all, id)
		delete(instances, id)
	}
	for id, m := range all {
		if !slices.Contains(living, id) {
			return fmt.Sprintf("machine %s is left: %s %q, %s, life %q", id, m.AgentStatus.Status, m.AgentStatus.Info, m.InstanceID, m.AgentStatus.Life)
		}
	}
	for _, id := range living {
		m, ok := all[id]
		switch here := instances[id]; {
		case !ok:
			return "machine " + id + " is missing"
		case m.AgentStatus.Status != "started":
			return fmt.Sprintf("machine %s is %s %q (%s %q)", id, m.AgentStatus.Status, m.AgentStatus.Info, m.InstanceStatus.Status, m.InstanceStatus.Info)
		case len(here) != 1 || string(here[0].ID) != m.InstanceID:
			return fmt.Sprintf("machine %s has instance %s recorded and %v in the rack", id, m.InstanceID, here)
		}
	}
	for id, here := range instances {
		if !slices.Contains(living, id) {
			return fmt.Sprintf("instances of machine %s are left: %v", id, here)
		}
	}
	return ""
}
