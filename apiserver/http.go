package apiserver

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/apiserver/common"
	"github.com/slipway-project/slipway/core/access"
	"github.com/slipway-project/slipway/core/kind"
	"github.com/slipway-project/slipway/params"
	"github.com/slipway-project/slipway/state"
)

// nonceHeader carries the nonce of a machine.
const nonceHeader = "X-Juju-Nonce"

// identifyRequest returns who sent a request, by its credentials in HTTP Basic: a
// tag and a password. A nil st means the site as a whole.
func (s *Server) identifyRequest(r *http.Request, st *state.State) (caller, error) {
	began := time.Now()
	c := &connection{server: s, scope: onModel, state: st, remote: host(r.RemoteAddr)}
	if st == nil {
		site, err := s.cfg.Controller.State(r.Context(), s.cfg.Controller.ControllerModelUUID())
		if err != nil {
			return caller{}, errors.Trace(err)
		}
		c.scope, c.state = onController, site
	}
	name, password, ok := r.BasicAuth()
	if !ok {
		return caller{}, errors.WithType(errors.New("no credentials provided"), kind.NoCredentials)
	}
	q := params.LoginRequest{
		AuthTag: name, Credentials: params.Secret(password), Nonce: r.Header.Get(nonceHeader), CLIArgs: r.Method + " " + r.URL.Path,
	}
	ctx, cancel := context.WithTimeout(r.Context(), s.cfg.LoginTimeout)
	defer cancel()
	who, err := s.checked(q, func() (caller, error) {
		who, _, err := c.identify(ctx, q)
		return who, err
	})
	c.observeLogin(q, began, err)
	return who, errors.Trace(err)
}

// checked is identify, unless the configured check refuses the login.
func (s *Server) checked(q params.LoginRequest, identify func() (caller, error)) (caller, error) {
	if check := s.cfg.CheckLogin; check != nil {
		if err := check(q.AuthTag); err != nil {
			return caller{}, errors.Trace(err)
		}
	}
	return identify()
}

// RequireSuperuser returns h for superusers alone, who prove themselves with
// HTTP Basic. It must only be served over TLS.
func (s *Server) RequireSuperuser(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who, err := s.identifyRequest(r, nil)
		if err == nil && !who.controller.Includes(access.Superuser) {
			err = common.ErrPerm
		}
		if err != nil {
			httpError(w, err)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// httpError answers a request with an error.
func httpError(w http.ResponseWriter, err error) {
	e := common.ServerError(err)
	status := httpStatus(e.Code)
	if status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `Basic realm="juju"`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(errorBody{e}) // a client that has gone needs no answer
}

// errorBody is the body of a failure.
type errorBody struct {
	Error *params.Error `json:"error,omitempty"`
}

// httpStatus returns the status that goes with an error's code.
func httpStatus(code string) int {
	switch code {
	case params.CodeNotFound, params.CodeUserNotFound, params.CodeModelNotFound:
		return http.StatusNotFound
	case params.CodeUnauthorized, params.CodeNoCreds, params.CodeLoginExpired, params.CodeDischargeRequired:
		return http.StatusUnauthorized
	case params.CodeBadRequest, params.CodeOperationBlocked:
		return http.StatusBadRequest
	case params.CodeMethodNotAllowed:
		return http.StatusMethodNotAllowed
	case params.CodeForbidden:
		return http.StatusForbidden
	case params.CodeRetry, params.CodeTryAgain:
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}
