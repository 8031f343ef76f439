package hostmanager_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	metal3v1alpha1 "github.com/slipway-project/slipway/environs/baremetal/metal3/v1alpha1"
	"github.com/slipway-project/slipway/environs/baremetal/provisioner"
	"github.com/slipway-project/slipway/environs/baremetal/simulated"
	"github.com/slipway-project/slipway/worker/hostmanager"
	"github.com/slipway-project/slipway/worker/hostmanager/hostmanagertest"
)

// BenchmarkThousandHosts takes 1,000 simulated hosts without delays from nothing to
// provisioned, with the records in memory.
func BenchmarkThousandHosts(b *testing.B) {
	const hosts = 1000
	for b.Loop() {
		s, rack := hostmanagertest.New(), simulated.New(simulated.Options{})
		for n := range hosts {
			s.Add(fmt.Sprintf("h%d", n), withImage)
		}
		m, err := hostmanager.New(hostmanager.Config{Store: s, Slots: 100, Factory: func(context.Context) provisioner.Factory { return rack.Factory() }})
		if err != nil {
			b.Fatal(err)
		}
		for n := 0; n < hosts; {
			if s.In(fmt.Sprintf("h%d", n), metal3v1alpha1.StateProvisioned) {
				n++
				continue
			}
			<-time.After(time.Millisecond)
		}
		m.Kill()
		if err := m.Wait(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkRestingHost makes the look that each resting host gets every minute.
func BenchmarkRestingHost(b *testing.B) {
	b.ReportAllocs()
	s, back := hostmanagertest.New(), new(script)
	s.Add("a", withImage)
	m, err := hostmanager.New(hostmanager.Config{Store: s, Factory: back.factory})
	if err != nil {
		b.Fatal(err)
	}
	for !s.In("a", metal3v1alpha1.StateProvisioned) {
		<-time.After(time.Millisecond)
	}
	for b.Loop() {
		n := back.count("adopt")
		s.Change("a", func(r *record) { r.Retries++ })
		for back.count("adopt") == n {
			<-time.After(10 * time.Microsecond)
		}
		back.mu.Lock()
		back.calls = nil
		back.mu.Unlock()
	}
	m.Kill()
	_ = m.Wait()
}
