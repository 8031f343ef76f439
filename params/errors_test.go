package params_test

import (
	stderrors "errors"
	"go/ast"
	"go/parser"
	"go/token"
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

// kinds are all kinds of error that there are: those of juju/errors and those of core/kind,
// by their names there.
func kinds() map[string]errors.ConstError {
	return map[string]errors.ConstError{
		"Timeout": errors.Timeout, "NotFound": errors.NotFound, "UserNotFound": errors.UserNotFound, "Unauthorized": errors.Unauthorized,
		"NotImplemented": errors.NotImplemented, "AlreadyExists": errors.AlreadyExists, "NotSupported": errors.NotSupported,
		"NotValid": errors.NotValid, "NotProvisioned": errors.NotProvisioned, "NotAssigned": errors.NotAssigned,
		"BadRequest": errors.BadRequest, "MethodNotAllowed": errors.MethodNotAllowed, "Forbidden": errors.Forbidden,
		"QuotaLimitExceeded": errors.QuotaLimitExceeded, "NotYetAvailable": errors.NotYetAvailable,

		"ActionBlocked": kind.ActionBlocked, "Contention": kind.Contention, "Dead": kind.Dead, "HasAttachedStorage": kind.HasAttachedStorage,
		"HasAssignedUnits": kind.HasAssignedUnits, "HasContainers": kind.HasContainers, "HasHostedModels": kind.HasHostedModels,
		"LeaseDenied": kind.LeaseDenied, "LoginExpired": kind.LoginExpired, "ModelNotFound": kind.ModelNotFound, "NoAddress": kind.NoAddress,
		"NoCredentials": kind.NoCredentials, "Retry": kind.Retry, "Stopped": kind.Stopped, "TryAgain": kind.TryAgain,
		"UpgradeInProgress": kind.UpgradeInProgress,
	}
}

// Every kind goes from state to the client and is the same there: over a facade of our own in
// any case, and over those of the 2.0 protocol unless clients of it expect no code.
//
// Cases: mixins/ErrorCodes
func TestEveryKindSurvivesTheWire(t *testing.T) {
	noCode := map[string]bool{"NotValid": true, "HasContainers": true, "Timeout": true}
	byCode := map[string]string{}
	for name, k := range kinds() {
		err := errors.Annotate(errors.WithType(errors.New("it is so"), k), "cannot do it")
		own := errors.Annotate(params.OwnErrorOf(err), "cannot call")
		if !errors.Is(own, k) {
			t.Errorf("%s over a facade of our own is not of its kind any more", name)
		}
		wire := params.ErrorOf(err)
		if wire.Message != "cannot do it: it is so" || wire.Message != params.OwnErrorOf(err).Message {
			t.Errorf("%s has the text %q", name, wire.Message)
		}
		if known := errors.Is(wire, k); known == noCode[name] || known != (wire.Code != "") {
			t.Errorf("%s has the code %q in the protocol of 2.0", name, wire.Code)
		}
		code := params.OwnErrorOf(err).Code
		if other, taken := byCode[code]; taken {
			t.Errorf("%s and %s share the code %q", name, other, code)
		}
		byCode[code] = name
		for other, o := range kinds() { // what was said of it, it is, and nothing else
			if special := other == "NotFound" && (name == "UserNotFound" || name == "ModelNotFound"); errors.Is(own, o) != (other == name || special) {
				t.Errorf("%s is also %s", name, other)
			}
		}
	}
	if params.OwnErrorOf(nil) != nil {
		t.Error("no error is one")
	}
	if got := params.OwnErrorOf(errors.New("boom")); got.Code != "" {
		t.Errorf("an error of no kind has the code %q", got.Code)
	}
}

// A kind that is added to core/kind is added to the test above.
func TestNoKindIsForgotten(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "../core/kind/kind.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	known, n := kinds(), 0
	for _, d := range file.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.CONST {
			continue
		}
		for _, s := range g.Specs {
			for _, name := range s.(*ast.ValueSpec).Names {
				if n++; known[name.Name] == "" {
					t.Errorf("kind.%s is in no test", name.Name)
				}
			}
		}
	}
	if n == 0 {
		t.Error("no kinds were found")
	}
}
