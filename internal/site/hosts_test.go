package site_test

import (
	"context"
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/api"
	"github.com/slipway-project/slipway/api/clientstore"
	"github.com/slipway-project/slipway/api/hosts"
	"github.com/slipway-project/slipway/environs/all"
	"github.com/slipway-project/slipway/environs/baremetal/bmc"
	"github.com/slipway-project/slipway/environs/baremetal/fakebmc"
	metal3v1alpha1 "github.com/slipway-project/slipway/environs/baremetal/metal3/v1alpha1"
	"github.com/slipway-project/slipway/internal/site"
	"github.com/slipway-project/slipway/params"
)

// operator returns a client of a site's hosts, as its operator.
func operator(t *testing.T, dir site.Dir, address string) *hosts.Client {
	t.Helper()
	c, err := clientstore.New(dir.Client()).Read()
	if err != nil {
		t.Fatal(err)
	}
	conn, err := api.Open(t.Context(), api.Info{
		Addrs: []string{address}, CACert: c.Controllers[c.Current].CACert,
		Tag: "user-" + c.Accounts[c.Current].User, Password: c.Accounts[c.Current].Password,
	}, api.DialOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() }) // whatever became of it
	return hosts.New(conn)
}

// until asks for a host until it is as wanted; gone hosts are nil.
func until(t *testing.T, c *hosts.Client, name, what string, ok func(*metal3v1alpha1.BareMetalHost) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		list, err := c.List(ctx, name)
		if err != nil {
			t.Fatalf("host %s is not %s: %v", name, what, err)
		}
		var h *metal3v1alpha1.BareMetalHost
		if list[0].Err == nil {
			h = new(metal3v1alpha1.BareMetalHost)
			if err := json.Unmarshal(list[0].Value.Record, h); err != nil {
				t.Fatal(err)
			}
		} else if !errors.Is(list[0].Err, errors.NotFound) {
			t.Fatal(list[0].Err)
		}
		if ok(h) {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("host %s is not %s: %+v, %+v", name, what, h.Status, list[0].Value.Progress)
		}
	}
}

func ready(h *metal3v1alpha1.BareMetalHost) bool {
	return h != nil && h.Status.Provisioning.State == metal3v1alpha1.StateReady && h.Status.HardwareDetails != nil
}

// TestHostsAreRegisteredAndInspected adds hosts to a site that is served, one
// simulated and one behind a BMC that speaks Redfish.
func TestHostsAreRegisteredAndInspected(t *testing.T) {
	creds := bmc.Credentials{Username: "root", Password: "calvin"}
	b, err := fakebmc.New(fakebmc.Config{Credentials: creds})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() }) // its machines are in memory
	server := httptest.NewServer(b)
	t.Cleanup(server.Close)

	dir := bootstrap(t)
	s, err := site.Open(t.Context(), site.Options{Dir: dir, Registry: all.Registry(all.Backends{}), Worker: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { end(t, s) })
	c := operator(t, dir, s.Addr())
	spec := func(mac, address string) json.RawMessage {
		return json.RawMessage(`{"online":true,"bootMACAddress":"` + mac + `","bmc":{"address":"` + address + `"}}`)
	}
	own := params.HostCredentials{Username: "root", Password: "calvin"}
	metal := "redfish+" + server.URL
	added, err := c.Add(t.Context(),
		params.AddHost{Name: "sim", Spec: spec("52:54:00:00:00:01", "simulated://sim"), Credentials: own},
		params.AddHost{Name: "metal", Spec: spec("52:54:00:00:00:02", metal), Credentials: params.HostCredentials{Username: "root", Password: "hobbes"}})
	if err != nil || added[0].Err != nil || added[1].Err != nil {
		t.Fatalf("Add = %+v, %v", added, err)
	}
	until(t, c, "sim", "ready", ready)
	until(t, c, "metal", "refused by its BMC", func(h *metal3v1alpha1.BareMetalHost) bool {
		return h.Status.ErrorType == metal3v1alpha1.RegistrationError && !strings.Contains(h.Status.ErrorMessage, "hobbes")
	})
	if err := c.SetCredentials(t.Context(), "metal", own); err != nil {
		t.Fatal(err)
	}
	until(t, c, "metal", "ready", ready)
	for _, name := range []string{"sim", "metal"} {
		if err := c.Do(t.Context(), name, "remove"); err != nil {
			t.Fatal(err)
		}
		until(t, c, name, "gone", func(h *metal3v1alpha1.BareMetalHost) bool { return h == nil })
	}
}
