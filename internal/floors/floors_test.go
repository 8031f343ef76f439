package floors_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"testing"
)

const module = "github.com/slipway-project/slipway"

// floors says how high each package stands. A package may import only packages
// on floors below its own. A key that ends in "/*" covers every package
// below that folder that has no key of its own.
var floors = map[string]int{
	"core/*":                0,
	"internal/retry":        0,
	"internal/golden":       0,
	"internal/memnet":       0,
	"internal/testport":     0,
	"internal/testlog":      0,
	"internal/buildinfo":    0,
	"internal/notify":       0,
	"internal/floors":       0,
	"internal/doccheck":     9,
	"internal/atomicfile":   0,
	"internal/archive":      0,
	"internal/command":      1,
	"internal/patience":     0,
	"internal/printable":    0,
	"internal/secret":       0,
	"internal/hostkey":      1,
	"internal/history":      1,
	"internal/tlsfiles":     1,
	"store":                 1,
	"params":                1,
	"watcher":               1,
	"environs/config":       1,
	"store/sqlite":          2,
	"store/mongo":           2,
	"store/mongo/*":         1, // below the store itself
	"store/migrate":         2,
	"store/storetest":       2,
	"rpc":                   2,
	"worker":                2,
	"environs":              2,
	"environs/providertest": 3,
	"environs/userdata":     3,

	"environs/baremetal/bmc":             2,
	"environs/baremetal/metal3/v1alpha1": 2,
	"environs/baremetal/provisioner":     3,
	"environs/baremetal/provisionertest": 4,

	"provision/config": 2,
	"provision/health": 2,
	"provision/*":      3, // disk, image, efi and so on
	"provision":        4,

	"api":                  3,
	"api/*":                4,
	"state":                3,
	"state/host":           4, // the hosts of the site
	"state/install":        4, // what installers of hosts do
	"state/statetest":      5,
	"apiserver/common":     3, // capabilities, which know nothing of state
	"apiserver/below":      4, // what facades share of their way to state
	"apiserver/*":          5, // one folder per facade
	"apiserver":            6,
	"environs/simulated":   5,
	"environs/lxd":         5,
	"environs/lxd/rest":    3,
	"environs/lxd/lxdtest": 3,
	"environs/baremetal":   5,
	"environs/baremetal/*": 5, // back ends

	"environs/baremetal/fakeinstaller": 6, // what fake machines run
	"environs/all":                     6,
	"worker/lease":                     5, // below the workers that hold one
	"worker/instancepoller":            5, // below the provisioner, which runs it
	"worker/*":                         6,
	"worker/containers":                7, // on top of the provisioner
	"worker/hostkeeper":                7, // on top of the host manager
	"worker/simulatedhost":             7, // likewise

	"worker/hostmanager/hostmanagertest": 7, // for tests alone
	"cmd/*":                              9,
	"internal/e2e":                       9,
	"internal/e2e/*":                     9,
	"internal/bench":                     9, // runs a whole site
	"internal/audit":                     7,
	"internal/metrics":                   7,
	"internal/logfile":                   1,
	"internal/site":                      8, // what every controllerd command shares of a data directory
}

// peers are folders whose packages may import one another although they
// share a floor, so long as Go finds no cycle.
var peers = []string{"core/", "provision/", "store/mongo/", "internal/e2e"}

// listed is what go list -json says of one package, as far as it matters here.
type listed struct {
	ImportPath string
	Imports    []string
}

// floorOf returns the floor of the package at path, relative to the module.
func floorOf(path string) (int, bool) {
	if f, ok := floors[path]; ok {
		return f, true
	}
	for dir := path; ; {
		i := strings.LastIndex(dir, "/")
		if i < 0 {
			return 0, false
		}
		dir = dir[:i]
		if f, ok := floors[dir+"/*"]; ok {
			return f, true
		}
	}
}

// arePeers reports whether both packages are in one folder of peers.
func arePeers(a, b string) bool {
	for _, p := range peers {
		if strings.HasPrefix(a, p) && strings.HasPrefix(b, p) {
			return true
		}
	}
	return false
}

// faults returns a line for each package without a floor and each import that
// does not go down.
func faults(packages []listed) []string {
	var out []string
	for _, p := range packages {
		path := strings.TrimPrefix(p.ImportPath, module+"/")
		floor, ok := floorOf(path)
		if !ok {
			out = append(out, fmt.Sprintf("%s has no floor: add it to the table in internal/floors", path))
			continue
		}
		for _, imp := range p.Imports {
			below, ours := strings.CutPrefix(imp, module+"/")
			if !ours {
				continue
			}
			f, ok := floorOf(below)
			if ok && f < floor || arePeers(path, below) {
				continue
			}
			out = append(out, fmt.Sprintf("%s (floor %d) imports %s (floor %d)", path, floor, below, f))
		}
	}
	return out
}

func TestEveryPackageImportsOnlyLowerFloors(t *testing.T) {
	cmd := exec.Command("go", "list", "-json=ImportPath,Imports", module+"/...")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, &stderr)
	}
	var packages []listed
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := d.Decode(&p); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		packages = append(packages, p)
	}
	if len(packages) < 5 {
		t.Fatalf("go list found %d packages, want the whole module", len(packages))
	}
	for _, f := range faults(packages) {
		t.Error(f)
	}
}

func TestAnImportThatGoesUpIsNamed(t *testing.T) {
	got := faults([]listed{
		{ImportPath: module + "/apiserver/common", Imports: []string{"fmt", module + "/apiserver/provisioner", module + "/params"}},
		{ImportPath: module + "/nowhere"},
		{ImportPath: module + "/core/tag", Imports: []string{module + "/core/life"}},
	})
	want := []string{
		"apiserver/common (floor 3) imports apiserver/provisioner (floor 5)",
		"nowhere has no floor: add it to the table in internal/floors",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("faults = %q, want %q", got, want)
	}
}
