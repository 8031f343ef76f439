package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/slipway-project/slipway/api/apitest"
	"github.com/slipway-project/slipway/api/clientstore"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"slipway": main})
}

// siteKey is where a script's environment holds its site.
type siteKey struct{}

// TestScripts runs the stories in testdata/script, each against a site of its
// own. Besides what testscript offers they use
//
//	agent ID STATUS [MESSAGE]   the machine's agent reports
//	removed ID                  the worker removes the machine for good
//	disconnect                  the controller drops all connections
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: filepath.Join("testdata", "script"),
		Setup: func(env *testscript.Env) error {
			server := apitest.NewServer(t, apitest.Options{})
			env.Values[siteKey{}] = newFakeSite(server)
			env.Setenv("SLIPWAY_DATA", filepath.Join(env.WorkDir, "store"))
			env.Setenv("GORACE", "atexit_sleep_ms=0") // a race detector that does not linger
			other := apitest.NewServer(t, apitest.Options{})
			if err := os.WriteFile(filepath.Join(env.WorkDir, "other-ca.pem"), []byte(other.CACert), 0o600); err != nil {
				return err
			}
			return clientstore.New(filepath.Join(env.WorkDir, "store")).Set(t.Context(), clientstore.Site{
				Name: "slipway",
				Controller: clientstore.Controller{UUID: apitest.ControllerUUID, APIEndpoints: []string{server.Addr},
					CACert: server.CACert, Cloud: "simulated"},
				Account: clientstore.Account{User: "admin", Password: apitest.Password},
				Model:   "default", Models: map[string]string{"default": apitest.ModelUUID},
			})
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"agent": func(ts *testscript.TestScript, _ bool, args []string) {
				message := ""
				if len(args) > 2 {
					message = args[2]
				}
				ts.Check(ts.Value(siteKey{}).(*fakeSite).setStatus(args[0], args[1], message))
			},
			"removed": func(ts *testscript.TestScript, _ bool, args []string) {
				ts.Value(siteKey{}).(*fakeSite).remove(args[0])
			},
			"disconnect": func(ts *testscript.TestScript, _ bool, _ []string) {
				ts.Value(siteKey{}).(*fakeSite).server.Disconnect()
			},
			"badca": func(ts *testscript.TestScript, _ bool, _ []string) {
				store := clientstore.New(ts.Getenv("SLIPWAY_DATA"))
				ts.Check(store.Update(t.Context(), func(c *clientstore.Contents) error {
					known := c.Controllers["slipway"]
					known.CACert = ts.ReadFile("other-ca.pem")
					c.Controllers["slipway"] = known
					return nil
				}))
			},
		},
	})
}
