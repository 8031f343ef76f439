package hosts_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/slipway-project/slipway/apiserver/facadetest"
	"github.com/slipway-project/slipway/apiserver/hosts"
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
