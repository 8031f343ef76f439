//go:build e2e

package ha_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/slipway-project/slipway/api"
	"github.com/slipway-project/slipway/api/clientstore"
	"github.com/slipway-project/slipway/api/modelmanager"
	"github.com/slipway-project/slipway/internal/e2e/harness"
	"github.com/slipway-project/slipway/internal/testport"
)

// cluster is a site of two controllers.
type cluster struct {
	t     *testing.T
	dir   string
	env   []string // for the operator's commands
	info  api.Info // of the first user, to the site
	procs [2]*harness.Process
	addrs [2]string
}

// newCluster starts a store and two controllers.
func newCluster(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{t: t, dir: t.TempDir()}
	c.addrs = [2]string(testport.Free(t, 2))
	pass, first, second, file := c.path("pass"), c.path("first"), c.path("second"), c.path("join")
	if err := os.WriteFile(pass, []byte("correct horse battery staple\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	url := "mongodb://" + launch(t, "mongodouble", "--listen", "127.0.0.1:0").Ready(0) + "/slipway?replicaSet=rs0"
	command(t, nil, "controllerd", "bootstrap", "--data-dir", first, "--listen", c.addrs[0], "--store", url)
	command(t, nil, "controllerd", "export-join", "--data-dir", first, "--out", file, "--passphrase-file", pass)
	command(t, nil, "controllerd", "join", "--data-dir", second, "--store", url, "--join-file", file, "--passphrase-file", pass, "--listen", c.addrs[1])
	for i, dir := range []string{first, second} {
		c.procs[i] = launch(t, "controllerd", "run", "--data-dir", dir)
		c.procs[i].Ready(0)
	}
	c.env = []string{"SLIPWAY_DATA=" + filepath.Join(first, "client")}
	all, err := clientstore.New(filepath.Join(first, "client")).Read()
	if err != nil {
		t.Fatal(err)
	}
	c.info = api.Info{Addrs: c.addrs[:], CACert: all.Controllers[all.Current].CACert,
		Tag: "user-admin", Password: all.Accounts[all.Current].Password}
	return c
}

func (c *cluster) path(name string) string { return filepath.Join(c.dir, name) }

// infoOf returns how the first user reaches a model, trying one controller first.
func (c *cluster) infoOf(model string, first int) api.Info {
	info := c.info
	info.ModelUUID = model
	info.Addrs = []string{c.addrs[first], c.addrs[1-first]}
	return info
}

// addModel adds a model whose machines nobody starts, and returns its UUID.
func (c *cluster) addModel(name string) string {
	c.t.Helper()
	conn, err := api.Open(c.t.Context(), c.info, api.DialOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	defer conn.Close()
	m, err := modelmanager.New(conn).Create(c.t.Context(), name, "user-admin", map[string]any{"type": "simulated", "rack-url": "http://127.0.0.1:9", "rack-token": "none"})
	if err != nil {
		c.t.Fatal(err)
	}
	return m.UUID
}

// published returns what one controller says about where there are controllers.
func (c *cluster) published(through int) []string {
	ctx, cancel := context.WithTimeout(c.t.Context(), harness.Patience)
	defer cancel()
	info := c.info
	info.Addrs = c.addrs[through : through+1]
	conn, err := api.Open(ctx, info, api.DialOptions{})
	if err != nil {
		return nil
	}
	defer conn.Close()
	return conn.Addrs()
}
