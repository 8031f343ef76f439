//go:build e2e

package hosts_test

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/api/client"
	"github.com/slipway-project/slipway/environs/baremetal/fakebmc"
	metal3v1alpha1 "github.com/slipway-project/slipway/environs/baremetal/metal3/v1alpha1"
	"github.com/slipway-project/slipway/params"
)

// inspectAgain has hosts that rest inspected once more.
func (r *run) inspectAgain() {
	for name, v := range r.list() {
		if v.record.Status.Provisioning.State == metal3v1alpha1.StateReady {
			r.do(name, "inspect")
		}
	}
}

// comeAgain removes and imports hosts with nothing wrong.
func (r *run) comeAgain() {
	r.Helper()
	var numbers []int
	var names []string
	for n, f := range r.fates {
		if f.kind == "" && len(names) < 40 {
			numbers, names = append(numbers, n), append(names, hostName(n))
			r.do(hostName(n), "remove")
		}
	}
	r.gone("hosts that are to come again are gone", names)
	r.imported(numbers...)
}

// install puts a machine on every host that can have one.
func (r *run) install() {
	r.Helper()
	wanted := maps.Clone(r.resting)
	adding := map[string][]string{}
	for n, f := range r.fates {
		if len(f.used.states) == 0 {
			continue
		}
		model := "default"
		if f.kind == wrongImage {
			model = "other"
		}
		adding[model] = append(adding[model], hostName(n))
		wanted[hostName(n)] = f.used
	}
	for model, names := range adding {
		var add []params.AddMachineParams
		for _, name := range names {
			add = append(add, params.AddMachineParams{Jobs: []string{"JobHostUnits"}, Placement: &params.Placement{Scope: r.uuids[model], Directive: "host=" + name}})
		}
		added, err := client.New(r.conns[model]).AddMachines(r.Context(), add...)
		r.must(err)
		for i, a := range added {
			r.must(a.Err)
			r.machines[names[i]] = machine{model, a.Value}
		}
	}
	r.killIn(metal3v1alpha1.StateProvisioning, 20, nil)
	r.killIn(metal3v1alpha1.StateProvisioned, 20, nil)
	r.settle("all machines are installed, or shown to fail", wanted)
	said := map[machine]bool{}
	r.until("the agents of all machines that can have started, and the others say why not", func(all map[machine]params.MachineStatus) bool {
		missing := 0
		for n, f := range r.fates {
			m, ok := r.machines[hostName(n)]
			switch {
			case !ok:
			case f.used.well() && all[m].AgentStatus.Status != "started":
				missing++
			case !f.used.well() && !said[m]: // it is tried again meanwhile: that it was said once will do
				if said[m] = strings.Contains(all[m].InstanceStatus.Info, f.used.reason); !said[m] {
					missing++
				}
			}
		}
		return missing == 0
	})
	all := r.list()
	for n, f := range r.fates {
		v := all[hostName(n)]
		if f.kind == "" && slices.ContainsFunc(v.Events, func(e params.HostEvent) bool { return e.Reason == "InstallerRestarted" }) {
			r.Errorf("%s: its installer was booted twice, though nothing was wrong with it but that the worker died", v.Name)
		}
	}
}

// until looks at the machines until content is true.
func (r *run) until(what string, content func(map[machine]params.MachineStatus) bool) {
	r.Helper()
	started := time.Now()
	tick := time.NewTicker(300 * time.Millisecond)
	defer tick.Stop()
	for {
		all := r.statuses()
		if content(all) {
			r.tell("%s", what)
			return
		}
		if time.Since(started) > patience {
			r.Fatalf("SEED=%d: not within %v: %s; they are %+v", r.seed, patience, what, all)
		}
		<-tick.C
	}
}

// statuses returns the statuses of machines.
func (r *run) statuses() map[machine]params.MachineStatus {
	r.Helper()
	out := map[machine]params.MachineStatus{}
	for model, conn := range r.conns {
		full, err := client.New(conn).FullStatus(r.Context())
		r.must(err)
		for id, m := range full.Machines {
			out[machine{model, id}] = m
		}
	}
	return out
}

// wipe removes the machines, and mends what can be.
func (r *run) wipe() {
	r.Helper()
	wanted := maps.Clone(r.resting)
	ids := map[string]map[bool][]string{"default": {}, "other": {}} // by model, and whether by force
	for n, f := range r.fates {
		name := hostName(n)
		if m, ok := r.machines[name]; ok {
			force := !f.used.well() // it has no agent that could end
			ids[m.model][force] = append(ids[m.model][force], m.id)
		}
		if len(f.freed.states) > 0 {
			wanted[name] = f.freed
		}
		if f.kind == "media refused" {
			r.control(n, http.MethodDelete, nil)
		}
		if f.kind == "password" {
			r.must(r.client.SetCredentials(r.Context(), name, params.HostCredentials{Username: "admin", Password: "calvin"}))
		}
	}
	for model, all := range ids {
		for force, list := range all {
			r.must(client.New(r.conns[model]).DestroyMachines(r.Context(), force, list...))
		}
	}
	r.killIn(metal3v1alpha1.StateDeprovisioning, 5, nil)
	r.settle("all hosts are wiped", wanted)
	r.until("all machines are gone", func(all map[machine]params.MachineStatus) bool { return len(all) == 0 })
}

// leave removes the hosts: first those that nothing helps, one by one, then the others.
func (r *run) leave() {
	r.Helper()
	broken := []string{hostName(odd)}
	wanted := map[string]want{}
	for n, f := range r.fates {
		if len(f.freed.states) == 0 {
			broken = append(broken, hostName(n))
		} else {
			wanted[hostName(n)] = f.freed
		}
	}
	r.modest()
	for _, name := range broken {
		r.run("slipway", "remove-host", name)
	}
	r.gone("the broken hosts are gone", broken)
	r.settle("the others are as they were", wanted)
	rest := slices.Sorted(maps.Keys(r.list()))
	// BMCs that do not answer hold a removal up, and only for a while.
	for n, f := range r.fates {
		if f.kind == "" && n < many/4 {
			r.control(n, http.MethodPost, &fakebmc.Fault{Kind: fakebmc.FaultHang, Path: "/Systems"})
		}
	}
	for _, name := range rest {
		r.do(name, "remove")
	}
	r.killIn(metal3v1alpha1.StateDeleting, 5, nil)
	r.gone("all hosts are gone", rest)
	if left := slices.Sorted(maps.Keys(r.list())); len(left) > 0 {
		r.Errorf("left: %s", strings.Join(left, ", "))
	}
}

// maxInFlight is how many requests at a time a BMC is asked at most.
const maxInFlight = 4

// modest expects that BMCs were never asked too much at a time. One that hangs may still
// have requests of workers that are dead.
func (r *run) modest() {
	r.Helper()
	var most fakebmc.Stats
	for n, f := range r.fates {
		if len(f.freed.states) == 0 {
			continue
		}
		s := r.stats(n)
		if s.MaxInFlight > maxInFlight {
			r.Errorf("BMC %d had %d requests at a time, want %d at most", n, s.MaxInFlight, maxInFlight)
		}
		most.Requests, most.MaxInFlight, most.LoggedIn = max(most.Requests, s.Requests), max(most.MaxInFlight, s.MaxInFlight), max(most.LoggedIn, s.LoggedIn)
	}
	r.tell("the BMC that was asked most had %d requests, %d at a time, and %d logins", most.Requests, most.MaxInFlight, most.LoggedIn)
}

// gone waits until hosts are gone. What fails is tried again at once.
func (r *run) gone(what string, names []string) {
	r.Helper()
	r.eventually(what, func(all map[string]view) (missing []string) {
		for _, name := range names {
			v, there := all[name]
			if !there {
				continue
			}
			missing = append(missing, name)
			if v.record.Status.ErrorType != metal3v1alpha1.NoError || v.Progress.Faults > 1 {
				r.again(name)
			}
		}
		return missing
	})
	r.tell("%s", what)
}

// again asks a host to try again, if it was not lately.
func (r *run) again(name string) {
	r.Helper()
	if r.recently(name) {
		return
	}
	if err := r.client.Do(r.Context(), name, "retry"); err != nil && !errors.Is(err, errors.NotFound) {
		r.Fatal(err)
	}
}
