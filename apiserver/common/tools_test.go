package common_test

import (
	"context"
	"testing"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/apiserver/common"
	"github.com/slipway-project/slipway/core/binaries"
	"github.com/slipway-project/slipway/core/network"
	"github.com/slipway-project/slipway/params"
)

// kept is what a site keeps of agent binaries.
type kept struct {
	below
	versions []string
	err      error
}

func (k kept) Binaries(context.Context) ([]common.Binary, error) {
	var out []common.Binary
	for _, text := range k.versions {
		v, err := binaries.Parse(text)
		if err != nil {
			return nil, err
		}
		out = append(out, common.Binary{Version: v, SHA256: "abc", Size: 7})
	}
	return out, k.err
}

var site = below{servers: [][]network.HostPort{{hostPort("0.1.2.3", network.ScopeCloudLocal, 1234)}}}

// Cases: provisioner/FindTools mixins/ToolsFinder mixins/ToolsURLs
func TestToolsFinder(t *testing.T) {
	all := []string{"2.1.0-jammy-arm64", "2.0.0-jammy-amd64", "2.1.0-jammy-amd64", "2.0.0-noble-amd64"}
	tests := []struct {
		name string
		kept kept
		args params.FindToolsParams
		want []string
		err  string
	}{
		{"everything", kept{site, all, nil}, params.FindToolsParams{Number: "0.0.0", Major: -1, Minor: -1},
			[]string{"2.0.0-jammy-amd64", "2.0.0-noble-amd64", "2.1.0-jammy-amd64", "2.1.0-jammy-arm64"}, ""},
		{"a number", kept{site, all, nil}, params.FindToolsParams{Number: "2.0.0", Major: -1, Minor: -1},
			[]string{"2.0.0-jammy-amd64", "2.0.0-noble-amd64"}, ""},
		{"a minor version", kept{site, all, nil}, params.FindToolsParams{Major: 2, Minor: 1},
			[]string{"2.1.0-jammy-amd64", "2.1.0-jammy-arm64"}, ""},
		{"series and arch", kept{site, all, nil}, params.FindToolsParams{Major: -1, Minor: -1, Series: "jammy", Arch: "arm64"},
			[]string{"2.1.0-jammy-arm64"}, ""},
		{"none fits", kept{site, all, nil}, params.FindToolsParams{Major: 3, Minor: -1}, nil, "tools not found [not found]"},
		{"nothing kept", kept{site, nil, nil}, params.FindToolsParams{Major: -1, Minor: -1}, nil, "tools not found [not found]"},
		{"store broken", kept{site, all, errors.New("it broke")}, params.FindToolsParams{Major: -1, Minor: -1}, nil, "it broke"},
		{"no address", kept{below{}, all, nil}, params.FindToolsParams{Major: -1, Minor: -1}, nil, "no suitable API server address to pick from"},
		{"no version", kept{site, all, nil}, params.FindToolsParams{Number: "new"}, nil, `version "new" not valid`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := common.NewToolsFinder(test.kept).FindTools(t.Context(), test.args)
			if err != nil || text(got.Error) != test.err || (test.err == "") == (got.List == nil) {
				t.Fatalf("FindTools = %+v, %v, want error %q", got, err, test.err)
			}
			var versions []string
			for _, tools := range got.List {
				versions = append(versions, tools.Version)
				if want := "https://0.1.2.3:1234/model/my-uuid/tools/" + tools.Version; tools.URL != want || tools.SHA256 != "abc" || tools.Size != 7 {
					t.Errorf("tools = %+v, want URL %s", tools, want)
				}
			}
			equal(t, "FindTools", versions, test.want)
		})
	}
}

// Cases: mixins/ToolsGetter
func TestToolsGetter(t *testing.T) {
	s := newThings(t, map[string]*thing{"machine-0": {agent: "2.0.0-jammy-amd64"}, "machine-1": {}, "machine-2": {agent: "2.0.0-jammy-amd64"}, "machine-3": {agent: "rubbish"}})
	finder := common.NewToolsFinder(kept{site, []string{"2.1.0-jammy-amd64"}, nil})
	get := common.Entities[common.AgentVersioner](s, "agent versions")
	version := "2.1.0"
	g := common.NewToolsGetter(get, func(context.Context) (string, error) { return version, nil }, finder, only("machine-0", "machine-1", "machine-3", "machine-9"))
	got, err := g.Tools(t.Context(), entities("machine-0", "machine-1", "machine-2", "machine-3", "machine-9"))
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, r := range got.Results {
		found := text(r.Error)
		if r.Tools != nil {
			found = r.Tools[0].Version
		}
		if r.DisableSSLHostnameVerification != (r.Error == nil) {
			t.Errorf("result %+v: the flag is to be set on success alone", r)
		}
		out = append(out, found)
	}
	equal(t, "Tools", out, []string{"2.1.0-jammy-amd64", "agent tools for machine 1 not found [not found]", denied,
		`binary version "rubbish" not valid`, "machine 9 not found [not found]"})

	version = ""
	if _, err := g.Tools(t.Context(), entities("machine-0")); err == nil || err.Error() != "agent version not set in model config" {
		t.Errorf("Tools without a desired version = %v", err)
	}
}
