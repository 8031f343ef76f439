//go:build e2e

package ironic_test

import (
	"context"
	"flag"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/noauth"
	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/v1/nodes"
	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/v1/ports"

	"github.com/slipway-project/slipway/environs/baremetal/ironic"
	metal3v1alpha1 "github.com/slipway-project/slipway/environs/baremetal/metal3/v1alpha1"
	"github.com/slipway-project/slipway/environs/baremetal/provisioner"
	"github.com/slipway-project/slipway/worker/hostmanager"
	"github.com/slipway-project/slipway/worker/hostmanager/hostmanagertest"
)

// pairs is how often the two ways are compared, one after the other.
var pairs = flag.Int("ironic.pairs", 10, "number of interleaved pairs of the benchmark")

// What both ways have in common.
const (
	benchHosts = 50
	benchPoll  = 500 * time.Millisecond
	benchImage = "http://127.0.0.1/image.raw"
)

// direct takes hosts to active with the client library alone, ten at a time.
func direct(b *testing.B, r *realIronic) time.Duration {
	client, err := noauth.NewBareMetalNoAuth(noauth.EndpointOpts{IronicEndpoint: r.url})
	if err != nil {
		b.Fatal(err)
	}
	client.Microversion = "1.82"
	begin, work, ids := time.Now(), make(chan int), make([]string, benchHosts)
	var wg sync.WaitGroup
	for range 10 {
		wg.Go(func() {
			for n := range work {
				var err error
				if ids[n], err = directOne(client); err != nil {
					b.Error(err)
				}
			}
		})
	}
	for n := range benchHosts {
		work <- n
	}
	close(work)
	wg.Wait()
	took := time.Since(begin)
	for _, id := range ids {
		_ = nodes.SetMaintenance(context.Background(), client, id, nodes.MaintenanceOpts{Reason: "removal"}).ExtractErr()
		_ = nodes.Delete(context.Background(), client, id).ExtractErr()
	}
	return took
}

// directOne takes one host to active.
func directOne(client *gophercloud.ServiceClient) (string, error) {
	ctx, id := context.Background(), uuid.New()
	node, err := nodes.Create(ctx, client, nodes.CreateOpts{Name: "direct-" + id.String()[:13], Driver: "fake-hardware"}).Extract()
	if err != nil {
		return "", err
	}
	pxe := true
	mac := fmt.Sprintf("52:55:%02x:%02x:%02x:%02x", id[0], id[1], id[2], id[3])
	if _, err := ports.Create(ctx, client, ports.CreateOpts{NodeUUID: node.UUID, Address: mac, PXEEnabled: &pxe}).Extract(); err != nil {
		return node.UUID, err
	}
	to := func(opts nodes.ProvisionStateOpts, want nodes.ProvisionState) error {
		if err := nodes.ChangeProvisionState(ctx, client, node.UUID, opts).ExtractErr(); err != nil {
			return err
		}
		for range 600 {
			n, err := nodes.Get(ctx, client, node.UUID).Extract()
			if err != nil || n.ProvisionState == string(want) {
				return err
			}
			<-time.After(benchPoll)
		}
		return fmt.Errorf("node %s does not become %s", node.UUID, want)
	}
	if err := to(nodes.ProvisionStateOpts{Target: nodes.TargetManage}, nodes.Manageable); err != nil {
		return node.UUID, err
	}
	if err := to(nodes.ProvisionStateOpts{Target: nodes.TargetProvide}, nodes.Available); err != nil {
		return node.UUID, err
	}
	_, err = nodes.Update(ctx, client, node.UUID, nodes.UpdateOpts{
		nodes.UpdateOperation{Op: nodes.AddOp, Path: "/instance_info/image_source", Value: benchImage},
		nodes.UpdateOperation{Op: nodes.AddOp, Path: "/instance_uuid", Value: id.String()},
	}).Extract()
	if err != nil {
		return node.UUID, err
	}
	drive := nodes.ConfigDrive{MetaData: map[string]any{"name": "n"}, UserData: "#cloud-config\n"}
	return node.UUID, to(nodes.ProvisionStateOpts{Target: nodes.TargetActive, ConfigDrive: drive}, nodes.Active)
}

// managed takes hosts to provisioned with the host manager and the back end.
func managed(b *testing.B, r *realIronic) time.Duration {
	backend, err := ironic.New(ironic.Config{Endpoint: r.url, Poll: benchPoll, InspectPoll: benchPoll, BusyPoll: benchPoll})
	if err != nil {
		b.Fatal(err)
	}
	defer backend.Close()
	store := hostmanagertest.New()
	var ids []string
	for range benchHosts {
		id := uuid.New()
		name := "managed-" + id.String()[:13]
		ids = append(ids, name)
		store.Add(name, func(h *metal3v1alpha1.BareMetalHost) {
			h.Metadata.UID = id.String()
			h.Metadata.Annotations = map[string]string{metal3v1alpha1.InspectAnnotation: "disabled"}
			h.Spec.BootMACAddress = fmt.Sprintf("52:54:%02x:%02x:%02x:%02x", id[0], id[1], id[2], id[3])
			h.Spec.Image = &metal3v1alpha1.Image{URL: benchImage}
		})
		store.Change(name, func(r *hostmanager.Record) { r.Config = data{} })
	}
	begin := time.Now()
	m, err := hostmanager.New(hostmanager.Config{Store: store, Slots: 10, Factory: func(ctx context.Context) provisioner.Factory { return backend.Factory(ctx) }})
	if err != nil {
		b.Fatal(err)
	}
	wait := func(ok func(id string) bool) {
		for n, end := 0, time.Now().Add(10*time.Minute); n < len(ids); {
			switch {
			case ok(ids[n]):
				n++
			case time.Now().After(end):
				b.Fatal(store.Show(ids[n]))
			default:
				<-time.After(20 * time.Millisecond)
			}
		}
	}
	wait(func(id string) bool { return store.In(id, metal3v1alpha1.StateProvisioned) })
	took := time.Since(begin)
	for _, id := range ids {
		// A host that failed in between has waited for its next try.
		if failures := store.Failures(id); len(failures) > 0 {
			b.Logf("%s: %q", id, failures)
		}
		store.AskRemoval(id, true)
	}
	wait(func(id string) bool { _, ok := store.Get(id); return !ok })
	m.Kill()
	if err := m.Wait(); err != nil {
		b.Fatal(err)
	}
	return took
}

// BenchmarkFiftyHosts compares the two ways of taking 50 hosts to active on one
// Ironic, in interleaved pairs; ratio is the sum of one over the sum of the other.
func BenchmarkFiftyHosts(b *testing.B) {
	r := startIronic(b)
	for b.Loop() {
		var sums [2]time.Duration
		for n := range *pairs {
			ways := []func(*testing.B, *realIronic) time.Duration{direct, managed}
			var took [2]time.Duration
			for _, i := range [][]int{{0, 1}, {1, 0}}[n%2] {
				took[i] = ways[i](b, r)
				sums[i] += took[i]
			}
			b.Logf("pair %2d: library alone %6.1f s, host manager %6.1f s", n+1, took[0].Seconds(), took[1].Seconds())
		}
		b.ReportMetric(sums[0].Seconds()/float64(*pairs), "library-s")
		b.ReportMetric(sums[1].Seconds()/float64(*pairs), "managed-s")
		b.ReportMetric(sums[1].Seconds()/sums[0].Seconds(), "ratio")
	}
}
