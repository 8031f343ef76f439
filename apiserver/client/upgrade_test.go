package client_test

import (
	"strings"
	"testing"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/apiserver/facadetest"
	"github.com/slipway-project/slipway/core/binaries"
	"github.com/slipway-project/slipway/params"
)

func TestSetModelAgentVersion(t *testing.T) {
	c, _, site := open(t, facadetest.Writer)
	for _, text := range []string{"2.0.0-jammy-amd64", "2.0.1-jammy-amd64", "2.0.1-noble-amd64"} {
		v, err := binaries.Parse(text)
		must(t, err)
		_, err = site.Default.Controller().Binaries().Upload(ctx, v, strings.NewReader(text), "")
		must(t, err)
	}
	tests := []struct {
		name string
		args params.SetModelAgentVersion
		kind errors.ConstError // empty: it is done
		says string
	}{
		{"no version", params.SetModelAgentVersion{}, errors.NotValid, "use a form such as 2.0.1"},
		{"with a series", params.SetModelAgentVersion{Version: "2.0.1-jammy-amd64"}, errors.NotValid, "use a form such as 2.0.1"},
		{"not uploaded", params.SetModelAgentVersion{Version: "2.0.7"}, errors.NotFound, "no agent binary of version 2.0.7 has been uploaded: there are 2.0.0, 2.0.1"},
		{"first", params.SetModelAgentVersion{Version: "2.0.1"}, "", ""},
		{"again", params.SetModelAgentVersion{Version: "2.0.1"}, "", ""},
		{"older", params.SetModelAgentVersion{Version: "2.0.0"}, errors.NotValid, "version 2.0.0 is older than 2.0.1"},
		{"older on purpose", params.SetModelAgentVersion{Version: "2.0.0", AllowDowngrade: true}, "", ""},
		{"newer", params.SetModelAgentVersion{Version: "2.0.1"}, "", ""},
	}
	for _, test := range tests {
		err := c.SetModelAgentVersion(ctx, test.args)
		if test.kind != "" && (!errors.Is(err, test.kind) || !strings.Contains(err.Error(), test.says)) {
			t.Errorf("%s: %v, want %s: %s", test.name, err, test.kind, test.says)
		}
		if test.kind != "" {
			continue
		}
		must(t, err)
		settings, err := site.Default.ModelConfig().Get(ctx)
		must(t, err)
		if n, ok := settings.AgentVersion(); !ok || n.String() != test.args.Version || settings.AgentDowngrade() != test.args.AllowDowngrade {
			t.Errorf("%s: agents are to run %s, %v (going back: %v)", test.name, n, ok, settings.AgentDowngrade())
		}
	}
}
