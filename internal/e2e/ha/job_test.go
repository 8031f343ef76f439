//go:build e2e

package ha_test

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/slipway-project/slipway/api"
	"github.com/slipway-project/slipway/api/client"
	"github.com/slipway-project/slipway/api/modelmanager"
	"github.com/slipway-project/slipway/internal/e2e/harness"
)

// defaultModel returns the UUID of model default.
func (c *cluster) defaultModel() string {
	c.t.Helper()
	conn, err := api.Open(c.t.Context(), c.info, api.DialOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	defer conn.Close()
	models, err := modelmanager.New(conn).List(c.t.Context(), "user-admin")
	if err != nil {
		c.t.Fatal(err)
	}
	for _, m := range models {
		if m.Model.Name == "default" {
			return m.Model.UUID
		}
	}
	c.t.Fatal("there is no model default")
	return ""
}

// states returns how many machines of a model are in each state, and how many
// instances they have, as one controller sees it.
func (c *cluster) states(model string, through int) (states map[string]int, instances int, err error) {
	ctx, cancel := context.WithTimeout(c.t.Context(), harness.Patience)
	defer cancel()
	info := c.infoOf(model, through)
	info.Addrs = info.Addrs[:1]
	conn, err := api.Open(ctx, info, api.DialOptions{})
	if err != nil {
		return nil, 0, err
	}
	defer conn.Close()
	status, err := client.New(conn).FullStatus(ctx)
	if err != nil {
		return nil, 0, err
	}
	states = map[string]int{}
	ids := map[string]bool{}
	for _, m := range status.Machines {
		states[string(m.AgentStatus.Status)]++
		if m.InstanceID != "" {
			ids[string(m.InstanceID)] = true
		}
	}
	return states, len(ids), nil
}

// started waits until a controller sees so many machines started, each with an
// instance of its own, and no others.
func (c *cluster) started(model string, through, want int) {
	c.t.Helper()
	var states map[string]int
	var instances int
	var err error
	defer func() {
		if c.t.Failed() {
			c.t.Logf("controller %d sees %v, %d instances, %v", through, states, instances, err)
		}
	}()
	harness.Eventually(c.t, "every machine is started", func() bool {
		states, instances, err = c.states(model, through)
		return err == nil && states["started"] == want && len(states) == 1 && instances == want
	})
}

func TestTheMainJobGoesOnWithoutAController(t *testing.T) {
	c := newCluster(t)
	model := c.defaultModel()
	rack := "http://" + launch(t, "provisionerd", "simrack", "--listen", "127.0.0.1:0", "--data-dir", c.path("rack")).Ready(0)
	token, err := os.ReadFile(c.path("rack/rack.token"))
	if err != nil {
		t.Fatal(err)
	}
	command(t, c.env, "slipway", "model-config", "rack-url="+rack, "rack-token="+strings.TrimSpace(string(token)))
	launch(t, "provisionerd", "model", "--agent-file", c.path("first/agents/machine-0.yaml"))
	command(t, c.env, "slipway", "add-machine", "-n", "4")
	c.started(model, 0, 4)
	c.started(model, 1, 4) // the agents are connected to either

	command(t, c.env, "slipway", "add-machine", "-n", "16")
	killed := time.Now()
	c.procs[0].Kill() // the machines are being started
	c.started(model, 1, 20)
	t.Logf("20 machines started %v after their controller was killed", time.Since(killed).Round(time.Millisecond))

	c.procs[0].Serve()
	command(t, c.env, "slipway", "add-machine", "-n", "5")
	c.started(model, 0, 25)
	c.started(model, 1, 25)
}
