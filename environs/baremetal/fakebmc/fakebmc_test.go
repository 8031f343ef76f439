package fakebmc_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/environs/baremetal/bmc"
	"github.com/slipway-project/slipway/environs/baremetal/fakebmc"
	"github.com/slipway-project/slipway/internal/memnet"
)

// client is a BMC with a plain HTTP client to it.
type client struct {
	t      *testing.T
	bmc    *fakebmc.BMC
	url    string
	header http.Header
	http   http.RoundTripper
}

// open makes a BMC.
func open(t *testing.T, c fakebmc.Config) *client {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return openAt(t, l, http.DefaultTransport, c)
}

// openAt is open on a listener, which is reached by a transport.
func openAt(t *testing.T, l net.Listener, transport http.RoundTripper, c fakebmc.Config) *client {
	t.Helper()
	b, err := fakebmc.New(c)
	if err != nil {
		t.Fatal(err)
	}
	s := &httptest.Server{Listener: l, Config: &http.Server{Handler: b}}
	s.Start()
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
		s.Close()
	})
	return &client{t: t, bmc: b, url: s.URL, header: make(http.Header), http: transport}
}

// do sends a request and returns the status and the decoded answer.
func (c *client) do(method, path, body string) (int, map[string]any) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, c.url+path, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	for key, values := range c.header {
		req.Header[key] = values
	}
	resp, err := c.http.RoundTrip(req)
	if err != nil {
		c.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if token := resp.Header.Get("X-Auth-Token"); token != "" {
		c.header.Set("X-Auth-Token", token)
	}
	out := make(map[string]any)
	data, _ := io.ReadAll(resp.Body)
	_ = json.Unmarshal(data, &out)
	return resp.StatusCode, out
}

// power waits until a machine is in that power state.
func (c *client) power(want string) {
	c.t.Helper()
	last := ""
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		_, s := c.do("GET", c.bmc.System(0).Path(), "")
		if last, _ = s["PowerState"].(string); last == want {
			return
		}
		<-time.After(time.Millisecond)
	}
	c.t.Fatalf("power state %q, want %q", last, want)
}

// walk reads every resource that is linked from path.
func (c *client) walk(path string, seen map[string]bool) {
	if seen[path] {
		return
	}
	seen[path] = true
	status, doc := c.do("GET", path, "")
	if status != 200 {
		c.t.Errorf("%s: status %d", path, status)
	}
	var links func(v any)
	links = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			if id, ok := v["@odata.id"].(string); ok {
				c.walk(id, seen)
			}
			for _, inner := range v {
				links(inner)
			}
		case []any:
			for _, inner := range v {
				links(inner)
			}
		}
	}
	links(map[string]any{"": doc})
}

func TestEveryLinkLeadsSomewhere(t *testing.T) {
	for _, v := range fakebmc.Vendors() {
		t.Run(v.Name, func(t *testing.T) {
			c := open(t, fakebmc.Config{Vendor: v.Name, Systems: 2})
			seen := make(map[string]bool)
			c.walk("/redfish/v1", seen)
			for _, want := range []string{"/Bios", "/Drives/0", "/Memory/DIMM0", "/Processors/1", "/EthernetInterfaces/NIC1", "/VirtualMedia/" + v.CD, "/Chassis/"} {
				found := false
				for path := range seen {
					found = found || strings.Contains(path, want)
				}
				if !found {
					t.Errorf("nothing leads to %s", want)
				}
			}
		})
	}
}

func TestPowerGoesThroughItsStates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const delay = 20 * time.Second
		l := memnet.Listen()
		transport := &http.Transport{DialContext: l.Dial, DisableKeepAlives: true}
		c := openAt(t, l, transport, fakebmc.Config{Delays: fakebmc.Delays{PowerOn: delay, PowerOff: delay, SoftOff: delay}})
		reset := c.bmc.System(0).Path() + "/Actions/ComputerSystem.Reset"
		state := func() any {
			_, s := c.do("GET", c.bmc.System(0).Path(), "")
			return s["PowerState"]
		}
		for _, step := range []struct{ kind, soon, then string }{
			{"On", "PoweringOn", "On"}, {"GracefulShutdown", "PoweringOff", "Off"}, {"On", "PoweringOn", "On"},
			{"ForceRestart", "PoweringOff", "PoweringOn"}, {"On", "PoweringOn", "On"}, {"ForceOff", "PoweringOff", "Off"},
		} {
			if status, _ := c.do("POST", reset, fmt.Sprintf(`{"ResetType":%q}`, step.kind)); status != 204 {
				t.Fatalf("%s: status %d", step.kind, status)
			}
			if got := state(); got != step.soon {
				t.Errorf("%s: at once %v, want %s", step.kind, got, step.soon)
			}
			time.Sleep(delay)
			synctest.Wait()
			if got := state(); got != step.then {
				t.Errorf("%s: after %v %v, want %s", step.kind, delay, got, step.then)
			}
		}
		if status, _ := c.do("POST", reset, `{"ResetType":"Explode"}`); status != 400 {
			t.Errorf("an unknown reset type: status %d", status)
		}
		if status, _ := c.do("POST", reset, `{"ResetType":`); status != 400 {
			t.Errorf("half a body: status %d", status)
		}
	})
}

func TestBootSources(t *testing.T) {
	boots := make(chan fakebmc.Boot, 10)
	c := open(t, fakebmc.Config{Machine: func(int) fakebmc.Machine {
		return fakebmc.Memory{OnBoot: func(_ context.Context, _ *fakebmc.System, b fakebmc.Boot) fakebmc.End {
			boots <- b
			return fakebmc.Stays
		}}
	}})
	s := c.bmc.System(0)
	restart := func() fakebmc.Boot {
		t.Helper()
		if err := s.Reset("ForceRestart"); err != nil {
			t.Fatal(err)
		}
		return <-boots
	}
	if b := restart(); b.Source != fakebmc.BootNone {
		t.Errorf("an empty machine boots from %+v", b)
	}
	s.SetDisk("os")
	if b := restart(); b.Source != fakebmc.BootHdd {
		t.Errorf("a machine with a disk boots from %+v", b)
	}
	media := "/redfish/v1/Managers/BMC/VirtualMedia/Cd"
	if status, _ := c.do("POST", media+"/Actions/VirtualMedia.InsertMedia", `{"Image":"http://h/a.iso","Inserted":true}`); status != 204 {
		t.Fatalf("insert: status %d", status)
	}
	if status, _ := c.do("PATCH", s.Path(), `{"Boot":{"BootSourceOverrideTarget":"Cd","BootSourceOverrideEnabled":"Once"}}`); status != 204 {
		t.Fatalf("override: status %d", status)
	}
	if b := restart(); b.Source != fakebmc.BootCd || b.URL != "http://h/a.iso" {
		t.Errorf("with an override it boots from %+v", b)
	}
	if b := restart(); b.Source != fakebmc.BootHdd {
		t.Errorf("after a one-time override it boots from %+v", b)
	}
	c.do("PATCH", s.Path(), `{"Boot":{"BootSourceOverrideTarget":"UefiHttp","BootSourceOverrideEnabled":"Continuous","HttpBootUri":"http://h/b"}}`)
	for range 2 {
		if b := restart(); b.Source != fakebmc.BootHTTP || b.URL != "http://h/b" {
			t.Errorf("with a lasting override it boots from %+v", b)
		}
	}
	if status, _ := c.do("POST", media+"/Actions/VirtualMedia.EjectMedia", `{}`); status != 204 || s.Media() != "" {
		t.Errorf("eject: status %d, medium %q", status, s.Media())
	}
	for _, bad := range []string{`{"Boot":{"BootSourceOverrideTarget":"Moon"}}`, `{"Boot":{"BootSourceOverrideEnabled":"Twice"}}`} {
		if status, _ := c.do("PATCH", s.Path(), bad); status != 400 {
			t.Errorf("%s: status %d", bad, status)
		}
	}
}

func TestVendorsDiffer(t *testing.T) {
	for _, c := range []struct {
		vendor, method, path, body string
		want                       int
	}{
		{"hpe", "POST", "/redfish/v1/Managers/1/VirtualMedia/2/Actions/VirtualMedia.InsertMedia", `{"Image":"http://h/i","Inserted":true}`, 400},
		{"hpe", "POST", "/redfish/v1/Managers/1/VirtualMedia/2/Actions/VirtualMedia.InsertMedia", `{"Image":"http://h/i"}`, 204},
		{"hpe", "PATCH", "/redfish/v1/Systems/1", `{"Boot":{"BootSourceOverrideMode":"UEFI"}}`, 400},
		{"lenovo", "PATCH", "/redfish/v1/Systems/1", `{"Boot":{"BootSourceOverrideTarget":"Cd"}}`, 428},
		{"lenovo", "POST", "/redfish/v1/Managers/1/VirtualMedia/EXT1/Actions/VirtualMedia.InsertMedia", `{"Image":"http://h/i"}`, 404},
		{"supermicro", "PATCH", "/redfish/v1/Systems/1", `{"Boot":{"BootSourceOverrideTarget":"UsbCd"}}`, 400},
		{"supermicro", "POST", "/redfish/v1/Systems/1/Actions/ComputerSystem.Reset", `{"ResetType":"GracefulShutdown"}`, 400},
		{"dell", "POST", "/redfish/v1/Systems/System.Embedded.1/Actions/ComputerSystem.Reset", `{"ResetType":"ForceOff"}`, 409},
		{"openbmc", "GET", "/redfish/v1/Managers/bmc/VirtualMedia", "", 404},
		{"openbmc", "GET", "/redfish/v1/Systems/system/VirtualMedia", "", 200},
	} {
		b := open(t, fakebmc.Config{Vendor: c.vendor})
		if status, _ := b.do(c.method, c.path, c.body); status != c.want {
			t.Errorf("%s %s %s %s: status %d, want %d", c.vendor, c.method, c.path, c.body, status, c.want)
		}
	}
	if _, err := fakebmc.New(fakebmc.Config{Vendor: "acme"}); !errors.Is(err, errors.NotFound) {
		t.Errorf("unknown vendor: %v", err)
	}
}

func TestSessions(t *testing.T) {
	c := open(t, fakebmc.Config{Credentials: bmc.Credentials{Username: "u", Password: "p"}, NoBasic: true, MaxSessions: 1})
	sessions := "/redfish/v1/SessionService/Sessions"
	for _, step := range []struct {
		method, path, body string
		want               int
	}{
		{"GET", "/redfish/v1/", "", 200},
		{"GET", sessions, "", 401},
		{"POST", sessions, `{"UserName":"u","Password":"wrong"}`, 401},
		{"POST", sessions, `{"UserName":"u","Password":"p"}`, 201},
		{"GET", sessions, "", 200},
		{"POST", sessions, `{"UserName":"u","Password":"p"}`, 503},
		{"DELETE", sessions + "/9", "", 404},
		{"DELETE", sessions + "/1", "", 204},
		{"GET", sessions, "", 401},
	} {
		if status, _ := c.do(step.method, step.path, step.body); status != step.want {
			t.Errorf("%s %s: status %d, want %d", step.method, step.path, status, step.want)
		}
	}
	if s := c.bmc.Stats(); s.Sessions != 0 || s.LoggedIn != 1 {
		t.Errorf("stats %+v", s)
	}
	c.header.Set("Authorization", "Basic dTpw")
	if status, _ := c.do("GET", "/redfish/v1/Systems", ""); status != 401 {
		t.Errorf("basic authentication though it is off: status %d", status)
	}
}

func TestEventsReachTheirReceivers(t *testing.T) {
	got := make(chan string, 10)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		data, _ := io.ReadAll(r.Body)
		got <- string(data)
	}))
	defer receiver.Close()
	c := open(t, fakebmc.Config{})
	subscriptions := "/redfish/v1/EventService/Subscriptions"
	status, made := c.do("POST", subscriptions, fmt.Sprintf(`{"Destination":%q,"Context":"rack-3","Protocol":"Redfish"}`, receiver.URL))
	if status != 201 {
		t.Fatalf("subscribe: status %d", status)
	}
	if err := c.bmc.System(0).Reset("On"); err != nil {
		t.Fatal(err)
	}
	if e := <-got; !strings.Contains(e, "rack-3") || !strings.Contains(e, "powered on") {
		t.Errorf("event %s", e)
	}
	if status, _ := c.do("DELETE", made["@odata.id"].(string), ""); status != 204 {
		t.Errorf("unsubscribe: status %d", status)
	}
	if status, _ := c.do("POST", subscriptions, `{"Destination":"nowhere"}`); status != 400 {
		t.Errorf("bad destination: status %d", status)
	}
}

func TestBIOSSettings(t *testing.T) {
	c := open(t, fakebmc.Config{})
	path := c.bmc.System(0).Path() + "/Bios"
	if status, _ := c.do("PATCH", path+"/Settings", `{"Attributes":{"BootMode":"Bios"}}`); status != 204 {
		t.Fatalf("status %d", status)
	}
	if _, bios := c.do("GET", path, ""); bios["Attributes"].(map[string]any)["BootMode"] != "Bios" {
		t.Errorf("BIOS %v", bios)
	}
	if status, _ := c.do("PATCH", path+"/Settings", `{"Attributes":{"Colour":"red"}}`); status != 400 {
		t.Errorf("unknown attribute: status %d", status)
	}
}

func TestFaultsAreControlledByHTTP(t *testing.T) {
	c := open(t, fakebmc.Config{})
	if status, _ := c.do("POST", "/fakebmc/faults", `{"kind":"status","status":503,"times":2,"path":"/Systems"}`); status != 204 {
		t.Fatalf("status %d", status)
	}
	for _, want := range []int{503, 503, 200} {
		if status, _ := c.do("GET", "/redfish/v1/Systems", ""); status != want {
			t.Errorf("status %d, want %d", status, want)
		}
	}
	for _, bad := range []string{`{"kind":"status"}`, `{"kind":"sulk"}`, `{"kind":"redirect-off"}`, `[`} {
		if status, _ := c.do("POST", "/fakebmc/faults", bad); status != 400 {
			t.Errorf("fault %s: status %d", bad, status)
		}
	}
	c.do("POST", "/fakebmc/faults", `{"kind":"garbage"}`)
	c.do("DELETE", "/fakebmc/faults", "")
	if status, root := c.do("GET", "/redfish/v1", ""); status != 200 || root["Id"] != "RootService" {
		t.Errorf("after all faults are gone: %d %v", status, root)
	}
	if _, s := c.do("GET", "/fakebmc/stats", ""); s["requests"].(float64) < 4 {
		t.Errorf("stats %v", s)
	}
}

func TestRackFindsTheBMCByAddress(t *testing.T) {
	rack, err := fakebmc.NewRack(300, fakebmc.Config{}, "dell", "hpe")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rack.Close() }()
	macs := make(map[string]bool)
	for _, b := range rack {
		macs[b.System(0).MAC()] = true
	}
	if len(macs) != 300 {
		t.Errorf("%d MAC addresses for 300 machines", len(macs))
	}
	for n, want := range map[int]string{0: "127.16.0.0", 257: "127.16.1.1", 70000: "127.17.17.112"} {
		if got := fakebmc.AddressOf(n); got != want {
			t.Errorf("AddressOf(%d) = %s, want %s", n, got, want)
		}
	}
	for _, c := range []struct {
		local string
		want  int
	}{{"127.16.0.1:80", 1}, {"127.16.1.1:80", 257}, {"127.0.0.1:80", 0}, {"[::1]:80", 0}, {"127.16.255.1:80", -1}} {
		w := httptest.NewRecorder()
		r := httptest.NewRequest("GET", "/redfish/v1/", nil)
		r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, tcpAddr(t, c.local)))
		rack.ServeHTTP(w, r)
		if c.want < 0 {
			if w.Code != 404 {
				t.Errorf("%s: status %d", c.local, w.Code)
			}
			continue
		}
		if want := fmt.Sprintf("%012x", c.want); !bytes.Contains(w.Body.Bytes(), []byte(want)) {
			t.Errorf("%s: got %s, want BMC %d", c.local, w.Body, c.want)
		}
	}
}

func TestFaultsThatMakeNoSense(t *testing.T) {
	b, err := fakebmc.New(fakebmc.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = b.Close() }() // its machine is in memory
	for _, f := range []fakebmc.Fault{
		{}, {Kind: "nope"}, {Kind: fakebmc.FaultHang, Times: -1}, {Kind: fakebmc.FaultStatus, Status: 199}, {Kind: fakebmc.FaultStatus, Status: 600}, {Kind: fakebmc.FaultRedirectOff},
	} {
		if err := b.Inject(f); !errors.Is(err, errors.NotValid) {
			t.Errorf("Inject(%+v) = %v, want not valid", f, err)
		}
	}
}
