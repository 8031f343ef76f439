package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/slipway-project/slipway/api/apitest"
	"github.com/slipway-project/slipway/api/clientstore"
	"github.com/slipway-project/slipway/params"
	"github.com/slipway-project/slipway/state/statetest"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"slipway": main})
}

// storySite is the controller that a script talks to, from the side of the
// agents and workers.
type storySite interface {
	setStatus(id, status, message string) error
	remove(id string) error
	disconnect()
}

// siteKey is where a script's environment holds its site.
type siteKey struct{}

// TestScriptsWithAFakeController runs the stories in testdata/script, each
// against a fake controller of its own. Besides what testscript offers they use
//
//	agent ID STATUS [MESSAGE]   the machine's agent, or its provisioner, reports
//	removed ID                  the provisioner removes the machine for good
//	disconnect                  the controller drops all connections
//	package FILE PROGRAM        write an agent's package that has PROGRAM at its root
//	badca                       the store trusts another CA
//
// and the conditions [fake] and [real].
func TestScriptsWithAFakeController(t *testing.T) {
	runScripts(t, "fake", func(env *testscript.Env) (storySite, clientstore.Site) {
		server := apitest.NewServer(t, apitest.Options{})
		return newFakeSite(server), storeSite(server.Addr, server.CACert, apitest.Password,
			apitest.ControllerUUID, map[string]string{"default": apitest.ModelUUID})
	})
}

// TestScriptsWithTheRealController runs the same stories against the real API
// server over real state.
func TestScriptsWithTheRealController(t *testing.T) {
	runScripts(t, "real", func(env *testscript.Env) (storySite, clientstore.Site) {
		s := newRealSite(t)
		return s, storeSite(s.addr, s.files.AuthorityPEM(), statetest.AdminPassword,
			s.ControllerUUID(), map[string]string{"default": s.Default.ModelUUID()})
	})
}

// storeSite is what a controller lays down for its operator.
func storeSite(addr, ca string, password params.Secret, uuid string, models map[string]string) clientstore.Site {
	return clientstore.Site{
		Name:       "slipway",
		Controller: clientstore.Controller{UUID: uuid, APIEndpoints: []string{addr}, CACert: ca, Cloud: "simulated"},
		Account:    clientstore.Account{User: "admin", Password: password},
		Model:      "default", Models: models,
	}
}

func runScripts(t *testing.T, kind string, open func(*testscript.Env) (storySite, clientstore.Site)) {
	other := apitest.NewServer(t, apitest.Options{})
	siteOf := func(ts *testscript.TestScript) storySite { return ts.Value(siteKey{}).(storySite) }
	testscript.Run(t, testscript.Params{
		Dir: filepath.Join("testdata", "script"),
		Setup: func(env *testscript.Env) error {
			site, known := open(env)
			env.Values[siteKey{}] = site
			env.Setenv("SLIPWAY_DATA", filepath.Join(env.WorkDir, "store"))
			env.Setenv("MODEL_UUID", known.Models["default"])
			env.Setenv("CONTROLLER_UUID", known.Controller.UUID)
			env.Setenv("PASSWORD", string(known.Account.Password))
			env.Setenv("GORACE", "atexit_sleep_ms=0") // a race detector that does not linger
			return clientstore.New(filepath.Join(env.WorkDir, "store")).Set(t.Context(), known)
		},
		Condition: func(cond string) (bool, error) { return cond == kind, nil },
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"agent": func(ts *testscript.TestScript, _ bool, args []string) {
				message := ""
				if len(args) > 2 {
					message = args[2]
				}
				ts.Check(siteOf(ts).setStatus(args[0], args[1], message))
			},
			"removed": func(ts *testscript.TestScript, _ bool, args []string) { ts.Check(siteOf(ts).remove(args[0])) },
			"package": func(ts *testscript.TestScript, _ bool, args []string) {
				ts.Check(os.WriteFile(ts.MkAbs(args[0]), agentPackage(args[1]), 0o600))
			},
			"disconnect": func(ts *testscript.TestScript, _ bool, _ []string) { siteOf(ts).disconnect() },
			"badca": func(ts *testscript.TestScript, _ bool, _ []string) {
				ts.Check(clientstore.New(ts.Getenv("SLIPWAY_DATA")).Update(t.Context(), func(c *clientstore.Contents) error {
					known := c.Controllers["slipway"]
					known.CACert = other.CACert
					c.Controllers["slipway"] = known
					return nil
				}))
			},
		},
	})
}

// agentPackage returns a package as machines unpack it, with a program of a name.
func agentPackage(program string) []byte {
	var out bytes.Buffer
	zipped := gzip.NewWriter(&out)
	archive := tar.NewWriter(zipped)
	for _, name := range []string{"./LICENSE", program} {
		_ = archive.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: 5, Typeflag: tar.TypeReg}) // to memory
		_, _ = archive.Write([]byte("agent"))
	}
	_, _ = archive.Close(), zipped.Close()
	return out.Bytes()
}
