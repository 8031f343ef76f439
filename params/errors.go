package params

import (
	"github.com/juju/errors"

	"github.com/slipway-project/slipway/core/kind"
)

// Error is an error as it goes over the wire. Message and Code are always
// there; Code may be empty, which says that callers cannot tell this error from
// others.
type Error struct {
	Message string         `json:"message"`
	Code    string         `json:"code"`
	Info    map[string]any `json:"info,omitempty"` // what a client needs to go on, by code
}

// Error returns the message alone.
func (e *Error) Error() string { return e.Message }

// ErrorCode returns the code, which may be empty.
func (e *Error) ErrorCode() string { return e.Code }

// Is reports whether target is the kind that e's code stands for, so that
// errors.Is gives the same answer on both sides of the wire.
func (e *Error) Is(target error) bool {
	k := KindOf(e.Code)
	if k == nil {
		return false
	}
	return k == target || target == errors.NotFound && (k == kind.ModelNotFound || k == errors.UserNotFound)
}

// The codes of errors. They are part of the protocol.
const (
	CodeNotFound             = "not found"
	CodeUserNotFound         = "user not found"
	CodeModelNotFound        = "model not found"
	CodeUnauthorized         = "unauthorized access"
	CodeLoginExpired         = "login expired"
	CodeNoCreds              = "no credentials provided"
	CodeExcessiveContention  = "excessive contention"
	CodeNotAssigned          = "not assigned"
	CodeStopped              = "stopped"
	CodeDead                 = "dead"
	CodeHasAssignedUnits     = "machine has assigned units"
	CodeHasHostedModels      = "controller has hosted models"
	CodeHasAttachedStorage   = "machine has attached storage"
	CodeNotProvisioned       = "not provisioned"
	CodeNoAddressSet         = "no address set"
	CodeTryAgain             = "try again"
	CodeNotImplemented       = "not implemented"
	CodeAlreadyExists        = "already exists"
	CodeUpgradeInProgress    = "upgrade in progress"
	CodeOperationBlocked     = "operation is blocked"
	CodeLeaseClaimDenied     = "lease claim denied"
	CodeNotSupported         = "not supported"
	CodeBadRequest           = "bad request"
	CodeMethodNotAllowed     = "method not allowed"
	CodeForbidden            = "forbidden"
	CodeQuotaLimitExceeded   = "quota limit exceeded"
	CodeRetry                = "retry"
	CodeDischargeRequired    = "macaroon discharge required" // no kind: only clients of other servers see it
	CodeRedirectionRequired  = "redirection required"        // likewise
	CodeLeadershipDenied     = "leadership claim denied"     // likewise
	CodeCannotEnterScope     = "cannot enter scope"          // likewise
	CodeUnitHasSubordinates  = "unit has subordinates"       // likewise
	CodeActionNotAvailable   = "action no longer available"  // likewise
	CodeCannotEnterScopeYet  = "cannot enter scope yet"      // likewise
	CodeModelMigrating       = "model migration in progress" // likewise
	CodeHostingContainers    = "machine is hosting containers"
	CodeModelNotEmpty        = "model not empty"
	CodeStorageAttached      = "storage is attached"
	CodeDeadlineExceeded     = "deadline exceeded"
	CodeNotYetAvailableRetry = "not yet available; try again later"
	CodeNotValid             = "not valid"
)

// codes is the one table of error kinds and their codes, read in both
// directions. Where an error is of several kinds the first row that fits
// counts, so special kinds come before general ones. Kinds that are not here have the
// empty code.
var codes = [...]struct {
	kind error
	code string
}{
	{errors.UserNotFound, CodeUserNotFound},
	{kind.ModelNotFound, CodeModelNotFound},
	{kind.Dead, CodeDead},
	{kind.Stopped, CodeStopped},
	{kind.LoginExpired, CodeLoginExpired},
	{kind.NoCredentials, CodeNoCreds},
	{kind.Contention, CodeExcessiveContention},
	{kind.HasAssignedUnits, CodeHasAssignedUnits},
	{kind.HasHostedModels, CodeHasHostedModels},
	{kind.HasAttachedStorage, CodeHasAttachedStorage},
	{kind.NoAddress, CodeNoAddressSet},
	{kind.TryAgain, CodeTryAgain},
	{kind.UpgradeInProgress, CodeUpgradeInProgress},
	{kind.ActionBlocked, CodeOperationBlocked},
	{kind.LeaseDenied, CodeLeaseClaimDenied},
	{kind.Retry, CodeRetry},
	{errors.NotProvisioned, CodeNotProvisioned},
	{errors.NotAssigned, CodeNotAssigned},
	{errors.Unauthorized, CodeUnauthorized},
	{errors.NotImplemented, CodeNotImplemented},
	{errors.AlreadyExists, CodeAlreadyExists},
	{errors.NotSupported, CodeNotSupported},
	{errors.BadRequest, CodeBadRequest},
	{errors.MethodNotAllowed, CodeMethodNotAllowed},
	{errors.Forbidden, CodeForbidden},
	{errors.QuotaLimitExceeded, CodeQuotaLimitExceeded},
	{errors.NotYetAvailable, CodeNotYetAvailableRetry},
	{errors.NotFound, CodeNotFound},
}

// laterCodes continues the table with kinds to which clients of the 2.0 protocol expect
// the empty code: only facades that are additions of this project send these codes, and
// every client reads them.
var laterCodes = [...]struct {
	kind error
	code string
}{
	{kind.HasContainers, CodeHostingContainers},
	{errors.Timeout, CodeDeadlineExceeded},
	{errors.NotValid, CodeNotValid},
}

// CodeOf returns the code under which err goes over the wire: its own, if it
// has an ErrorCode method, else that of its kind; empty if it has neither.
func CodeOf(err error) string {
	if err == nil {
		return ""
	}
	var coder interface{ ErrorCode() string }
	if errors.As(err, &coder) && coder.ErrorCode() != "" {
		return coder.ErrorCode()
	}
	for _, row := range codes {
		if errors.Is(err, row.kind) {
			return row.code
		}
	}
	return ""
}

// KindOf returns the kind of error that code stands for, or nil if it stands
// for none.
func KindOf(code string) error {
	for _, row := range codes {
		if row.code == code {
			return row.kind
		}
	}
	for _, row := range laterCodes {
		if row.code == code {
			return row.kind
		}
	}
	return nil
}

// ErrorOf returns err as it goes over the wire: its message with all that was
// added to it, and its code. The error of nil is nil.
func ErrorOf(err error) *Error {
	if err == nil {
		return nil
	}
	wire := &Error{Message: err.Error(), Code: CodeOf(err)}
	var inner *Error
	if errors.As(err, &inner) {
		wire.Info = inner.Info
	}
	return wire
}

// OwnErrorOf is ErrorOf for facades that are additions of this project: there, kinds have
// a code for which the protocol of 2.0 has none, such as errors.NotValid.
func OwnErrorOf(err error) *Error {
	wire := ErrorOf(err)
	if wire == nil || wire.Code != "" {
		return wire
	}
	for _, row := range laterCodes {
		if errors.Is(err, row.kind) {
			wire.Code = row.code
			break
		}
	}
	return wire
}
