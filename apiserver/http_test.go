// What an error becomes on the way to a client that speaks HTTP is not exported.
package apiserver

import (
	"testing"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/apiserver/common"
	"github.com/slipway-project/slipway/params"
)

// Cases: mixins/HTTPStatuses
func TestEveryCodeHasItsStatus(t *testing.T) {
	for code, want := range map[string]int{
		params.CodeNotFound:          404,
		params.CodeUserNotFound:      404,
		params.CodeModelNotFound:     404,
		params.CodeUnauthorized:      401,
		params.CodeLoginExpired:      401,
		params.CodeNoCreds:           401,
		params.CodeDischargeRequired: 401,
		params.CodeOperationBlocked:  400,
		params.CodeBadRequest:        400,
		params.CodeMethodNotAllowed:  405,
		params.CodeForbidden:         403,
		params.CodeRetry:             503,
		params.CodeTryAgain:          503,
		"":                           500,
		params.CodeNotProvisioned:    500,
		params.CodeDead:              500,
		params.CodeStopped:           500,
		params.CodeNotImplemented:    500,
		params.CodeAlreadyExists:     500,
	} {
		if got := httpStatus(code); got != want {
			t.Errorf("code %q is status %d, want %d", code, got, want)
		}
	}
	// An error keeps its code through what is said around it, and one without a
	// kind has none.
	for err, want := range map[error]int{
		errors.Annotate(errors.NotFoundf("thing"), "cannot look"): 404,
		errors.Annotate(common.ErrPerm, "cannot look"):            401,
		errors.New("anything else"):                               500,
	} {
		if got := httpStatus(common.ServerError(err).Code); got != want {
			t.Errorf("%v is status %d, want %d", err, got, want)
		}
	}
	if common.ServerError(nil) != nil {
		t.Error("no error is an error")
	}
}
