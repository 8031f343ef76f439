package apiserver_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/slipway-project/slipway/apiserver"
	"github.com/slipway-project/slipway/core/access"
	"github.com/slipway-project/slipway/state"
)

// callable returns the methods that a caller of who.golden is let in to, on
// connections to a model.
func callable(t *testing.T, who string) map[string]bool {
	t.Helper()
	text, err := os.ReadFile("testdata/who.golden")
	if err != nil {
		t.Fatal(err)
	}
	out := make(map[string]bool)
	for line := range strings.Lines(string(text)) {
		method, callers, _ := strings.Cut(strings.TrimSpace(line), ": ")
		if name, ok := strings.CutSuffix(method, " on model"); ok && slices.Contains(strings.Fields(callers), who) {
			out[name] = true
		}
	}
	return out
}

// TestABlockOfChangesStopsEveryMethodThatChanges walks the table of methods: with
// changes switched off, people can call none that writes, but for those that
// despite names, and everything that only reads. Agents do not notice.
func TestABlockOfChangesStopsEveryMethodThatChanges(t *testing.T) {
	s := newSite(t)
	_, agent := s.agent(s.Default, state.MachineSpec{})
	path := modelPath(s.Default.ModelUUID())
	s.must(s.Default.Blocks().SwitchOn(t.Context(), state.BlockChange, "not today"))
	itself := []string{"Client(1).DestroyMachines"} // looks for itself, unless it is to use force
	stopped := 0
	for _, caller := range []struct {
		name  string
		who   credentials
		stops bool
	}{
		{"reader", s.person("reader", access.Login, access.Read), false},
		{"owner", s.person("owner", access.AddModel, access.Admin), true},
		{"superuser", admin, true},
		{"agent", agent, false},
		{"manager", manager, false},
	} {
		c, may := s.as(path, caller.who), callable(t, caller.name)
		for _, m := range methods(t) {
			name := fmt.Sprintf("%s(%d).%s", m.Type, m.Version, m.Method)
			if !may[name] {
				continue
			}
			want := caller.stops && (apiserver.Stopped(m.Type, m.Method) || slices.Contains(itself, name))
			err := callOnce(c, m.Request)
			if blocked := codeOf(err) == "operation is blocked"; blocked != want || blocked && err.Error() != "not today" {
				t.Errorf("%s by %s = %v, want it stopped: %v", name, caller.name, err, want)
			}
			if want {
				stopped++
			}
		}
	}
	if stopped < 30 {
		t.Errorf("%d calls stopped, want those of all methods that change something", stopped)
	}
}

// TestBlocksStandBehindRights: who may not change a model is told that, blocked
// or not.
func TestBlocksStandBehindRights(t *testing.T) {
	s := newSite(t)
	s.must(s.Default.Blocks().SwitchOn(t.Context(), state.BlockChange, "not today"))
	c := s.as(modelPath(s.Default.ModelUUID()), s.person("reader", access.Login, access.Read))
	for _, m := range methods(t) {
		if m.scope == "model" && apiserver.Stopped(m.Type, m.Method) {
			if code := codeOf(callOnce(c, m.Request)); code != "unauthorized access" {
				t.Errorf("%s.%s by a reader: %q, want it denied", m.Type, m.Method, code)
			}
		}
	}
}
