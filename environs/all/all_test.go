package all_test

import (
	"strings"
	"testing"

	"github.com/slipway-project/slipway/environs/all"
	"github.com/slipway-project/slipway/environs/config"
)

func TestEveryProviderIsWhole(t *testing.T) {
	r := all.Registry(all.Backends{})
	if len(r.Names()) == 0 {
		t.Fatal("there are no providers")
	}
	for _, name := range r.Names() {
		p, err := r.Provider(name)
		if err != nil {
			t.Errorf("Provider(%s): %v", name, err)
			continue
		}
		for _, f := range p.Schema() {
			if _, clash := config.Fields().Field(f.Name); clash || !strings.HasSuffix(f.Doc, ".") {
				t.Errorf("%s: setting %s clashes or has no sentence about it", name, f.Name)
			}
		}
	}
	if _, err := r.Provider("simulated"); err != nil {
		t.Error(err)
	}
}
