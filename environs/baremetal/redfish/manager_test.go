package redfish_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/slipway-project/slipway/environs/baremetal/fakebmc"
	metal3v1alpha1 "github.com/slipway-project/slipway/environs/baremetal/metal3/v1alpha1"
	"github.com/slipway-project/slipway/worker/hostmanager"
	"github.com/slipway-project/slipway/worker/hostmanager/hostmanagertest"
)

// TestManyHostsUnderTheManager takes hosts with the BMCs of all vendors through
// their life, while every BMC meets a few faults of the network, and one is dead.
func TestManyHostsUnderTheManager(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	faults := []fakebmc.Fault{
		{Kind: fakebmc.FaultStatus, Status: 503, Times: 2}, {Kind: fakebmc.FaultClose, Times: 2},
		{Kind: fakebmc.FaultStatus, Status: 500, Path: "/Systems", Times: 1}, {Kind: fakebmc.FaultStatus, Status: 401, Path: "/Systems", Times: 1},
		{Kind: fakebmc.FaultStatus, Status: 429, Path: "VirtualMedia", Times: 1}, {Kind: fakebmc.FaultClose, Method: "POST", Path: "Reset", Times: 1},
		{Kind: fakebmc.FaultIgnore, Method: "PATCH", Times: 1},
	}
	r := newRig(t, fakebmc.Config{})
	store := hostmanagertest.New()
	const dead = "host-5"
	var ids []string
	for n := range 24 {
		r.config.Vendor = fakebmc.Vendors()[n%len(fakebmc.Vendors())].Name
		r.config.FirstSystem = n
		h, creds := r.newHost()
		r.inject(h, faults[rnd.IntN(len(faults))])
		if h.Metadata.Name == dead {
			r.hosts[h].ClearFaults()
			r.inject(h, fakebmc.Fault{Kind: fakebmc.FaultHang})
		} else {
			ids = append(ids, h.Metadata.Name)
		}
		store.Add(h.Metadata.Name, func(record *metal3v1alpha1.BareMetalHost) {
			record.Spec.BMC = h.Spec.BMC
			record.Spec.Image = &metal3v1alpha1.Image{URL: "http://images/good"}
		})
		store.Change(h.Metadata.Name, func(record *hostmanager.Record) { record.Credentials = creds })
	}
	m, err := hostmanager.New(hostmanager.Config{Store: store, Slots: 5, Factory: r.backend.Factory})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		m.Kill()
		if err := m.Wait(); err != nil {
			t.Error(err)
		}
	}()
	all := func(what string, ok func(id string) bool) {
		t.Helper()
		end := time.Now().Add(5 * time.Minute)
		for n := 0; n < len(ids); {
			if ok(ids[n]) {
				n++
				continue
			}
			if time.Now().After(end) {
				t.Fatalf("seed %d: not %s: %s", seed, what, store.Show(ids[n]))
			}
			<-time.After(10 * time.Millisecond)
		}
	}
	all("provisioned", func(id string) bool { return store.In(id, metal3v1alpha1.StateProvisioned) })
	for h := range r.hosts {
		if got := r.system(h).Disk(); (got == "http://images/good") != (h.Metadata.Name != dead) {
			t.Errorf("%s carries %q", h.Metadata.Name, got)
		}
		if s := r.hosts[h].Stats(); s.MaxInFlight > 4 || s.Sessions > 1 {
			t.Errorf("%s: %+v, want at most 4 requests and 1 session", h.Metadata.Name, s)
		}
	}
	for _, id := range ids {
		store.AskRemoval(id, false)
	}
	all("removed", func(id string) bool { _, ok := store.Get(id); return !ok })
	for h := range r.hosts {
		if s := r.system(h); s.Disk() != "" || s.Media() != "" || s.Overlapped() {
			t.Errorf("%s is left with disk %q, medium %q, overlapping power commands %v", h.Metadata.Name, s.Disk(), s.Media(), s.Overlapped())
		}
	}
	if record, ok := store.Get(dead); !ok || record.Host.Status.Provisioning.State != metal3v1alpha1.StateRegistering {
		t.Error(fmt.Sprint("the host with the dead BMC: ", store.Show(dead)))
	}
}
