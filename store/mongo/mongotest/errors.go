package mongotest

import (
	"fmt"

	"github.com/slipway-project/slipway/store/mongo/bson"
)

// The error codes that the double gives, from MongoDB's error_codes.yml.
const (
	codeBadValue          = 2
	codeFailedToParse     = 9
	codeUnauthorized      = 13
	codeAuthFailed        = 18
	codeIllegalOperation  = 20
	codeNamespaceNotFound = 26
	codeCursorNotFound    = 43
	codeNamespaceExists   = 48
	codeMaxTimeExpired    = 50
	codeCommandNotFound   = 59
	codeImmutableField    = 66
	codeInvalidOptions    = 72
	codeInvalidNamespace  = 73
	codeWriteConflict     = 112
	codeTransactionTooOld = 225
	codeNotImplemented    = 238
	codeSnapshotTooOld    = 239
	codeNoSuchTransaction = 251
	codeCommitted         = 256
	codeHistoryLost       = 286
	codeUnsupportedQuery  = 352
	codeNotPrimary        = 10107
	codeTooLarge          = 10334
	codeDuplicateKey      = 11000
	codeInterrupted       = 11602
	codeNotPrimaryNoOk    = 13435
	codeResumeToken       = 50811
)

// names of the codes that clients look at by name.
var codeNames = map[int]string{
	codeBadValue: "BadValue", codeFailedToParse: "FailedToParse", codeUnauthorized: "Unauthorized",
	codeAuthFailed: "AuthenticationFailed", codeIllegalOperation: "IllegalOperation", codeNamespaceNotFound: "NamespaceNotFound",
	codeCursorNotFound: "CursorNotFound", codeNamespaceExists: "NamespaceExists", codeMaxTimeExpired: "MaxTimeMSExpired",
	codeCommandNotFound: "CommandNotFound", codeImmutableField: "ImmutableField", codeInvalidOptions: "InvalidOptions",
	codeInvalidNamespace: "InvalidNamespace", codeWriteConflict: "WriteConflict", codeTransactionTooOld: "TransactionTooOld",
	codeNotImplemented: "NotImplemented", codeSnapshotTooOld: "SnapshotTooOld", codeNoSuchTransaction: "NoSuchTransaction",
	codeCommitted: "TransactionCommitted", codeHistoryLost: "ChangeStreamHistoryLost",
	codeUnsupportedQuery: "UnsupportedOpQueryCommand", codeNotPrimary: "NotWritablePrimary", codeTooLarge: "BSONObjectTooLarge",
	codeDuplicateKey: "DuplicateKey", codeInterrupted: "InterruptedDueToReplStateChange", codeNotPrimaryNoOk: "NotPrimaryNoSecondaryOk",
}

// cmdError is a failed command, or a failed statement of one.
type cmdError struct {
	code   int
	msg    string
	labels []string
}

func (e *cmdError) Error() string { return fmt.Sprintf("%s (%d)", e.msg, e.code) }

func failf(code int, format string, args ...any) *cmdError {
	return &cmdError{code: code, msg: fmt.Sprintf(format, args...)}
}

// labelled adds a label once.
func (e *cmdError) labelled(label string) *cmdError {
	out := *e
	for _, l := range e.labels {
		if l == label {
			return &out
		}
	}
	out.labels = append(append([]string(nil), e.labels...), label)
	return &out
}

// doc is the answer to a failed command.
func (e *cmdError) doc() bson.D {
	name := codeNames[e.code]
	if name == "" {
		name = fmt.Sprintf("Location%d", e.code)
	}
	d := bson.New("ok", 0.0, "errmsg", e.msg, "code", int32(e.code), "codeName", name)
	if len(e.labels) > 0 {
		labels := bson.A{}
		for _, l := range e.labels {
			labels = append(labels, l)
		}
		d = append(d, bson.E{K: "errorLabels", V: labels})
	}
	return d
}
