package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/slipway-project/slipway/api/apitest"
	"github.com/slipway-project/slipway/api/clientstore"
	"github.com/slipway-project/slipway/core/constraints"
	"github.com/slipway-project/slipway/internal/golden"
	"github.com/slipway-project/slipway/params"
)

// storeOf returns a client store for a server.
func storeOf(t *testing.T, s *apitest.Server) string {
	t.Helper()
	dir := t.TempDir()
	err := clientstore.New(dir).Set(t.Context(), clientstore.Site{
		Name:       "slipway",
		Controller: clientstore.Controller{UUID: apitest.ControllerUUID, APIEndpoints: []string{s.Addr}, CACert: s.CACert, Cloud: "simulated"},
		Account:    clientstore.Account{User: "admin", Password: apitest.Password},
		Model:      "default", Models: map[string]string{"default": apitest.ModelUUID},
	})
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// call runs a command in this process and returns what it printed.
func call(t *testing.T, dir string, args ...string) string {
	t.Helper()
	var stdout, stderr bytes.Buffer
	env := func(key string) string {
		if key == "SLIPWAY_DATA" {
			return dir
		}
		return ""
	}
	err := run(t.Context(), args, strings.NewReader(""), &stdout, &stderr, env)
	if err != nil {
		t.Errorf("slipway %s: %v", strings.Join(args, " "), err)
	}
	return stdout.String()
}

// stock fills a site with machines in all conditions.
func stock(f *fakeSite) {
	later := epoch.Add(time.Minute)
	data := map[string]any{}
	machine := func(id string, change func(m *params.MachineStatus)) {
		m := &params.MachineStatus{ID: id, InstanceID: "pending", Series: "jammy", Jobs: []string{"JobHostUnits"},
			Base:           &params.Base{Name: "ubuntu", Channel: "22.04/stable"},
			AgentStatus:    params.DetailedStatus{Status: "pending", Data: data, Since: &epoch},
			InstanceStatus: params.DetailedStatus{Status: "pending", Data: data, Since: &epoch}}
		change(m)
		f.machines[id] = m
	}
	running := func(m *params.MachineStatus) {
		m.InstanceID, m.Hostname, m.DNSName = "sim-"+m.ID, "node-"+m.ID, "10.0.0.1"
		m.IPAddresses = []string{"10.0.0.1", "fd00::1"}
		m.Hardware = "arch=amd64 cores=2 mem=4096M availability-zone=z1"
		m.AgentStatus.Status, m.AgentStatus.Since, m.AgentStatus.Version = "started", &later, "0.1.0"
		m.InstanceStatus.Status, m.InstanceStatus.Info = "running", "instance is up"
	}
	machine("0", running)
	machine("0/lxd/0", func(m *params.MachineStatus) { m.Constraints = "mem=512M" })
	machine("1", func(m *params.MachineStatus) {
		m.AgentStatus.Status, m.AgentStatus.Info = "error", "zone z1 is full; gave up after 4 attempts"
		m.InstanceStatus.Status, m.InstanceStatus.Info = "provisioning error", m.AgentStatus.Info
		m.Constraints = "cores=2 mem=4096M"
	})
	machine("2", func(m *params.MachineStatus) {
		running(m)
		m.AgentStatus.Status, m.AgentStatus.Info = "down", "agent is not communicating with the server"
	})
	machine("3", func(m *params.MachineStatus) {
		running(m)
		m.AgentStatus.Life = "dying"
	})
	machine("10", func(m *params.MachineStatus) { m.InstanceStatus.Info = "waiting for 3 others to start" })
}

// TestOutputOfEveryCommand fixes what scripts read.
func TestOutputOfEveryCommand(t *testing.T) {
	s := apitest.NewServer(t, apitest.Options{})
	f := newFakeSite(s)
	stock(f)
	dir := storeOf(t, s)
	for _, format := range []string{"json", "yaml"} {
		for name, args := range map[string][]string{
			"status":       {"status"},
			"machines":     {"machines"},
			"show-machine": {"show-machine", "1", "0/lxd/0"},
			"models":       {"models"},
			"model-config": {"model-config"},
		} {
			golden.Check(t, name+"."+format+".golden", call(t, dir, append(args, "--format", format)...))
		}
	}
	f.next = 11
	golden.Check(t, "add-machine.json.golden", call(t, dir, "add-machine", "-n", "2", "--format", "json"))
}

// TestTablesForPeople fixes what people see.
func TestTablesForPeople(t *testing.T) {
	s := apitest.NewServer(t, apitest.Options{})
	f := newFakeSite(s)
	stock(f)
	full, err := f.fullStatus(t.Context(), apitest.Request{})
	if err != nil {
		t.Fatal(err)
	}
	now := epoch.Add(5 * time.Minute)
	view := viewStatus(full.(params.FullStatus), chosen{site: site{name: "slipway"}, uuid: apitest.ModelUUID})
	var out bytes.Buffer
	view.table(&out, now)
	golden.Check(t, "status.tabular.golden", out.String())
	out.Reset()
	m := find(view.Machines, "10")
	m.addData("10", map[string]any{"tries": 2.0, "next-try": now.Add(90 * time.Second).Format(time.RFC3339)})
	for _, id := range []string{"0", "1", "2", "3", "10"} {
		find(view.Machines, id).describe(&out, id, now)
		out.WriteByte('\n')
	}
	golden.Check(t, "show-machine.tabular.golden", out.String())
}

func TestMachinesThatTakeTooLongNeedAttention(t *testing.T) {
	f := newFakeSite(apitest.NewServer(t, apitest.Options{}))
	machine := func(id, instance, status, message string) {
		f.machines[id] = &params.MachineStatus{ID: id, InstanceID: instance, AgentStatus: params.DetailedStatus{Status: "pending", Since: &epoch},
			InstanceStatus: params.DetailedStatus{Status: status, Info: message, Since: &epoch}}
	}
	machine("0", "pending", "pending", "")
	machine("0/lxd/0", "pending", "pending", "")
	machine("1", "pending", "allocating", "copying the image")
	machine("2", "i-2", "running", "")
	full, err := f.fullStatus(t.Context(), apitest.Request{})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	for _, after := range []time.Duration{time.Minute, 2 * time.Minute, 21 * time.Minute, 31 * time.Minute} {
		now := epoch.Add(after)
		view := viewStatus(full.(params.FullStatus), chosen{site: site{name: "slipway"}, uuid: apitest.ModelUUID})
		view.addOverdue(now)
		fmt.Fprintf(&out, "after %v:\n", after)
		each(view.Machines, func(id string, m *machineView) {
			if m.Attention != nil {
				m.describe(&out, id, now)
			}
		})
		out.WriteByte('\n')
	}
	golden.Check(t, "overdue.golden", out.String())
}

func TestRoughly(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "0s", 59 * time.Second: "59s", 90 * time.Second: "1m", 47 * time.Hour: "47h", 49 * time.Hour: "2d",
	} {
		if got := roughly(d); got != want {
			t.Errorf("roughly(%v) = %s, want %s", d, got, want)
		}
	}
}

func TestHelpOfEveryCommandHasAnExample(t *testing.T) {
	root := (&app{env: func(string) string { return "" }}).root()
	commands := root.Commands()
	for len(commands) > 0 {
		cmd := commands[0]
		commands = commands[1:]
		if cmd.Name() == "completion" || cmd.Name() == "help" {
			continue // cobra's own
		}
		commands = append(commands, cmd.Commands()...)
		if cmd.Example == "" && !cmd.Hidden {
			t.Errorf("%s has no example", cmd.CommandPath())
		}
		if cmd.Short == "" {
			t.Errorf("%s does not say what it does", cmd.CommandPath())
		}
	}
}

func TestWaitingNamesOnlyAFew(t *testing.T) {
	w := &waiting{what: forStarted}
	w.begin()
	var deltas []params.Delta
	for _, id := range []string{"0", "1", "2", "3", "4", "5", "6"} {
		deltas = append(deltas, params.Delta{Entity: &params.MachineUpdate{ID: id, Life: "alive",
			AgentStatus: params.StatusUpdate{Current: "pending"}, InstanceStatus: params.StatusUpdate{Message: "queued"}}})
	}
	if got := w.left(); got != "the controller did not answer" {
		t.Errorf("left = %q before anything is known", got)
	}
	w.apply(deltas)
	if done, err := w.check(); done || err != nil {
		t.Errorf("check = %v, %v, want more to wait for", done, err)
	}
	if got, want := w.text(), "0 of 7 machines started"; got != want {
		t.Errorf("text = %q, want %q", got, want)
	}
	if got := w.left(); !strings.HasSuffix(got, "machine 4 is pending (queued); and 2 more") {
		t.Errorf("left = %q, want five named and two counted", got)
	}
}

func TestEveryConstraintHasAForm(t *testing.T) {
	for _, name := range constraints.Names() {
		if !strings.HasPrefix(constraintForms()[name], name+"=") {
			t.Errorf("the form of %s is %q", name, constraintForms()[name])
		}
	}
}
