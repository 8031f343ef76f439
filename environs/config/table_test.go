package config_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/slipway-project/slipway/environs/config"
	"github.com/slipway-project/slipway/internal/golden"
)

// TestTable shows every setting as people know it, so that a change to one of
// them shows in the file.
func TestTable(t *testing.T) {
	defaults := config.Fields().Defaults()
	var b strings.Builder
	for _, f := range config.Fields() {
		fmt.Fprintf(&b, "%s (%s, default %#v", f.Name, f.Kind, defaults[f.Name])
		for _, mark := range []struct {
			set  bool
			text string
		}{{f.Mandatory, "mandatory"}, {f.Immutable, "immutable"}, {f.ControllerOnly, "the site's"}, {f.Secret, "secret"}} {
			if mark.set {
				b.WriteString(", " + mark.text)
			}
		}
		fmt.Fprintf(&b, ")\n\t%s\n", f.Doc)
	}
	golden.Check(t, "fields.golden", b.String())
}
