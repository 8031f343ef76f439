package redfish

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"

	"github.com/juju/errors"
)

// verdict is an error that says something about the host: it becomes a Result's
// ErrorMessage.
type verdict struct{ message string }

func (v verdict) Error() string { return v.message }

// verdictf returns a verdict.
func verdictf(format string, args ...any) error { return verdict{fmt.Sprintf(format, args...)} }

// unreachable is a fault of the network, or a BMC that is silent. It passes.
type unreachable struct{ message string }

func (u unreachable) Error() string { return u.message }

// errTimeout is the unreachable of a BMC that lets a time limit pass.
var errTimeout = unreachable{"BMC does not answer in time"}

// refusal is an answer of the BMC other than success.
type refusal struct {
	method, path string
	status       int
	id, message  string // from the Redfish error, if there is one
}

func (r *refusal) Error() string {
	said := ""
	if r.message != "" {
		said = ": " + r.message
	}
	return fmt.Sprintf("BMC answers %s %s with %d %s%s", r.method, r.path, r.status, http.StatusText(r.status), said)
}

// passing reports whether the refusal may go away by itself.
func (r *refusal) passing() bool {
	switch r.status {
	case http.StatusTooManyRequests, http.StatusRequestTimeout, http.StatusConflict, http.StatusLocked:
		return true
	}
	return r.status >= 500 && r.status != http.StatusNotImplemented
}

// statusOf returns the HTTP status of the refusal in err, or 0.
func statusOf(err error) int {
	var r *refusal
	if errors.As(err, &r) {
		return r.status
	}
	return 0
}

// isSessionLimit reports whether the BMC has no free session (Base registry,
// SessionLimitExceeded).
func isSessionLimit(err error) bool {
	var r *refusal
	return errors.As(err, &r) && strings.HasSuffix(r.id, "SessionLimitExceeded")
}

// newRefusal reads the answer's Redfish error (DSP0266, 8.6).
func newRefusal(method, path string, status int, body []byte) *refusal {
	r := &refusal{method: method, path: path, status: status}
	var in struct {
		Error struct {
			Message string `json:"message"`
			Code    string `json:"code"`
			Info    []struct {
				MessageID string `json:"MessageId"`
				Message   string
			} `json:"@Message.ExtendedInfo"`
		} `json:"error"`
	}
	if json.Unmarshal(body, &in) != nil {
		return r
	}
	r.id, r.message = in.Error.Code, in.Error.Message
	if len(in.Error.Info) > 0 && in.Error.Info[0].Message != "" {
		r.id, r.message = in.Error.Info[0].MessageID, in.Error.Info[0].Message
	}
	return r
}

// fromNetwork sorts an error of net/http: a wrong certificate is a verdict,
// anything else passes.
func fromNetwork(err error) error {
	var (
		unknown  x509.UnknownAuthorityError
		invalid  x509.CertificateInvalidError
		host     x509.HostnameError
		verify   *tls.CertificateVerificationError
		plain    tls.RecordHeaderError
		pinned   verdict
		netError net.Error
	)
	switch {
	case errors.As(err, &pinned):
		return pinned
	case errors.As(err, &verify) && len(verify.UnverifiedCertificates) > 0 && errors.As(err, &unknown):
		return verdictf("the BMC's certificate (SHA-256 %s) is not signed by a known authority; give its CA, or pin this fingerprint if it is the right one", fingerprint(verify.UnverifiedCertificates[0]))
	case errors.As(err, &invalid), errors.As(err, &host), errors.As(err, &verify):
		return verdictf("the BMC's certificate is not good: %v", errors.Unwrap(innermost(err)))
	case errors.As(err, &plain):
		return verdictf("the BMC does not speak TLS on this port; use the scheme with +http if that is meant")
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &netError) && netError.Timeout():
		return errTimeout
	}
	return unreachable{"cannot talk to BMC: " + innermost(err).Error()}
}

// innermost strips what net/http wraps around an error: the URL.
func innermost(err error) error {
	type unwrapper interface{ Unwrap() error }
	if u, ok := err.(unwrapper); ok && strings.Contains(fmt.Sprintf("%T", err), "url.Error") {
		return u.Unwrap()
	}
	return err
}

// maxMessage bounds what we pass on of a BMC's words, in bytes.
const maxMessage = 400

// clean makes one printable line of what may be a BMC's words, without secret.
func clean(message, secret string) string {
	if secret != "" {
		message = strings.ReplaceAll(message, secret, "[redacted]")
	}
	message = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == '\uFFFD' {
			return ' '
		}
		return r
	}, message)
	message = strings.Join(strings.Fields(message), " ")
	if len(message) > maxMessage {
		message = strings.ToValidUTF8(message[:maxMessage], "") + "..."
	}
	return message
}
