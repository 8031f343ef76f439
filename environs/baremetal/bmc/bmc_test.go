package bmc_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/juju/errors"
	"gopkg.in/yaml.v3"

	"github.com/slipway-project/slipway/environs/baremetal/bmc"
)

func TestParse(t *testing.T) {
	for _, c := range []struct{ in, canonical, hostPort, endpoint string }{
		{"192.0.2.1", "ipmi://192.0.2.1", "192.0.2.1:623", "https://192.0.2.1"},
		{"192.0.2.1:6233", "ipmi://192.0.2.1:6233", "192.0.2.1:6233", "https://192.0.2.1:6233"},
		{"bmc1", "ipmi://bmc1", "bmc1:623", "https://bmc1"},
		{"bmc1.example.com:99", "ipmi://bmc1.example.com:99", "bmc1.example.com:99", "https://bmc1.example.com:99"},
		{"2001:db8::1", "ipmi://[2001:db8::1]", "[2001:db8::1]:623", "https://[2001:db8::1]"},
		{"[2001:db8::1]:623", "ipmi://[2001:db8::1]:623", "[2001:db8::1]:623", "https://[2001:db8::1]:623"},
		{"ipmi:192.0.2.1:6233", "ipmi://192.0.2.1:6233", "192.0.2.1:6233", "https://192.0.2.1:6233"},
		{"ipmi://192.0.2.1?privilegelevel=operator", "ipmi://192.0.2.1?privilegelevel=OPERATOR", "192.0.2.1:623", "https://192.0.2.1"},
		{"libvirt://192.0.2.1:6233/", "libvirt://192.0.2.1:6233", "192.0.2.1:6233", "https://192.0.2.1:6233"},
		{"redfish://192.0.2.1", "redfish://192.0.2.1", "192.0.2.1:443", "https://192.0.2.1"},
		{"redfish:192.0.2.1/redfish/v1/Systems/1", "redfish://192.0.2.1/redfish/v1/Systems/1", "192.0.2.1:443", "https://192.0.2.1"},
		{"redfish+https://192.0.2.1:8443/redfish/v1/Systems/1/", "redfish://192.0.2.1:8443/redfish/v1/Systems/1", "192.0.2.1:8443", "https://192.0.2.1:8443"},
		{"redfish+http://192.0.2.1/a%20b", "redfish+http://192.0.2.1/a%20b", "192.0.2.1:80", "http://192.0.2.1"},
		{"REDFISH://BMC.Example.Com/", "redfish://bmc.example.com", "bmc.example.com:443", "https://bmc.example.com"},
		{"redfish://[2001:DB8:0::1]:1/x", "redfish://[2001:db8::1]:1/x", "[2001:db8::1]:1", "https://[2001:db8::1]:1"},
		{"redfish-virtualmedia+http://[fe80::1%25eth0]/x", "redfish-virtualmedia+http://[fe80::1%25eth0]/x", "[fe80::1%eth0]:80", "http://[fe80::1%25eth0]"},
		{"idrac-virtualmedia://192.0.2.1/redfish/v1/Systems/System.Embedded.1", "idrac-virtualmedia://192.0.2.1/redfish/v1/Systems/System.Embedded.1", "192.0.2.1:443", "https://192.0.2.1"},
		{"  ilo5://192.0.2.1 ", "ilo5://192.0.2.1", "192.0.2.1:443", "https://192.0.2.1"},
		{"redfish:623", "", "", ""},
		{"simulated://rack1-node7", "simulated://rack1-node7", "rack1-node7:443", "https://rack1-node7"},
	} {
		if c.canonical == "" {
			continue
		}
		t.Run(c.in, func(t *testing.T) {
			a, err := bmc.Parse(c.in)
			if err != nil {
				t.Fatal(err)
			}
			if a.String() != c.canonical || a.HostPort() != c.hostPort || a.Endpoint() != c.endpoint {
				t.Errorf("got %s %s %s, want %s %s %s", a, a.HostPort(), a.Endpoint(), c.canonical, c.hostPort, c.endpoint)
			}
			again, err := bmc.Parse(a.String())
			if err != nil || again != a {
				t.Errorf("Parse(%s) = %+v, %v, want %+v", a, again, err, a)
			}
		})
	}
}

func TestParseRefuses(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"", "it is empty"},
		{"   ", "it is empty"},
		{"redfish://", "it has no host"},
		{"redfish:///redfish/v1", "it has no host"},
		{"redfish:623", "neither an IP address nor a DNS name"},
		{"ipmi:623", "neither an IP address nor a DNS name"},
		{"foo://192.0.2.1", `unknown scheme "foo"; want one of ibmc, idrac`},
		{"http://192.0.2.1", `unknown scheme "http"`},
		{"redfish+ftp://192.0.2.1", `unknown transport "ftp"`},
		{"ipmi+http://192.0.2.1", `unknown transport "http"`},
		{"redfish://192.0.2.1:0", "port is not between"},
		{"redfish://192.0.2.1:65536", "port is not between"},
		{"redfish://192.0.2.1:x", "malformed host or port"},
		{"redfish://192.0.2.1:", "no port behind the colon"},
		{"redfish://2001:db8::1", "brackets"},
		{"redfish://[192.0.2]", "malformed host"},
		{"redfish://[::1", "malformed host or port"},
		{"redfish://300.1.1.1", "neither an IP"},
		{"redfish://-a", "neither an IP"},
		{"redfish://a..b", "neither an IP"},
		{"redfish://192.0.2.1/a/../b", ". or .."},
		{"redfish://192.0.2.1/a//b", "empty part"},
		{"redfish://192.0.2.1/%zz", "bad %-escape"},
		{"redfish://192.0.2.1/a?b=c", "has no ?query"},
		{"redfish://192.0.2.1/a#b", "#fragment"},
		{"ipmi://192.0.2.1?level=x", "privilegelevel=LEVEL"},
		{"ipmi://192.0.2.1?privilegelevel=root", "none of ADMINISTRATOR"},
		{"ipmi://192.0.2.1/path", "has no path"},
		{"redfish://192.0.2.1 /x", "blanks"},
		{"redfish://192.0.2.1\n", ""}, // blanks at either end are cut off
		{"redfish://admin:hunter2@192.0.2.1/", "do not belong here"},
		{"admin:hunter2@192.0.2.1", "do not belong here"},
		{"ipmi://a?password=hunter2", "privilegelevel=LEVEL"},
		{"redfish://" + strings.Repeat("a", 2000), "more than 1024 bytes"},
	} {
		t.Run(c.in, func(t *testing.T) {
			_, err := bmc.Parse(c.in)
			if c.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("Parse = %v, want %q", err, c.want)
			}
			if !errors.Is(err, errors.NotValid) && !errors.Is(err, errors.NotSupported) {
				t.Errorf("the error has no kind: %v", err)
			}
			if strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), "\n") || len(err.Error()) > 500 {
				t.Errorf("not one clear line: %v", err)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"192.0.2.1", "redfish+http://[::1]:80/a%2fb", "ipmi:h:1?privilegelevel=user", "idrac://u:p@h", "a:b:c", "x://%", "[::1%25]:5"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, in string) {
		a, err := bmc.Parse(in)
		if err != nil {
			if strings.ContainsAny(err.Error(), "\n\r\x00") || len(err.Error()) > 700 {
				t.Fatalf("not one clear line: %q", err)
			}
			return
		}
		again, err := bmc.Parse(a.String())
		if err != nil || again != a {
			t.Fatalf("%q gives %q, which gives %+v, %v; want %+v", in, a, again, err, a)
		}
		a.DriverInfo(bmc.Credentials{}, true)
	})
}

func TestKeyIsOneForAllSpellings(t *testing.T) {
	a, _ := bmc.Parse("redfish://BMC:443/redfish/v1/Systems/1/")
	b, _ := bmc.Parse("redfish-virtualmedia+https://bmc/redfish/v1/Systems/1")
	c, _ := bmc.Parse("redfish://bmc/redfish/v1/Systems/2")
	if a.Key() != b.Key() || a.Key() == c.Key() {
		t.Errorf("keys %q, %q, %q", a.Key(), b.Key(), c.Key())
	}
}

func TestDriverInfo(t *testing.T) {
	for in, want := range map[string]map[string]any{
		"192.0.2.1":                                  {"ipmi_address": "192.0.2.1", "ipmi_port": 623, "ipmi_username": "u", "ipmi_password": "p"},
		"ipmi://a:1?privilegelevel=USER":             {"ipmi_address": "a", "ipmi_port": 1, "ipmi_username": "u", "ipmi_password": "p", "ipmi_priv_level": "USER"},
		"redfish+http://a:8000/redfish/v1/Systems/1": {"redfish_address": "http://a:8000", "redfish_system_id": "/redfish/v1/Systems/1", "redfish_username": "u", "redfish_password": "p", "redfish_verify_ca": false},
		"redfish://a/redfish/v1/":                    {"redfish_address": "https://a", "redfish_username": "u", "redfish_password": "p", "redfish_verify_ca": false},
		"idrac://a:5":                                {"drac_address": "a", "drac_port": 5, "drac_protocol": "https", "drac_path": "/wsman", "drac_username": "u", "drac_password": "p", "drac_verify_ca": false},
		"idrac-virtualmedia://a/x":                   {"redfish_address": "https://a", "redfish_system_id": "/x", "redfish_username": "u", "redfish_password": "p", "redfish_verify_ca": false},
		"ilo4://a":                                   {"ilo_address": "a", "ilo_username": "u", "ilo_password": "p", "ilo_verify_ca": false},
		"ilo5://a:4":                                 {"ilo_address": "a", "client_port": 4, "ilo_username": "u", "ilo_password": "p", "ilo_verify_ca": false},
		"irmc://a:4":                                 {"irmc_address": "a", "irmc_port": 4, "irmc_username": "u", "irmc_password": "p", "irmc_verify_ca": false},
		"ibmc://a/x":                                 {"ibmc_address": "https://a/x", "ibmc_username": "u", "ibmc_password": "p", "ibmc_verify_ca": false},
		"simulated://a":                              {},
	} {
		t.Run(in, func(t *testing.T) {
			a, err := bmc.Parse(in)
			if err != nil {
				t.Fatal(err)
			}
			if got := a.DriverInfo(bmc.Credentials{Username: "u", Password: "p"}, true); !reflect.DeepEqual(got, want) {
				t.Errorf("DriverInfo = %v, want %v", got, want)
			}
		})
	}
}

func TestDriversTable(t *testing.T) {
	last := ""
	for _, d := range bmc.Drivers() {
		if d.Scheme <= last || d.Family == "" || d.Boot == "" || d.Name == "" {
			t.Errorf("bad or unsorted row %+v", d)
		}
		last = d.Scheme
		if _, err := bmc.Parse(d.Scheme + "://h"); err != nil {
			t.Error(err)
		}
	}
}

func TestCredentialsNeverPrint(t *testing.T) {
	c := bmc.Credentials{Username: "admin", Password: "hunter2"}
	j, _ := json.Marshal(struct{ C bmc.Credentials }{c})
	y, _ := yaml.Marshal(struct{ C bmc.Credentials }{c})
	for _, text := range []string{
		fmt.Sprint(c), fmt.Sprintf("%v %+v %#v %s %q %d %x", c, c, c, c, c, c, c), fmt.Sprintf("%+v %#v", &c, []bmc.Credentials{c}),
		string(j), string(y), c.String(),
	} {
		if strings.Contains(text, "hunter2") || strings.Contains(text, "admin") || !strings.Contains(text, "[redacted]") {
			t.Errorf("credentials print as %s", text)
		}
	}
}

func TestCredentialsValidate(t *testing.T) {
	for _, c := range []struct{ user, password, want string }{
		{"u", "p", ""}, {"", "p", "without username"}, {"u", "", "without password"}, {"", "", "without username and password"},
	} {
		err := bmc.Credentials{Username: c.user, Password: c.password}.Validate()
		if c.want == "" && err != nil || c.want != "" && (!errors.Is(err, errors.NotValid) || !strings.HasSuffix(err.Error(), c.want)) {
			t.Errorf("Validate(%q, %q) = %v, want %q", c.user, c.password, err, c.want)
		}
	}
	if c := (bmc.Credentials{Username: " u\n", Password: "p\n"}).Trimmed(); c.Username != "u" || c.Password != "p" {
		t.Error("Trimmed left blanks")
	}
}

func TestParseFingerprint(t *testing.T) {
	want := strings.Repeat("ab", 32)
	for text, want := range map[string]string{
		want: want, strings.ToUpper(want): want, strings.TrimSuffix(strings.Repeat("AB:", 32), ":"): want,
		"": "", "zz": "", want[2:]: "", want + "ab": "",
	} {
		got, err := bmc.ParseFingerprint(text)
		if got != want || (err == nil) != (want != "") || err != nil && !errors.Is(err, errors.NotValid) {
			t.Errorf("ParseFingerprint(%q) = %q, %v, want %q", text, got, err, want)
		}
	}
}
