package metal3v1alpha1_test

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/juju/errors"

	metal3v1alpha1 "github.com/slipway-project/slipway/environs/baremetal/metal3/v1alpha1"
)

const twoDocuments = `# rack 3
---
apiVersion: v1
kind: Secret
metadata:
  name: node-0-bmc
  namespace: site
data:
  username: YWRtaW4=
  password: cGFzc3cwcmQ=
---
apiVersion: metal3.io/v1alpha1
kind: BareMetalHost
metadata:
  name: node-0
  namespace: site
  labels: {zone: z1}
spec:
  online: true
  bootMACAddress: 52:54:00:00:00:01
  bmc:
    address: redfish+http://192.0.2.1:8000/redfish/v1/Systems/1
    credentialsName: node-0-bmc
    extra: 1
  rootDeviceHints: {minSizeGigabytes: 100, rotational: false}
  raid: {}
  image: {url: "http://h/i.raw", checksum: abc, checksumType: sha256, format: raw}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: x}
`

func TestDecode(t *testing.T) {
	docs, err := metal3v1alpha1.Decode(strings.NewReader(twoDocuments))
	if err != nil {
		t.Fatal(err)
	}
	if len(docs.Hosts) != 1 || len(docs.Secrets) != 1 {
		t.Fatalf("got %d hosts, %d secrets, want 1, 1", len(docs.Hosts), len(docs.Secrets))
	}
	h := docs.Hosts[0]
	if h.Metadata.Labels["zone"] != "z1" || !h.Spec.Online || h.Spec.RootDeviceHints.MinSizeGigabytes != 100 ||
		*h.Spec.RootDeviceHints.Rotational || *h.Spec.Image.DiskFormat != "raw" {
		t.Errorf("host is %+v", h)
	}
	s, ok := docs.SecretFor("site", "node-0-bmc")
	if p, _ := s.Value("password"); !ok || p != "passw0rd" {
		t.Errorf("password = %q, %v", p, ok)
	}
	if text := fmt.Sprintf("%v %+v %#v", s, s, docs.Secrets); strings.Contains(text, "passw0rd") {
		t.Errorf("a secret prints itself: %s", text)
	}
	slices.Sort(docs.Warnings)
	want := []string{
		`line 13: BareMetalHost "node-0": field spec.bmc.extra is not supported and left out`,
		`line 13: BareMetalHost "node-0": field spec.raid is not supported and left out`,
		`line 31: a ConfigMap is left out`,
	}
	for i := range docs.Warnings { // the line is where the document's first key stands
		_, docs.Warnings[i], _ = strings.Cut(docs.Warnings[i], ": ")
		_, want[i], _ = strings.Cut(want[i], ": ")
	}
	if !slices.Equal(docs.Warnings, want) {
		t.Errorf("warnings %q, want %q", docs.Warnings, want)
	}
}

func TestEncodeReadsBack(t *testing.T) {
	docs, err := metal3v1alpha1.Decode(strings.NewReader(twoDocuments))
	if err != nil {
		t.Fatal(err)
	}
	docs.Warnings = nil
	var b bytes.Buffer
	if err := metal3v1alpha1.Encode(&b, docs); err != nil {
		t.Fatal(err)
	}
	again, err := metal3v1alpha1.Decode(&b)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(again, docs) {
		t.Errorf("read back %+v, want %+v", again, docs)
	}
}

func TestDecodeRefuses(t *testing.T) {
	host := "apiVersion: metal3.io/v1alpha1\nkind: BareMetalHost\n"
	for name, c := range map[string]struct{ in, want string }{
		"not yaml":        {"a: [", "document 1 is not YAML"},
		"a list":          {"[1, 2]", "want a document with apiVersion and kind"},
		"no kind":         {"a: 1", "document without kind"},
		"no name":         {host, "BareMetalHost without metadata.name"},
		"wrong version":   {"apiVersion: metal3.io/v9\nkind: BareMetalHost\nmetadata: {name: a}", `apiVersion "metal3.io/v9", want`},
		"wrong type":      {host + "metadata: {name: a}\nspec: {online: [1]}", "spec.online is a array, want a bool"},
		"secret base64":   {"kind: Secret\nmetadata: {name: a}\ndata: {password: 'hunter2 !'}", "data.password is not base64"},
		"secret type":     {"kind: Secret\nmetadata: {name: a}\nstringData: {password: 5551212}", "is a number, want a string"},
		"secret no name":  {"kind: Secret", "Secret without metadata.name"},
		"billion laughs":  {"a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: &f [*e,*e,*e,*e,*e,*e,*e,*e,*e]\ng: [*f,*f,*f,*f,*f,*f,*f,*f,*f]\n", "excessive aliasing"},
		"number as a key": {"1: 2", "want a document"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := metal3v1alpha1.Decode(strings.NewReader(c.in))
			if err == nil || !strings.Contains(err.Error(), c.want) || !errors.Is(err, errors.NotValid) {
				t.Fatalf("Decode = %v, want NotValid with %q", err, c.want)
			}
			for _, secret := range []string{"hunter2", "5551212"} {
				if strings.Contains(err.Error(), secret) {
					t.Errorf("error tells a secret: %v", err)
				}
			}
		})
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(twoDocuments))
	f.Add([]byte("kind: List\nitems: [{kind: Secret, metadata: {name: a}}]"))
	f.Fuzz(func(t *testing.T, in []byte) {
		docs, err := metal3v1alpha1.Decode(bytes.NewReader(in))
		if err == nil {
			var b bytes.Buffer
			if err := metal3v1alpha1.Encode(&b, docs); err != nil {
				t.Fatalf("cannot write what was read: %v", err)
			}
		}
	})
}

func TestHintsMatch(t *testing.T) {
	yes, no := true, false
	disk := metal3v1alpha1.Storage{Name: "/dev/sda", Rotational: true, SizeBytes: 100 << 30, Vendor: "Acme", Model: "Spinner 3000",
		SerialNumber: "S1", WWN: "w", WWNVendorExtension: "e", WWNWithExtension: "we", HCTL: "0:0:0:0"}
	for name, c := range map[string]struct {
		hints *metal3v1alpha1.RootDeviceHints
		want  bool
	}{
		"nil":            {nil, true},
		"zero":           {&metal3v1alpha1.RootDeviceHints{}, true},
		"all":            {&metal3v1alpha1.RootDeviceHints{"/dev/sda", "0:0:0:0", "spinner", "acm", "S1", 100, "w", "we", "e", &yes}, true},
		"name":           {&metal3v1alpha1.RootDeviceHints{DeviceName: "/dev/sdb"}, false},
		"part of serial": {&metal3v1alpha1.RootDeviceHints{SerialNumber: "S"}, false},
		"too small":      {&metal3v1alpha1.RootDeviceHints{MinSizeGigabytes: 101}, false},
		"not rotational": {&metal3v1alpha1.RootDeviceHints{Rotational: &no}, false},
		"one of two":     {&metal3v1alpha1.RootDeviceHints{Model: "3000", Vendor: "other"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := c.hints.Match(disk); got != c.want {
				t.Errorf("Match = %v, want %v", got, c.want)
			}
		})
	}
}

func TestHintsChooseTheSmallestThatFits(t *testing.T) {
	disks := []metal3v1alpha1.Storage{
		{Name: "/dev/sdc", SizeBytes: 200}, {Name: "/dev/sdb", SizeBytes: 100},
		{Name: "/dev/sda", SizeBytes: 100}, {Name: "/dev/sdd", SizeBytes: 10},
	}
	var hints metal3v1alpha1.RootDeviceHints
	if d, ok := hints.Choose(disks, 50); !ok || d.Name != "/dev/sda" {
		t.Errorf("Choose = %v, %v, want /dev/sda", d, ok)
	}
	if d, ok := hints.Choose(disks, 500); ok {
		t.Errorf("Choose of 500 bytes = %v, want none", d)
	}
}

func TestIronicHints(t *testing.T) {
	no := false
	got := (&metal3v1alpha1.RootDeviceHints{"/dev/sda", "h", "m", "v", "s", 5, "w", "we", "e", &no}).IronicHints()
	want := map[string]string{"name": "s== /dev/sda", "hctl": "s== h", "model": "<in> m", "vendor": "<in> v", "serial": "s== s",
		"size": ">= 5", "wwn": "s== w", "wwn_with_extension": "s== we", "wwn_vendor_extension": "s== e", "rotational": "false"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("IronicHints = %v, want %v", got, want)
	}
	var none *metal3v1alpha1.RootDeviceHints
	if got := none.IronicHints(); len(got) != 0 {
		t.Errorf("nil hints gave %v", got)
	}
}

func TestEffectiveHints(t *testing.T) {
	h := new(metal3v1alpha1.BareMetalHost)
	if got := h.EffectiveHints().DeviceName; got != "/dev/sda" {
		t.Errorf("without profile: %q", got)
	}
	h.Status.HardwareProfile = "libvirt"
	if got := h.EffectiveHints().DeviceName; got != "/dev/vda" {
		t.Errorf("libvirt: %q", got)
	}
	h.Spec.RootDeviceHints = &metal3v1alpha1.RootDeviceHints{Model: "m"}
	if got := h.EffectiveHints(); got.DeviceName != "" || got.Model != "m" {
		t.Errorf("explicit hints were mixed with the profile's: %+v", got)
	}
}

func TestNeedsProvisioning(t *testing.T) {
	image := &metal3v1alpha1.Image{URL: "u"}
	for name, c := range map[string]struct {
		online         bool
		image          *metal3v1alpha1.Image
		have           string
		needs, changed bool
	}{
		"no image":      {true, nil, "", false, true},
		"empty url":     {true, &metal3v1alpha1.Image{}, "", false, true},
		"offline":       {false, image, "", false, false},
		"new":           {true, image, "", true, false},
		"already there": {true, image, "u", false, false},
		"another":       {true, image, "v", false, true},
		"taken away":    {true, nil, "u", false, true},
	} {
		t.Run(name, func(t *testing.T) {
			h := new(metal3v1alpha1.BareMetalHost)
			h.Spec.Online, h.Spec.Image, h.Status.Provisioning.Image.URL = c.online, c.image, c.have
			if got := h.NeedsProvisioning(); got != c.needs {
				t.Errorf("NeedsProvisioning = %v, want %v", got, c.needs)
			}
			if got := h.ImageChanged(); got != c.changed {
				t.Errorf("ImageChanged = %v, want %v", got, c.changed)
			}
		})
	}
}

func TestRebootAnnotations(t *testing.T) {
	h := new(metal3v1alpha1.BareMetalHost)
	if _, ok := h.RebootRequested(); ok || h.Paused() || h.ClearReboot(true) {
		t.Error("a host without annotations has some")
	}
	h.Metadata.Annotations = map[string]string{
		"reboot.metal3.io": "", "reboot.metal3.io/x": `{"mode":"hard"}`, "reboot.metal3.iox": "", "baremetalhost.metal3.io/paused": "",
	}
	if mode, ok := h.RebootRequested(); !ok || mode != metal3v1alpha1.RebootHard || !h.Paused() {
		t.Errorf("RebootRequested = %v, %v", mode, ok)
	}
	h.ClearReboot(false)
	if _, ok := h.RebootRequested(); !ok || len(h.Metadata.Annotations) != 3 {
		t.Error("the keyed annotation did not hold")
	}
	h.ClearReboot(true)
	if _, ok := h.RebootRequested(); ok || len(h.Metadata.Annotations) != 2 {
		t.Errorf("left: %v", h.Metadata.Annotations)
	}
}

func TestCopySharesNothing(t *testing.T) {
	a := &metal3v1alpha1.BareMetalHost{}
	a.Metadata.Annotations = map[string]string{"k": "v"}
	a.Spec.Image = &metal3v1alpha1.Image{URL: "u"}
	b := a.Copy()
	b.Metadata.Annotations["k"] = "w"
	b.Spec.Image.URL = "x"
	if a.Metadata.Annotations["k"] != "v" || a.Spec.Image.URL != "u" {
		t.Errorf("a change of the copy reached the original: %+v", a)
	}
}
