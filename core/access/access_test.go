package access_test

import (
	"testing"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/core/access"
)

func TestHigherLevelsIncludeLowerOnes(t *testing.T) {
	models := []access.Model{"", access.Read, access.Write, access.Admin}
	controllers := []access.Controller{"", access.Login, access.AddModel, access.Superuser}
	for i := range models {
		for j := range models {
			want := j > 0 && i >= j // nobody has the empty level "by right"
			if got := models[i].Includes(models[j]); got != want {
				t.Errorf("%q.Includes(%q) = %v, want %v", models[i], models[j], got, want)
			}
			if got := controllers[i].Includes(controllers[j]); got != want {
				t.Errorf("%q.Includes(%q) = %v, want %v", controllers[i], controllers[j], got, want)
			}
		}
	}
	if access.Admin.Includes("rubbish") || access.Superuser.Includes("rubbish") {
		t.Error("an unknown level is included in another")
	}
}

func TestParse(t *testing.T) {
	if m, err := access.ParseModel("write"); err != nil || m != access.Write {
		t.Errorf("ParseModel(write) = %q, %v", m, err)
	}
	if c, err := access.ParseController("add-model"); err != nil || c != access.AddModel {
		t.Errorf("ParseController(add-model) = %q, %v", c, err)
	}
	for _, text := range []string{"", "Read", "superuser "} {
		if _, err := access.ParseModel(text); !errors.Is(err, errors.NotValid) {
			t.Errorf("ParseModel(%q) = %v, want not valid", text, err)
		}
		if _, err := access.ParseController(text); !errors.Is(err, errors.NotValid) {
			t.Errorf("ParseController(%q) = %v, want not valid", text, err)
		}
	}
}
