package hosts_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/slipway-project/slipway/apiserver/facadetest"
	"github.com/slipway-project/slipway/apiserver/hosts"
	"github.com/slipway-project/slipway/core/job"
	"github.com/slipway-project/slipway/params"
	"github.com/slipway-project/slipway/state"
	"github.com/slipway-project/slipway/state/statetest"
)

// BenchmarkSave saves what is known of hosts, in one call and in one call for each, on
// the embedded store with everything on the disk.
func BenchmarkSave(b *testing.B) {
	const n = 1000
	site := statetest.Open(b)
	st := site.Management.WithFence(state.NewFence("0"))
	claim := func(b *testing.B) {
		if _, err := st.SiteLease().Claim(ctx, "machine-0#s", time.Minute); err != nil {
			b.Fatal(err)
		}
	}
	claim(b)
	m, err := hosts.New(st, facadetest.Connect(b, facadetest.Manager))
	if err != nil {
		b.Fatal(err)
	}
	s, err := hosts.New(site.Management, facadetest.Connect(b, facadetest.Superuser))
	if err != nil {
		b.Fatal(err)
	}
	var add params.AddHosts
	var all params.HostUpdates
	for i := range n {
		name := fmt.Sprint("host-", i)
		add.Hosts = append(add.Hosts, simulated(name))
		all.Updates = append(all.Updates, params.HostUpdate{Name: name, Status: json.RawMessage(`{"poweredOn":true}`)})
	}
	began := time.Now()
	if _, err := s.Add(ctx, add); err != nil {
		b.Fatal(err)
	}
	added := time.Since(began)
	save := func(b *testing.B, u params.HostUpdates) {
		r, err := m.Save(ctx, u)
		if err != nil {
			b.Fatal(err)
		}
		for _, one := range r.Results {
			if one.Error != nil {
				b.Fatal(one.Error)
			}
		}
	}
	b.Run("OneCall", func(b *testing.B) {
		for b.Loop() {
			claim(b)
			save(b, all)
		}
		b.ReportMetric(n*float64(b.N)/b.Elapsed().Seconds(), "hosts/s")
		b.ReportMetric(n/added.Seconds(), "added/s")
	})
	b.Run("CallEach", func(b *testing.B) {
		for b.Loop() {
			claim(b)
			for i := range all.Updates {
				save(b, params.HostUpdates{Updates: all.Updates[i : i+1]})
			}
		}
		b.ReportMetric(n*float64(b.N)/b.Elapsed().Seconds(), "hosts/s")
	})
}

// BenchmarkAllocate gives a thousand machines a thousand hosts that are alike, in one call,
// on the embedded store with everything on the disk.
func BenchmarkAllocate(b *testing.B) {
	const n = 1000
	site := statetest.Open(b)
	st := site.Management.WithFence(state.NewFence("0"))
	if _, err := st.SiteLease().Claim(ctx, "machine-0#s", time.Minute); err != nil {
		b.Fatal(err)
	}
	manager, err := hosts.New(st, facadetest.Connect(b, facadetest.Manager))
	if err != nil {
		b.Fatal(err)
	}
	people, err := hosts.New(site.Management, facadetest.Connect(b, facadetest.Superuser))
	if err != nil {
		b.Fatal(err)
	}
	model := site.Default.WithFence(state.NewFence("0"))
	if _, err := model.Lease().Claim(ctx, "machine-0#m", time.Minute); err != nil {
		b.Fatal(err)
	}
	worker, err := hosts.New(model, facadetest.Connect(b, facadetest.Manager))
	if err != nil {
		b.Fatal(err)
	}
	var add params.AddHosts
	var known params.HostUpdates
	var names params.HostNames
	var asks params.AllocateHosts
	specs := make([]state.MachineSpec, n)
	for i := range n {
		name := fmt.Sprint("host-", i)
		add.Hosts, names.Names = append(add.Hosts, simulated(name)), append(names.Names, name)
		known.Updates = append(known.Updates, params.HostUpdate{Name: name, Status: json.RawMessage(
			`{"provisioning":{"state":"ready"},"hardware":{"ramMebibytes":2048,"cpu":{"arch":"x86_64","count":8}}}`)})
		asks.Machines = append(asks.Machines, params.AllocateHost{
			MachineTag: fmt.Sprint("machine-", i), Nonce: "n", Image: json.RawMessage(`{"url":"http://x/y"}`),
			Data: params.HostData{UserData: params.Secret(strings.Repeat("user data\n", 200))},
		})
		specs[i] = state.MachineSpec{Series: "noble", Jobs: []job.Job{job.HostUnits}}
	}
	_, err = people.Add(ctx, add)
	if err == nil {
		_, err = manager.Save(ctx, known)
	}
	if err == nil {
		_, err = site.Default.Machines().Add(ctx, specs)
	}
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		r, err := worker.Allocate(ctx, asks)
		if err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		for _, one := range r.Results {
			if one.Error != nil {
				b.Fatal(one.Error)
			}
		}
		if _, err := worker.Release(ctx, names); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
	b.ReportMetric(n*float64(b.N)/b.Elapsed().Seconds(), "machines/s")
}
