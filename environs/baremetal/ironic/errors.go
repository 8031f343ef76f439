package ironic

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/juju/errors"

	"github.com/slipway-project/slipway/environs/baremetal/provisioner"
)

// verdict is an error that says something about the host: it becomes a Result's
// ErrorMessage.
type verdict struct{ message string }

func (v verdict) Error() string { return v.message }

// verdictf returns a verdict.
func verdictf(format string, args ...any) error { return verdict{fmt.Sprintf(format, args...)} }

// sort turns what a call ended with into what its method returns: a locked node is
// asked again, a node that went away is not registered.
func (c *call) sort(result provisioner.Result, err error) (provisioner.Result, error) {
	var v verdict
	switch {
	case err == nil:
		result.ErrorMessage = c.clean(result.ErrorMessage)
		return result, nil
	case errors.As(err, &v):
		return provisioner.Failed(c.clean(v.message)), nil
	case gophercloud.ResponseCodeIs(err, http.StatusConflict):
		logger.Debugf("node of host %s is busy: %v", c.host.Metadata.Name, plain(err))
		return provisioner.Again(c.c.BusyPoll), nil
	case gophercloud.ResponseCodeIs(err, http.StatusNotFound):
		return provisioner.Result{}, errors.Trace(provisioner.ErrNotRegistered)
	case gophercloud.ResponseCodeIs(err, http.StatusNotAcceptable):
		c.backend.mu.Lock()
		c.backend.version = "" // another Ironic answers now
		c.backend.mu.Unlock()
	}
	return provisioner.Result{}, errors.Annotatef(errors.New(c.clean(plain(err).Error())), "cannot manage host at %s through Ironic", c.address)
}

// plain turns a refusal of Ironic's into one line. Its body is JSON within JSON:
// {"error_message": "{\"faultstring\": ...}"}, or has the object itself there.
func plain(err error) error {
	var code gophercloud.ErrUnexpectedResponseCode
	if !errors.As(err, &code) {
		var u *url.Error
		if errors.As(err, &u) {
			if u.Timeout() {
				return errors.New("Ironic does not answer in time")
			}
			return errors.Annotate(u.Err, "cannot talk to Ironic")
		}
		return err
	}
	return errors.Errorf("Ironic answers %d: %s", code.Actual, faultString(code.Body))
}

// faultString returns the text of an error body.
func faultString(body []byte) string {
	type fault struct {
		FaultString, Title, Description string
	}
	var outer struct {
		Message json.RawMessage `json:"error_message"`
	}
	text := strings.TrimSpace(string(body))
	if json.Unmarshal(body, &outer) == nil && len(outer.Message) > 0 {
		var inner string
		if json.Unmarshal(outer.Message, &inner) == nil {
			text = inner
		} else {
			text = string(outer.Message)
		}
		var f fault
		if json.Unmarshal([]byte(text), &f) == nil {
			for _, s := range []string{f.FaultString, f.Description, f.Title} {
				if s != "" {
					return s
				}
			}
		}
	}
	if text == "" {
		return "no explanation"
	}
	return text
}

// maxMessage bounds what is passed on of Ironic's words, in bytes.
const maxMessage = 600

// clean makes one printable line of Ironic's words, without the BMC's password.
func (p *hostProvisioner) clean(message string) string {
	if p.creds.Password != "" {
		message = strings.ReplaceAll(message, p.creds.Password, "[redacted]")
	}
	message = strings.Join(strings.Fields(strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == '\uFFFD' {
			return ' '
		}
		return r
	}, message)), " ")
	if len(message) > maxMessage {
		message = strings.ToValidUTF8(message[:maxMessage], "") + "..."
	}
	return message
}

// maxBody bounds one answer, in bytes: a node is some 10 kB, an inventory of a big
// machine some 200 kB.
const maxBody = 8 << 20

// bounded is a transport that reads no more than maxBody of an answer.
type bounded struct{ inner http.RoundTripper }

// RoundTrip is described by http.RoundTripper.
func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := b.inner.RoundTrip(r)
	if err == nil {
		resp.Body = struct {
			io.Reader
			io.Closer
		}{io.LimitReader(resp.Body, maxBody), resp.Body}
	}
	return resp, err
}
