package site

import (
	"context"
	"strings"
	"testing"

	"github.com/slipway-project/slipway/core/base"
	"github.com/slipway-project/slipway/environs/baremetal/bmc"
	"github.com/slipway-project/slipway/environs/providertest"
	"github.com/slipway-project/slipway/environs/simulated"
	"github.com/slipway-project/slipway/environs/userdata"
)

func TestASimulatedHostRunsTheAgentOfItsUserData(t *testing.T) {
	p := providertest.Params(providertest.Site, providertest.Model, "3", base.Default())
	text, err := userdata.CloudInit(userdata.Params{Config: p.InstanceConfig, AgentLaid: true})
	if err != nil {
		t.Fatal(err)
	}
	var got simulated.Agent
	boot := bootWith(func(_ context.Context, a simulated.Agent) error { got = a; return nil })
	boot(t.Context(), bmc.Address{Host: "a"}, string(text))
	if c := p.InstanceConfig; got.MachineID != "3" || got.Nonce != c.Nonce || got.Password != c.Password || got.ModelUUID != c.ModelUUID ||
		len(got.APIAddresses) != 1 || got.CACert != c.CACert {
		t.Errorf("agent = %+v", got)
	}
	if bootWith(nil) != nil {
		t.Error("no program makes hosts run one")
	}
}

func TestUserDataWithoutAnAgent(t *testing.T) {
	for name, text := range map[string]string{
		"nothing":        "",
		"no mapping":     "[hush",
		"other files":    "write_files: [{path: /etc/motd, content: hush}]",
		"a broken file":  "write_files: [{path: /var/lib/slipway/agent.yaml, content: '[hush'}]",
		"another entity": "write_files: [{path: /var/lib/slipway/agent.yaml, content: 'tag: user-hush'}]",
	} {
		if _, err := agentIn(text); err == nil || strings.Contains(err.Error(), "hush") {
			t.Errorf("%s: %v, want an error that quotes nothing", name, err)
		}
	}
}
