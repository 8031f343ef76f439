package api_test

import (
	"testing"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/api"
	"github.com/slipway-project/slipway/params"
)

var missing = &params.Error{Message: "machine 42 not found", Code: params.CodeNotFound}

func lifeOf(r *params.LifeResult) (string, *params.Error) { return r.Life, r.Error }

func TestResultsKeepOrderAndErrors(t *testing.T) {
	got, err := api.ResultsOf([]params.LifeResult{{Life: "alive"}, {Life: "junk", Error: missing}}, 2, lifeOf)
	if err != nil {
		t.Fatal(err)
	}
	if got[0].Value != "alive" || got[0].Err != nil || got[1].Value != "" || !errors.Is(got[1].Err, errors.NotFound) {
		t.Errorf("results = %v, want alive and an error", got)
	}
}

func TestAnotherNumberOfResultsIsAnError(t *testing.T) {
	_, err := api.One(api.ResultsOf([]params.LifeResult{}, 1, lifeOf))
	if err == nil || err.Error() != "expected 1 result, got 0" {
		t.Errorf("One = %v", err)
	}
	err = api.OneError(api.ErrorsOf(params.ErrorResults{Results: make([]params.ErrorResult, 2)}, 1))
	if err == nil || err.Error() != "expected 1 result, got 2" {
		t.Errorf("OneError = %v", err)
	}
	if _, err = api.ErrorsOf(params.ErrorResults{}, 2); err == nil || err.Error() != "expected 2 results, got 0" {
		t.Errorf("ErrorsOf = %v", err)
	}
}

func TestNoErrorIsNil(t *testing.T) {
	if err := api.ErrorOf(nil); err != nil {
		t.Errorf("ErrorOf(nil) = %v, want nil", err)
	}
	if err := api.OneError(api.ErrorsOf(params.ErrorResults{Results: []params.ErrorResult{{}}}, 1)); err != nil {
		t.Errorf("OneError = %v, want nil", err)
	}
	if err := api.OneError(api.ErrorsOf(params.ErrorResults{Results: []params.ErrorResult{{Error: missing}}}, 1)); !errors.Is(err, errors.NotFound) {
		t.Errorf("OneError = %v, want NotFound", err)
	}
	if v, err := api.One(api.ResultsOf([]params.LifeResult{{Life: "dead"}}, 1, lifeOf)); v != "dead" || err != nil {
		t.Errorf("One = %v, %v, want dead", v, err)
	}
}
