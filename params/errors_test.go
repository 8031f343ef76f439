package params_test

import (
	stderrors "errors"
	"testing"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/core/kind"
	"github.com/slipway-project/slipway/params"
)

func TestKindsKeepTheirCodeOverTheWire(t *testing.T) {
	tests := []struct {
		err     error
		message string
		code    string
		kind    error
	}{
		{errors.NotFoundf("machine 42"), "machine 42 not found", "not found", errors.NotFound},
		{errors.Unauthorizedf("permission denied"), "permission denied", "unauthorized access", errors.Unauthorized},
		{errors.NotProvisionedf("machine 0"), "machine 0 not provisioned", "not provisioned", errors.NotProvisioned},
		{errors.AlreadyExistsf("model %q", "m"), `model "m" already exists`, "already exists", errors.AlreadyExists},
		{errors.NotSupportedf("it"), "it not supported", "not supported", errors.NotSupported},
		{errors.WithType(errors.New("not found or dead"), kind.Dead), "not found or dead", "dead", kind.Dead},
		{kind.Stopped, "watcher has been stopped", "stopped", kind.Stopped},
		{kind.TryAgain, "try again", "try again", kind.TryAgain},
		{errors.WithType(errors.New(`unknown model: "u"`), kind.ModelNotFound), `unknown model: "u"`, "model not found", kind.ModelNotFound},
		{errors.WithType(errors.NotFoundf("model"), kind.ModelNotFound), "model not found", "model not found", errors.NotFound},
		{errors.Annotatef(errors.NotFoundf("machine 42"), "cannot get life"), "cannot get life: machine 42 not found", "not found", errors.NotFound},
	}
	for _, test := range tests {
		t.Run(test.message, func(t *testing.T) {
			wire := params.ErrorOf(test.err)
			if wire.Message != test.message || wire.Code != test.code {
				t.Errorf("on the wire = %q (%q), want %q (%q)", wire.Message, wire.Code, test.message, test.code)
			}
			if got := errors.Annotate(wire, "cannot call"); !errors.Is(got, test.kind) {
				t.Errorf("error %v is not %v any more", got, test.kind)
			}
		})
	}
}

// Cases: mixins/ErrorCodes
func TestErrorsWithoutAKindHaveNoCode(t *testing.T) {
	for _, err := range []error{stderrors.New("boom"), errors.NotValidf("tag"), nil} {
		if code := params.CodeOf(err); code != "" {
			t.Errorf("CodeOf(%v) = %q, want none", err, code)
		}
	}
	if got := params.KindOf(""); got != nil {
		t.Errorf("KindOf(empty) = %v, want none", got)
	}
	if wire := params.ErrorOf(nil); wire != nil {
		t.Errorf("ErrorOf(nil) = %v, want nil", wire)
	}
	plain := &params.Error{Message: "boom"}
	if errors.Is(plain, errors.NotFound) {
		t.Error("an error without a code has a kind")
	}
}

func TestInfoSurvivesAnnotation(t *testing.T) {
	inner := &params.Error{Message: "elsewhere", Code: params.CodeRedirectionRequired, Info: map[string]any{"ca-cert": "x"}}
	wire := params.ErrorOf(errors.Annotate(inner, "cannot log in"))
	if wire.Code != params.CodeRedirectionRequired || wire.Info["ca-cert"] != "x" {
		t.Errorf("wire error = %+v, want code and info kept", wire)
	}
}

// Cases: mixins/ErrorCodes
func TestTheTableIsOneToOne(t *testing.T) {
	for _, code := range []string{params.CodeNotFound, params.CodeUserNotFound, params.CodeModelNotFound, params.CodeUnauthorized,
		params.CodeDead, params.CodeStopped, params.CodeExcessiveContention, params.CodeHasAssignedUnits, params.CodeNotProvisioned,
		params.CodeTryAgain, params.CodeNotImplemented, params.CodeAlreadyExists, params.CodeUpgradeInProgress,
		params.CodeOperationBlocked, params.CodeLeaseClaimDenied, params.CodeNotSupported, params.CodeBadRequest,
		params.CodeForbidden, params.CodeQuotaLimitExceeded, params.CodeRetry, params.CodeLoginExpired, params.CodeNoCreds} {
		k := params.KindOf(code)
		if k == nil {
			t.Errorf("code %q has no kind", code)
			continue
		}
		if back := params.CodeOf(k); back != code {
			t.Errorf("CodeOf(KindOf(%q)) = %q", code, back)
		}
	}
}
