package api_test

import (
	"strings"
	"testing"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/api"
	"github.com/slipway-project/slipway/api/apitest"
	"github.com/slipway-project/slipway/params"
)

func TestFacadeCalls(t *testing.T) {
	tr := &apitest.Transcript{Replies: map[string]string{
		"Things.Two":  `{"results":[{},{"error":{"message":"machine 42 not found","code":"not found"}}]}`,
		"Things.One":  `{"results":[{"error":{"message":"machine 42 not found","code":"not found"}}]}`,
		"Things.Deny": `!unauthorized access: permission denied`,
	}}
	f := api.Facade{Caller: tr, Type: "Things", Version: 3}
	two, err := f.Errors(t.Context(), "Two", nil, 2)
	if err != nil || two[0] != nil || !errors.Is(two[1], errors.NotFound) {
		t.Errorf("Errors = %v, %v", two, err)
	}
	if err := f.Error(t.Context(), "One", nil); !errors.Is(err, errors.NotFound) {
		t.Errorf("Error = %v, want NotFound", err)
	}
	for what, call := range map[string]func() error{
		"Error about two things": func() error { return f.Error(t.Context(), "Two", nil) },
		"Errors of one answer":   func() error { _, err := f.Errors(t.Context(), "One", nil, 2); return err },
	} {
		if err := call(); err == nil || !strings.HasPrefix(err.Error(), "expected") {
			t.Errorf("%s = %v, want that the number is wrong", what, err)
		}
	}
	if _, err := f.Errors(t.Context(), "Deny", nil, 1); !errors.Is(err, errors.Unauthorized) {
		t.Errorf("Errors = %v, want it denied", err)
	}
	if !strings.Contains(tr.String(), "Things(3).Two") {
		t.Errorf("the calls were %s", tr)
	}
}

func TestPresent(t *testing.T) {
	life := "alive"
	if got, err := api.Present(&life, nil, "life"); got != "alive" || err != nil {
		t.Errorf("Present = %q, %v", got, err)
	}
	if got, err := api.Present(&life, missing, "life"); got != "" || err != missing {
		t.Errorf("Present beside an error = %q, %v", got, err)
	}
	if _, err := api.Present[string](nil, (*params.Error)(nil), "life"); err == nil || err.Message != "server answered with no life" {
		t.Errorf("Present of nothing = %v", err)
	}
}
