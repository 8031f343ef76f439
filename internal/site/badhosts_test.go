package site_test

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/api/hosts"
	"github.com/slipway-project/slipway/environs/all"
	"github.com/slipway-project/slipway/environs/baremetal/bmc"
	"github.com/slipway-project/slipway/environs/baremetal/fakebmc"
	metal3v1alpha1 "github.com/slipway-project/slipway/environs/baremetal/metal3/v1alpha1"
	"github.com/slipway-project/slipway/environs/baremetal/redfish"
	"github.com/slipway-project/slipway/internal/site"
	"github.com/slipway-project/slipway/params"
)

// badHost is a host with something wrong about it, and what people have to be told.
type badHost struct {
	name   string
	fault  fakebmc.Fault         // of its BMC
	config fakebmc.Config        // likewise
	image  *metal3v1alpha1.Image // to write
	want   string                // a part of what the host shows
}

// badHosts returns one host for each thing that goes wrong behind a BMC's address.
func badHosts(elsewhere string) []badHost {
	return []badHost{
		{name: "garbage", fault: fakebmc.Fault{Kind: fakebmc.FaultGarbage}, want: "what the BMC answers at /redfish/v1/ is not what Redfish prescribes: invalid character '<'"},
		{name: "half-json", fault: fakebmc.Fault{Kind: fakebmc.FaultHalfJSON}, want: "is not what Redfish prescribes: unexpected end of JSON input"},
		{name: "wrong-json", fault: fakebmc.Fault{Kind: fakebmc.FaultWrongJSON}, want: "is not what Redfish prescribes: json: cannot unmarshal"},
		{name: "huge", fault: fakebmc.Fault{Kind: fakebmc.FaultHuge}, want: "the BMC's answer at /redfish/v1/ has more than 4 MiB"},
		{name: "redirect", fault: fakebmc.Fault{Kind: fakebmc.FaultRedirect}, want: "the BMC sends /redfish/v1/ on to /redfish/v1/; we do not follow with its credentials"},
		{
			name: "redirect-off", fault: fakebmc.Fault{Kind: fakebmc.FaultRedirectOff, Location: elsewhere},
			want: "the BMC sends /redfish/v1/ on to " + elsewhere + "; we do not follow",
		},
		{name: "storm", fault: fakebmc.Fault{Kind: fakebmc.FaultStatus, Status: http.StatusUnauthorized, Path: "/Systems"}, want: "the BMC refuses the user name or password; correct the host's credentials"},
		{name: "sessions", config: fakebmc.Config{MaxSessions: 1, NoBasic: true}, want: "the BMC has no free session and takes no password without one; end sessions there"},
		{name: "liar", fault: fakebmc.Fault{Kind: fakebmc.FaultIgnore, Method: http.MethodPost, Path: "Reset"}, want: `the BMC accepted power command On `},
		{name: "no-image", image: &metal3v1alpha1.Image{URL: "http://nowhere.test/a", Checksum: checksum()}, want: "cannot use image http://nowhere.test/a: "},
		{name: "other-image", image: &metal3v1alpha1.Image{URL: "http://images.test/a", Checksum: strings.Repeat("0", 64)}, want: "want 0000"},
	}
}

// badRun is the one run that all the hosts are in.
type badRun struct {
	*testing.T
	client    *hosts.Client
	installer *fakeInstaller
	creds     bmc.Credentials
	n         int // of machines
}

// machine starts a BMC of its own, and returns it with the address of its server.
func (r *badRun) machine(c fakebmc.Config) *fakebmc.BMC {
	r.Helper()
	r.n++
	c.Credentials, c.FirstSystem = r.creds, r.n
	c.Machine = func(int) fakebmc.Machine { return fakebmc.Memory{OnBoot: r.installer.boot} }
	b, err := fakebmc.New(c)
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() { _ = b.Close() }) // its machine is in memory
	return b
}

// serve returns the address of a BMC's server.
func (r *badRun) serve(h http.Handler) string {
	server := httptest.NewServer(h)
	r.Cleanup(server.Close)
	return server.URL
}

// host describes a host to add.
func (r *badRun) host(name, address string, change func(*metal3v1alpha1.BareMetalHostSpec)) params.AddHost {
	r.Helper()
	r.n++
	spec := metal3v1alpha1.BareMetalHostSpec{Online: true, BootMACAddress: fmt.Sprintf("52:54:00:00:01:%02x", r.n), BMC: metal3v1alpha1.BMCDetails{Address: address}}
	if change != nil {
		change(&spec)
	}
	data, err := json.Marshal(spec)
	if err != nil {
		r.Fatal(err)
	}
	return params.AddHost{Name: name, Spec: data, Credentials: params.HostCredentials{Username: params.Secret(r.creds.Username), Password: params.Secret(r.creds.Password)}}
}

// add adds hosts, all of which are taken.
func (r *badRun) add(all ...params.AddHost) {
	r.Helper()
	added, err := r.client.Add(r.Context(), all...)
	if err != nil {
		r.Fatal(err)
	}
	for i, a := range added {
		if a.Err != nil {
			r.Fatalf("Add %s = %v", all[i].Name, a.Err)
		}
	}
}

// refused expects that a host is not taken, and why. Without a kind, any will do.
func (r *badRun) refused(h params.AddHost, kind error, want string) {
	r.Helper()
	added, err := r.client.Add(r.Context(), h)
	if err != nil {
		r.Fatal(err)
	}
	if err := added[0].Err; err == nil || kind != nil && !errors.Is(err, kind) || !strings.Contains(err.Error(), want) {
		r.Errorf("Add %s = %v, want %v with %q", h.Name, err, kind, want)
	}
}

// shows waits until a host shows an error.
func (r *badRun) shows(name, want string) {
	r.Helper()
	until(r.T, r.client, name, "shown to be wrong: "+want, func(h *metal3v1alpha1.BareMetalHost) bool {
		if h == nil || h.Status.ErrorType == metal3v1alpha1.NoError {
			return false
		}
		text := h.Status.ErrorMessage
		if strings.Contains(text, r.creds.Password) || strings.Contains(text, "hobbes") || strings.Contains(text, "installer.test") {
			r.Errorf("host %s shows a secret: %q", name, text)
		}
		if !strings.Contains(text, want) {
			r.Fatalf("host %s shows %q, want %q", name, text, want)
		}
		return true
	})
}

// remove removes hosts, and waits until they are gone.
func (r *badRun) remove(names ...string) {
	r.Helper()
	for _, name := range names {
		if err := r.client.Do(r.Context(), name, "remove"); err != nil {
			r.Fatal(err)
		}
	}
	for _, name := range names {
		until(r.T, r.client, name, "gone", func(h *metal3v1alpha1.BareMetalHost) bool { return h == nil })
	}
}

// newBadRun serves a site, whose hosts a process of its own would care for likewise.
func newBadRun(t *testing.T) *badRun {
	t.Helper()
	dir := bootstrap(t)
	s, err := site.Open(t.Context(), site.Options{Dir: dir, Registry: all.Registry(all.Backends{})})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { end(t, s) })
	r := &badRun{T: t, installer: newFakeInstaller(), creds: bmc.Credentials{Username: "root", Password: "calvin"}}
	k, err := site.StartHosts(site.HostsOptions{AgentFile: dir.AgentFile(), Redfish: redfish.Options{
		Installer: r.installer, Poll: 20 * time.Millisecond, PowerTimeout: 10 * time.Second,
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		k.Kill()
		if err := k.Wait(); err != nil {
			t.Errorf("host keeper ended with %v", err)
		}
	})
	r.client = operator(t, dir, s.Addr())
	return r
}

// TestBadHostsAreToldApartFromGoodOnes has hosts with all that can be wrong about them
// beside good ones: each shows why, can be corrected or removed, and costs no other
// anything.
func TestBadHostsAreToldApartFromGoodOnes(t *testing.T) {
	r := newBadRun(t)
	var strayed atomic.Int64 // requests where a redirection leads
	elsewhere := r.serve(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { strayed.Add(1) }))
	good := r.serve(r.machine(fakebmc.Config{}))
	goodImage := func(s *metal3v1alpha1.BareMetalHostSpec) {
		s.Image = &metal3v1alpha1.Image{URL: "http://images.test/a", Checksum: checksum()}
	}
	list := []params.AddHost{r.host("good", "redfish+"+good, goodImage), r.host("spare", "redfish+"+r.serve(r.machine(fakebmc.Config{})), nil)}
	bad := badHosts(elsewhere)
	bmcs := map[string]*fakebmc.BMC{}
	var names []string
	for _, one := range bad {
		b := r.machine(one.config)
		bmcs[one.name], names = b, append(names, one.name)
		url := r.serve(b)
		if one.fault.Kind != "" {
			if err := b.Inject(one.fault); err != nil {
				t.Fatal(err)
			}
		}
		if one.config.MaxSessions > 0 {
			r.useUpSession(url)
		}
		list = append(list, r.host(one.name, "redfish+"+url, func(s *metal3v1alpha1.BareMetalHostSpec) { s.Image = one.image }))
	}
	r.add(list...)
	r.refuses(good)
	corrected := r.corrected()
	for _, one := range bad {
		r.shows(one.name, one.want)
	}
	if s := bmcs["storm"].Stats(); s.Requests > 20 || s.Sessions > 1 {
		t.Errorf("a storm of refusals was answered with %+v, want few requests and at most one session", s)
	}
	if n := strayed.Load(); n != 0 {
		t.Errorf("%d requests followed a redirection", n)
	}
	fine := func(h *metal3v1alpha1.BareMetalHost) bool {
		return h != nil && h.Status.Provisioning.State == metal3v1alpha1.StateProvisioned && h.Status.PoweredOn && h.Status.ErrorType == metal3v1alpha1.NoError
	}
	until(t, r.client, "good", "provisioned", fine)
	until(t, r.client, "spare", "ready", ready)
	r.remove(append(names, corrected...)...)
	until(t, r.client, "good", "provisioned", fine)
	r.quiet("good", "spare")
	r.remove("good", "spare")
}

// useUpSession logs in to a BMC and never out.
func (r *badRun) useUpSession(url string) {
	r.Helper()
	body := fmt.Sprintf(`{"UserName":%q,"Password":%q}`, r.creds.Username, r.creds.Password)
	resp, err := http.Post(url+"/redfish/v1/SessionService/Sessions", "application/json", strings.NewReader(body))
	if err != nil {
		r.Fatal(err)
	}
	_ = resp.Body.Close() // its status tells
	if resp.StatusCode != http.StatusCreated {
		r.Fatalf("cannot log in: %s", resp.Status)
	}
}

// refuses tries to add what is no host, or another one's.
func (r *badRun) refuses(taken string) {
	r.Helper()
	for _, one := range []struct{ address, want string }{
		{"redfish+" + taken + "/redfish/v1/Systems/1?a=b", "a redfish address has no ?query"},
		{"redfish://bmc.test:port/", `BMC address "redfish://bmc.test:port/": not a URL: malformed host or port`},
		{"redfish:///redfish/v1/Systems/1", "it has no host"},
		{"redfish://user:hobbes@bmc.test/", `BMC address "redfish://[redacted]@bmc.test/": user name and password do not belong here; give them as credentials`},
		{"carrier-pigeon://bmc.test", `unknown scheme "carrier-pigeon"; want one of ibmc, `},
	} {
		r.refused(r.host("late", one.address, nil), nil, one.want)
	}
	r.refused(r.host("late", "redfish://bmc.test", func(s *metal3v1alpha1.BareMetalHostSpec) { s.BootMACAddress = "52:54:00:00" }), nil,
		`"52:54:00:00" is not a MAC address: give six pairs of hexadecimal digits`)
	r.refused(r.host("late", "redfish+"+taken, nil), errors.AlreadyExists, `the BMC at redfish+`+taken+` is that of host "good" already`)
	first := r.host("late", "redfish://bmc.test", func(s *metal3v1alpha1.BareMetalHostSpec) { s.BootMACAddress = r.macOf("good") })
	r.refused(first, errors.AlreadyExists, `the MAC address `+r.macOf("good")+` is that of host "good" already`)
	r.refused(r.host("good", "redfish://bmc.test", nil), errors.AlreadyExists, `host "good"`)
}

// macOf returns the boot MAC address of a host.
func (r *badRun) macOf(name string) (mac string) {
	r.Helper()
	until(r.T, r.client, name, "known", func(h *metal3v1alpha1.BareMetalHost) bool {
		mac = h.Spec.BootMACAddress
		return true
	})
	return mac
}

// corrected has hosts with a wrong password, and with a certificate that changes. It
// returns their names.
func (r *badRun) corrected() []string {
	r.Helper()
	wrong := r.host("password", "redfish+"+r.serve(r.machine(fakebmc.Config{})), nil)
	wrong.Credentials.Password = "hobbes"
	server := httptest.NewUnstartedServer(r.machine(fakebmc.Config{}))
	before, pin := certificate(r.T)
	after, other := certificate(r.T)
	var shown atomic.Pointer[tls.Certificate]
	shown.Store(before)
	server.TLS = &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		return &tls.Config{Certificates: []tls.Certificate{*shown.Load()}}, nil
	}}
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // that the certificate is refused is the point
	server.StartTLS()
	r.Cleanup(server.Close)
	address := "redfish+" + server.URL
	r.add(wrong,
		r.host("pinned", address, func(s *metal3v1alpha1.BareMetalHostSpec) { s.BMC.CertificateFingerprint = pin }))
	until(r.T, r.client, "pinned", "ready", ready)
	shown.Store(after)
	server.CloseClientConnections()
	if err := r.client.Do(r.Context(), "pinned", "retry"); err != nil {
		r.Fatal(err)
	}
	r.shows("pinned", "the BMC shows a certificate with SHA-256 "+other+", not the pinned "+pin+"; if it was changed on purpose, pin the new one")
	r.shows("password", "the BMC refuses the user name or password; correct the host's credentials")
	own := params.HostCredentials{Username: params.Secret(r.creds.Username), Password: params.Secret(r.creds.Password)}
	if err := r.client.SetCredentials(r.Context(), "password", own); err != nil {
		r.Fatal(err)
	}
	until(r.T, r.client, "password", "ready", ready)
	return []string{"password", "pinned"}
}

// quiet expects that nothing was ever wrong with hosts.
func (r *badRun) quiet(names ...string) {
	r.Helper()
	list, err := r.client.List(r.Context(), names...)
	if err != nil {
		r.Fatal(err)
	}
	for _, one := range list {
		if one.Err != nil {
			r.Fatal(one.Err)
		}
		for _, e := range one.Value.Events {
			if strings.Contains(e.Reason, "Error") {
				r.Errorf("host %s met %s: %s", one.Value.Name, e.Reason, e.Message)
			}
		}
	}
}
