package host_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/core/kind"
	"github.com/slipway-project/slipway/environs/baremetal/bmc"
	metal3v1alpha1 "github.com/slipway-project/slipway/environs/baremetal/metal3/v1alpha1"
	"github.com/slipway-project/slipway/internal/hostkey"
	"github.com/slipway-project/slipway/state"
	"github.com/slipway-project/slipway/state/host"
	"github.com/slipway-project/slipway/state/statetest"
	"github.com/slipway-project/slipway/store"
)

var (
	ctx    = context.Background()
	secret = bmc.Credentials{Username: "root", Password: "calvin-and-hobbes"}
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// spec returns a host at a simulated BMC.
func spec(name, mac string) host.Spec {
	s := host.Spec{Name: name, Credentials: secret}
	s.Spec.BMC.Address, s.Spec.BootMACAddress, s.Spec.Online = "simulated://"+name, mac, true
	return s
}

// manager returns the hosts as a manager that holds the site's lease sees them.
func manager(t *testing.T, site *statetest.Site, who string) *host.Hosts {
	t.Helper()
	st := site.Management.WithFence(state.NewFence("0"))
	_, err := st.SiteLease().Claim(ctx, who, time.Minute)
	must(t, err)
	return host.New(st.SiteDocs())
}

func TestAddRefuses(t *testing.T) {
	site, _ := statetest.OpenMemory(t)
	hosts := host.New(site.SiteDocs())
	if _, err := hosts.Add(ctx, spec("first", "52-54-00-00-00-01")); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		change func(*host.Spec)
		kind   error
		want   string
	}{
		{"name taken", func(s *host.Spec) { s.Name = "first" }, errors.AlreadyExists, `host "first" already exists`},
		{"BMC taken", func(s *host.Spec) { s.Spec.BMC.Address = "simulated://first" }, errors.AlreadyExists, `the BMC at simulated://first is that of host "first" already`},
		{"MAC taken", func(s *host.Spec) { s.Spec.BootMACAddress = "52:54:00:00:00:01" }, errors.AlreadyExists, `the MAC address 52:54:00:00:00:01 is that of host "first" already`},
		{"bad MAC", func(s *host.Spec) { s.Spec.BootMACAddress = "52:54" }, errors.NotValid, `"52:54" is not a MAC address: give six pairs of hexadecimal digits, such as 52:54:00:12:34:56`},
		{"bad fingerprint", func(s *host.Spec) { s.Spec.BMC.CertificateFingerprint = "zz" }, errors.NotValid, "BMC certificate fingerprint is not a SHA-256 in hexadecimal (64 digits)"},
		{"bad authorities", func(s *host.Spec) { s.Spec.BMC.CABundle = "zz" }, errors.NotValid, "BMC CA bundle holds no certificate in PEM"},
		{"no MAC", func(s *host.Spec) { s.Spec.BMC.Address = "libvirt://h" }, errors.NotValid, "a host at a BMC of type libvirt needs the MAC address that it boots from"},
		{"bad name", func(s *host.Spec) { s.Name = "A b" }, errors.NotValid, `"A b" is not a host name: use lower-case letters, digits, hyphens and dots`},
		{"half credentials", func(s *host.Spec) { s.Credentials.Password = "" }, errors.NotValid, "BMC credentials without password"},
		{"unknown scheme", func(s *host.Spec) { s.Spec.BMC.Address = "gopher://h" }, errors.NotSupported, ""},
	} {
		s := spec("second", "")
		c.change(&s)
		_, err := hosts.Add(ctx, s)
		if !errors.Is(err, c.kind.(errors.ConstError)) || c.want != "" && err.Error() != c.want {
			t.Errorf("%s: %v, want %s", c.name, err, c.want)
		}
	}
	if all, err := hosts.All(ctx); err != nil || len(all) != 1 {
		t.Errorf("All = %v, %v, want what was refused not to be there", all, err)
	}
	named, err := hosts.Add(ctx, func() host.Spec { s := spec("x", "52:54:00:00:00:0A"); s.Name = ""; return s }())
	if err != nil || named != "host-52540000000a" {
		t.Errorf("name of a host without one = %q, %v", named, err)
	}
}

func TestCredentialsComeOutForTheManagerOnly(t *testing.T) {
	site, tap := statetest.OpenMemory(t)
	hosts := host.New(site.SiteDocs())
	_, err := hosts.Add(ctx, spec("a", ""))
	must(t, err)
	got, err := hosts.Get(ctx, "a")
	if err != nil || !got.HasCredentials || strings.Contains(fmt.Sprintf("%+v", got), secret.Password) {
		t.Errorf("Get = %+v, %v", got, err)
	}
	page, err := tap.List(ctx, store.Query{Collection: state.HostsCollection})
	must(t, err)
	if text := string(page.Docs[0].Data); strings.Contains(text, secret.Password) || strings.Contains(text, secret.Username) || !strings.Contains(text, "sealed") {
		t.Errorf("the store holds %s", text)
	}
	if bare, err := state.Redact(page.Docs[0].Key, page.Docs[0].Data, nil); err != nil || strings.Contains(string(bare), "sealed") {
		t.Errorf("without secrets: %s, %v", bare, err)
	}
	if _, err := hosts.Managed(ctx, []string{"a"}); !errors.Is(err, kind.LeaseDenied) {
		t.Errorf("Managed without a fence = %v, want it denied", err)
	}
	if _, err := host.New(site.Management.WithFence(state.NewFence("0")).SiteDocs()).Managed(ctx, []string{"a"}); !errors.Is(err, kind.LeaseDenied) {
		t.Errorf("Managed without the lease = %v, want it denied", err)
	}
	m := manager(t, site, "m")
	managed, err := m.Managed(ctx, []string{"a", "b"})
	if err != nil || len(managed) != 1 || managed[0].Credentials != secret || managed[0].CredentialsVersion != 1 {
		t.Errorf("Managed = %+v, %v", managed, err)
	}
	must(t, hosts.SetCredentials(ctx, "a", bmc.Credentials{Username: "u", Password: "p"}))
	if managed, err = m.Managed(ctx, []string{"a"}); err != nil || managed[0].Credentials.Password != "p" || managed[0].CredentialsVersion != 2 {
		t.Errorf("Managed after other credentials = %v, %v", managed, err)
	}
}

func TestANewManagerIsToldOfTheOldOnesIntent(t *testing.T) {
	site, _ := statetest.OpenMemory(t)
	_, err := host.New(site.SiteDocs()).Add(ctx, spec("a", ""))
	must(t, err)
	must(t, host.New(site.SiteDocs()).Remove(ctx, "a", false))
	first := manager(t, site, "first")
	must(t, first.Intend(ctx, "a", time.Hour))
	if got, err := first.Managed(ctx, []string{"a"}); err != nil || got[0].ForeignFor != 0 {
		t.Errorf("one's own intent: %v, %v", got[0].ForeignFor, err)
	}
	second := manager(t, site, "first") // the same worker on another connection: a new epoch
	got, err := second.Managed(ctx, []string{"a"})
	if err != nil || got[0].ForeignFor < 59*time.Minute {
		t.Errorf("another's intent: %v, %v, want an hour", got[0].ForeignFor, err)
	}
	for what, err := range map[string]error{
		"intend": first.Intend(ctx, "a", time.Hour), "save": first.Save(ctx, "a", host.Update{}), "forget": first.Forget(ctx, "a"),
	} {
		if !errors.Is(err, kind.LeaseDenied) {
			t.Errorf("%s by a manager that was replaced: %v, want it denied", what, err)
		}
	}
}

func TestActionsAndTheirEnd(t *testing.T) {
	site, _ := statetest.OpenMemory(t)
	hosts, m := host.New(site.SiteDocs()), manager(t, site, "m")
	_, err := hosts.Add(ctx, spec("a", ""))
	must(t, err)
	for _, a := range []host.Action{host.PowerOff, host.HardReboot, host.Inspect, host.MaintenanceOn, host.Retry, host.Retry} {
		must(t, hosts.Do(ctx, "a", a))
	}
	got, err := hosts.Get(ctx, "a")
	must(t, err)
	mode, reboot := got.Record.RebootRequested()
	if got.Record.Spec.Online || !reboot || mode != metal3v1alpha1.RebootHard || !got.Record.InspectionRequested() || !got.Record.Paused() || got.Retries != 2 {
		t.Errorf("host = %+v, retries %d", got.Record, got.Retries)
	}
	update := host.Update{
		Progress: host.Progress{Owner: "queue", Place: 3}, ClearAnnotations: []string{metal3v1alpha1.InspectAnnotation},
		Events: slices.Repeat([]host.Event{{Reason: "R", Message: "m"}}, 30),
	}
	update.Status.PoweredOn = true
	must(t, m.Save(ctx, "a", update))
	got, err = hosts.Get(ctx, "a")
	must(t, err)
	if got.Record.InspectionRequested() || !got.Record.Paused() || !got.Record.Status.PoweredOn || got.Progress.Place != 3 || len(got.Events) != 20 {
		t.Errorf("saved host = %+v, %d events", got, len(got.Events))
	}
	if err := hosts.Do(ctx, "a", "dance"); !errors.Is(err, errors.NotValid) {
		t.Errorf("unknown action: %v", err)
	}
	if err := hosts.Do(ctx, "b", host.Retry); !errors.Is(err, errors.NotFound) {
		t.Errorf("action on no host: %v", err)
	}
}

func TestRemovalFreesWhatWasClaimed(t *testing.T) {
	site, tap := statetest.OpenMemory(t)
	hosts, m := host.New(site.SiteDocs()), manager(t, site, "m")
	s := spec("a", "52:54:00:00:00:01")
	_, err := hosts.Add(ctx, s)
	must(t, err)
	if err := m.Forget(ctx, "a"); err == nil {
		t.Error("a host that is to stay was forgotten")
	}
	must(t, hosts.Remove(ctx, "a", false))
	must(t, hosts.Remove(ctx, "a", true))
	if got, err := hosts.Get(ctx, "a"); err != nil || !got.Record.Deleting() || !got.Force {
		t.Errorf("host = %+v, %v", got, err)
	}
	must(t, m.Forget(ctx, "a"))
	must(t, m.Forget(ctx, "a")) // it is gone already
	for _, collection := range []string{state.HostsCollection, state.HostStatusCollection} {
		if page, err := tap.List(ctx, store.Query{Collection: collection}); err != nil || len(page.Docs) != 0 {
			t.Errorf("%s: %v, %v, want nothing left", collection, page.Docs, err)
		}
	}
	if _, err := hosts.Add(ctx, s); err != nil {
		t.Errorf("the same host again: %v", err)
	}
}

func TestWatch(t *testing.T) {
	site, _ := statetest.OpenMemory(t)
	hosts, m := host.New(site.SiteDocs()), manager(t, site, "m")
	_, err := hosts.Add(ctx, spec("a", ""))
	must(t, err)
	w, err := hosts.Watch(ctx)
	must(t, err)
	next := func(want ...string) {
		t.Helper()
		select {
		case got := <-w.Changes():
			if !slices.Equal(got, want) {
				t.Errorf("event = %v, want %v", got, want)
			}
		case <-time.After(time.Minute):
			t.Fatalf("no event, want %v", want)
		}
	}
	next("a")
	_, err = hosts.Add(ctx, spec("b", ""))
	must(t, err)
	for seen := false; !seen; { // the change of before may be told again
		seen = slices.Contains(<-w.Changes(), "b")
	}
	must(t, m.Save(ctx, "a", host.Update{})) // wakes nobody
	_, err = hosts.Add(ctx, spec("c", ""))
	must(t, err)
	next("c")
	must(t, hosts.Remove(ctx, "a", false))
	next("a")
	must(t, m.Forget(ctx, "a"))
	next("a")
	w.Kill()
	must(t, w.Wait())
}

func TestKeys(t *testing.T) {
	site, tap := statetest.OpenMemory(t)
	hosts := host.New(site.SiteDocs())
	must(t, hosts.CheckKeys(ctx, site.SiteDocs().Keys()))
	_, err := hosts.Add(ctx, spec("a", ""))
	must(t, err)
	must(t, hosts.CheckKeys(ctx, site.SiteDocs().Keys()))
	with := func(keys *hostkey.Ring) *host.Hosts {
		c, err := state.Open(ctx, tap, state.Options{HostKeys: keys})
		must(t, err)
		t.Cleanup(func() { _ = c.Close() })
		return host.New(c.SiteDocs())
	}
	if err := hosts.CheckKeys(ctx, hostkey.New()); !errors.Is(err, hostkey.ErrWrongKey) || !strings.Contains(err.Error(), `host "a"`) {
		t.Errorf("another key: %v, want ErrWrongKey that names the host", err)
	}
	m := manager(t, site, "m")
	must(t, m.Save(ctx, "a", ready(1024)))
	q := host.Request{Data: host.Data{UserData: "hush"}}
	_, _, err = allocate(hosts, site.Default, statetest.AddMachine(t, site.Default, state.MachineSpec{}), q)
	must(t, err)
	more := site.SiteDocs().Keys().WithNew()
	rotated := with(more)
	must(t, rotated.CheckKeys(ctx, more))
	if n, err := rotated.Reseal(ctx); n != 2 || err != nil {
		t.Errorf("Reseal = %d, %v", n, err)
	}
	if n, err := rotated.Reseal(ctx); n != 0 || err != nil {
		t.Errorf("Reseal again = %d, %v", n, err)
	}
	if err := hosts.CheckKeys(ctx, site.SiteDocs().Keys()); !errors.Is(err, hostkey.ErrWrongKey) {
		t.Errorf("the old key alone: %v", err)
	}
	if _, err := with(nil).Add(ctx, spec("b", "")); !errors.Is(err, errors.NotSupported) {
		t.Errorf("Add without keys = %v", err)
	}
	if err := hosts.CheckKeys(ctx, nil); err == nil {
		t.Error("no keys are taken for good ones")
	}
}
