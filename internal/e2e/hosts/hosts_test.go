//go:build e2e

package hosts_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/slipway-project/slipway/environs/baremetal/fakebmc"
	metal3v1alpha1 "github.com/slipway-project/slipway/environs/baremetal/metal3/v1alpha1"
	"github.com/slipway-project/slipway/params"
)

const (
	many = 200 // hosts with a fate
	// Hosts of their own kind: with a profile that there is none of, with the image of
	// somebody else, and with one of their own from the beginning.
	odd, outside, imaged = many, many + 1, many + 2
	extra                = 3
)

// content is that of the image.
var content = strings.Repeat("an image, or what passes for one\n", 2000)

// TestARackEndsWhereItsSeedSays registers, inspects, installs, wipes and removes 200 hosts,
// one in twenty of which has a fault, and kills the worker that cares for them while hosts
// are in every state.
func TestARackEndsWhereItsSeedSays(t *testing.T) {
	rounds := 1
	if os.Getenv("SOAK") != "" {
		rounds = 3 // so many kills in each state
	}
	for round := range rounds {
		seed := uint64(time.Now().UnixNano())
		if text := os.Getenv("SEED"); text != "" {
			var err error
			if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
				t.Fatal(err)
			}
		}
		t.Run(fmt.Sprint("round ", round+1), func(t *testing.T) { live(t, seed+uint64(round)) })
	}
}

// run is one run of the test.
type run struct {
	*rack
	fates    []fate
	resting  map[string]want      // of hosts that get no machine
	machines map[string]machine   // by host
	asked    map[string]time.Time // when a host was asked to try again
	begin    time.Time
}

// machine is one that is on a host.
type machine struct{ model, id string }

// live is one round.
func live(t *testing.T, seed uint64) {
	t.Logf("SEED=%d", seed)
	fates, o := draw(seed)
	for n, f := range fates {
		if f.kind != "" {
			t.Logf("%s: %s", hostName(n), f.kind)
		}
	}
	r := &run{rack: newRack(t, seed, o), fates: fates, resting: map[string]want{}, machines: map[string]machine{}, asked: map[string]time.Time{}, begin: time.Now()}
	r.arrive()
	r.install()
	r.wipe()
	r.leave()
	for _, s := range states() {
		if r.kills[s] == 0 {
			t.Errorf("the worker was never killed while a host was %q", s)
		}
	}
	r.tell("all hosts are gone; kills: %v", r.kills)
}

// states are those that a host can be in. There is one more, unmanaged, for hosts without
// a BMC, which a controller does not take.
func states() []metal3v1alpha1.ProvisioningState {
	return []metal3v1alpha1.ProvisioningState{
		metal3v1alpha1.StateNone, metal3v1alpha1.StateRegistering, metal3v1alpha1.StateInspecting, metal3v1alpha1.StateMatchProfile, metal3v1alpha1.StateReady,
		metal3v1alpha1.StateProvisioning, metal3v1alpha1.StateProvisioned, metal3v1alpha1.StateExternallyProvisioned, metal3v1alpha1.StateDeprovisioning, metal3v1alpha1.StateDeleting,
	}
}

// tell logs how far the run is.
func (r *run) tell(format string, args ...any) {
	r.Helper()
	r.Logf("%v: %s", time.Since(r.begin).Round(time.Second), fmt.Sprintf(format, args...))
}

// document describes a host for import-hosts.
func (r *run) document(n int) string {
	scheme, pin, secret, more := "redfish-virtualmedia", r.pin, "right", ""
	if byHTTP(n) {
		scheme = "redfish-uefihttp"
	}
	switch {
	case n == odd:
		more = "  hardwareProfile: nonsense\n"
	case n == outside:
		more = "  externallyProvisioned: true\n"
	case n == imaged:
		more = fmt.Sprintf("  image: {url: %q, checksum: %x, checksumType: sha256}\n", r.image, sha256.Sum256([]byte(content)))
	case r.fates[n].kind == "password":
		secret = "wrong"
	case r.fates[n].kind == "certificate":
		pin = otherPin
	}
	return fmt.Sprintf("---\napiVersion: metal3.io/v1alpha1\nkind: BareMetalHost\nmetadata: {name: %s}\nspec:\n  online: true\n  bootMACAddress: \"52:54:00:00:00:%02x\"\n"+
		"  bmc: {address: \"%s://%s:%s\", credentialsName: %s, certificateFingerprint: %s}\n%s", hostName(n), n, scheme, fakebmc.AddressOf(n), r.port, secret, pin, more)
}

// imported imports hosts with the operator's command.
func (r *run) imported(numbers ...int) {
	r.Helper()
	var b strings.Builder
	for _, n := range numbers {
		b.WriteString(r.document(n))
	}
	for name, password := range map[string]string{"right": "calvin", "wrong": "hobbes"} {
		fmt.Fprintf(&b, "---\napiVersion: v1\nkind: Secret\nmetadata: {name: %s}\nstringData: {username: admin, password: %s}\n", name, password)
	}
	r.write("hosts.yaml", b.String())
	if out := r.run("slipway", "import-hosts", r.path("hosts.yaml")); !strings.Contains(out, fmt.Sprintf("added %d of %d hosts", len(numbers), len(numbers))) {
		r.Fatalf("import-hosts says %s", out)
	}
}

// settle waits until every host is where it is wanted. A host that is elsewhere because of a fault that
// passes, such as a busy machine's, is asked to try again at once.
func (r *run) settle(what string, wanted map[string]want) {
	r.Helper()
	seen := map[string]bool{}
	r.eventually(what, func(all map[string]view) (missing []string) {
		for name, w := range wanted {
			v, there := all[name]
			switch {
			case !there:
				r.Fatalf("%s is gone", name)
			case seen[name] && !w.well(), w.is(v): // an error need only be seen once
				seen[name] = true
				continue
			}
			missing = append(missing, name)
			s := v.record.Status
			if s.ErrorType != metal3v1alpha1.NoError || v.Progress.Faults > 1 {
				r.again(name)
			}
		}
		return missing
	})
	r.tell("%s: %v", what, histogram(r.list()))
}

// arrive imports the hosts and sees them to where they rest.
func (r *run) arrive() {
	r.Helper()
	if added, err := r.client.Add(r.Context(), params.AddHost{Name: "nobody", Spec: json.RawMessage(`{"online":true}`)}); err != nil || added[0].Err == nil {
		r.Errorf("a host without a BMC is added: %v", err)
	}
	for n, f := range r.fates {
		for _, fault := range f.faults {
			r.control(n, "POST", &fault)
		}
	}
	r.worker.Start()
	r.imported(outside)
	external := map[string]want{hostName(outside): in(metal3v1alpha1.StateExternallyProvisioned)}
	r.settle("a host with somebody else's image is taken over", external)
	r.worker.Signal(syscall.SIGSTOP) // so that nobody looks at the others
	numbers := []int{odd, imaged}
	wanted := map[string]want{
		hostName(odd):    fails(metal3v1alpha1.InspectionError, `there is no hardware profile "nonsense"`, metal3v1alpha1.StateMatchProfile),
		hostName(imaged): in(metal3v1alpha1.StateProvisioned),
	}
	for n, f := range r.fates {
		numbers = append(numbers, n)
		wanted[hostName(n)] = f.rest
	}
	r.imported(numbers...)
	r.killIn(metal3v1alpha1.StateNone, many, nil)
	r.killIn(metal3v1alpha1.StateRegistering, 20, r.comeAgain)
	r.killIn(metal3v1alpha1.StateInspecting, 20, r.inspectAgain)
	maps.Copy(wanted, external)
	r.resting = maps.Clone(wanted)
	r.settle("all hosts are where they rest", wanted)
	r.killIn(metal3v1alpha1.StateMatchProfile, 1, nil)
	r.killIn(metal3v1alpha1.StateExternallyProvisioned, 1, nil)
	r.killIn(metal3v1alpha1.StateReady, many-faulty, nil)
	r.settle("nothing has come of that", wanted)
}

// recently reports whether a host was asked to try again lately, and notes that it is now.
func (r *run) recently(name string) bool {
	if time.Since(r.asked[name]) < 10*time.Second {
		return true
	}
	r.asked[name] = time.Now()
	return false
}
