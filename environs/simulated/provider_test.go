package simulated_test

import (
	"net/http/httptest"
	"testing"

	"github.com/slipway-project/slipway/environs"
	"github.com/slipway-project/slipway/environs/providertest"
	"github.com/slipway-project/slipway/environs/simulated"
)

// newRack returns a rack that is closed with the test.
func newRack(t testing.TB, o simulated.Options) *simulated.Rack {
	t.Helper()
	r, err := simulated.NewRack(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r
}

// instant is a rack that takes no time and makes no mistakes.
func instant() simulated.Options {
	return simulated.Options{Behaviour: &simulated.Behaviour{}}
}

// serve returns where a rack can be reached until the test ends.
func serve(t testing.TB, r *simulated.Rack) simulated.DialConfig {
	t.Helper()
	token, err := simulated.Token(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(simulated.NewServer(r, token))
	t.Cleanup(s.Close)
	return simulated.DialConfig{URL: s.URL, Token: token}
}

func TestConformanceInProcess(t *testing.T) {
	providertest.RunConformance(t, providertest.Config{
		Type: simulated.Name, BadPlacement: "zone=nowhere", Unmeetable: "mem=1P",
		New: func(t *testing.T) (environs.Provider, map[string]any) {
			return simulated.Provider{Rack: newRack(t, instant())}, nil
		},
	})
}

func TestConformanceOverHTTP(t *testing.T) {
	providertest.RunConformance(t, providertest.Config{
		Type: simulated.Name, BadPlacement: "fail=many", Unmeetable: "arch=s390x",
		New: func(t *testing.T) (environs.Provider, map[string]any) {
			d := serve(t, newRack(t, instant()))
			return simulated.Provider{}, map[string]any{simulated.RackURL: d.URL, simulated.RackToken: d.Token}
		},
	})
}
