package api

import (
	"github.com/juju/errors"

	"github.com/slipway-project/slipway/params"
)

// Result is what a bulk call gives for one of its arguments.
type Result[T any] struct {
	Value T     // zero beside an error
	Err   error // nil if it went well
}

// ErrorOf returns e as an error, which is nil if e is.
func ErrorOf(e *params.Error) error {
	if e == nil {
		return nil
	}
	return e
}

// ResultsOf turns the results of a bulk call over want arguments into Results.
// A server that answers with another number of them is in error.
func ResultsOf[P, T any](results []P, want int, read func(*P) (T, *params.Error)) ([]Result[T], error) {
	if err := checkCount(len(results), want); err != nil {
		return nil, err
	}
	out := make([]Result[T], len(results))
	for i := range results {
		value, err := read(&results[i])
		if err != nil {
			out[i].Err = err
			continue
		}
		out[i].Value = value
	}
	return out, nil
}

// ErrorsOf returns an error or nil for each of the want arguments of a bulk
// call.
func ErrorsOf(results params.ErrorResults, want int) ([]error, error) {
	if err := checkCount(len(results.Results), want); err != nil {
		return nil, err
	}
	out := make([]error, want)
	for i, r := range results.Results {
		out[i] = ErrorOf(r.Error)
	}
	return out, nil
}

// One returns the single result of a bulk call over one argument.
func One[T any](results []Result[T], err error) (T, error) {
	if err != nil {
		var zero T
		return zero, err
	}
	if err := checkCount(len(results), 1); err != nil {
		var zero T
		return zero, err
	}
	return results[0].Value, results[0].Err
}

// OneError returns the single error of a bulk call over one argument.
func OneError(errs []error, err error) error {
	if err != nil {
		return err
	}
	if err := checkCount(len(errs), 1); err != nil {
		return err
	}
	return errs[0]
}

func checkCount(got, want int) error {
	if got == want {
		return nil
	}
	noun := "results"
	if want == 1 {
		noun = "result"
	}
	return errors.Errorf("expected %d %s, got %d", want, noun, got)
}
