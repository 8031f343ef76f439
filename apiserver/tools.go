package apiserver

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/core/binaries"
	"github.com/slipway-project/slipway/params"
	"github.com/slipway-project/slipway/state"
)

// The parameters of an upload of an agent binary, in the request's query.
const (
	versionParam = "binaryVersion"
	sumParam     = "sha256" // optional: what the bytes must have
)

// sumHeader tells the SHA-256 of a binary that is downloaded.
const sumHeader = "X-Content-SHA256"

// toolsRoutes returns the routes of agent binaries: superusers upload them, and
// whoever can reach the server downloads them, for a machine has nothing to prove
// itself with before its agent runs.
func (s *Server) toolsRoutes() []route {
	upload := s.RequireSuperuser(http.HandlerFunc(s.uploadTools)).ServeHTTP
	return []route{
		{"POST /model/{uuid}/tools", upload},
		{"POST /tools", upload},
		{"GET /model/{uuid}/tools/{version}", s.downloadTools},
		{"GET /tools/{version}", s.downloadTools},
	}
}

// uploadTools keeps an agent binary.
func (s *Server) uploadTools(w http.ResponseWriter, r *http.Request) {
	kept, err := s.keepTools(r)
	if err != nil {
		httpError(w, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(kept) // a client that has gone needs no answer
}

func (s *Server) keepTools(r *http.Request) (params.ToolsResult, error) {
	if uuid := r.PathValue("uuid"); uuid != "" {
		if _, err := s.cfg.Controller.State(r.Context(), uuid); err != nil {
			return params.ToolsResult{}, errors.Trace(err)
		}
	}
	v, err := binaries.Parse(r.URL.Query().Get(versionParam))
	if err != nil {
		return params.ToolsResult{}, errors.WithType(errors.Errorf(
			"%s %q is not the version of an agent binary (use a form such as 2.0.0-jammy-amd64)", versionParam, r.URL.Query().Get(versionParam)), errors.BadRequest)
	}
	sum := r.URL.Query().Get(sumParam)
	if raw, err := hex.DecodeString(sum); err != nil || sum != "" && len(raw) != 32 {
		return params.ToolsResult{}, errors.WithType(errors.Errorf("%s %q is not a SHA-256 in hexadecimal", sumParam, sum), errors.BadRequest)
	}
	if r.ContentLength > state.MaxBinary {
		return params.ToolsResult{}, errors.WithType(errors.Annotatef(state.ErrTooBig, "%d", r.ContentLength), errors.BadRequest)
	}
	b, err := s.cfg.Controller.Binaries().Upload(r.Context(), v, r.Body, sum)
	if errors.Is(err, errors.NotValid) || errors.Is(err, state.ErrTooBig) {
		err = errors.WithType(err, errors.BadRequest)
	}
	if err != nil {
		return params.ToolsResult{}, errors.Trace(err)
	}
	name, _, _ := r.BasicAuth()
	logger.Infof("%s uploaded agent binary %s of %d bytes with SHA-256 %s", name, b.Version, b.Size, b.SHA256)
	return params.ToolsResult{Tools: []params.Tools{{Version: b.Version.String(), SHA256: b.SHA256, Size: b.Size}}}, nil
}

// downloadTools sends an agent binary. It does not look at the model in the
// path, so that nobody learns from it which models there are.
func (s *Server) downloadTools(w http.ResponseWriter, r *http.Request) {
	all := s.cfg.Controller.Binaries()
	v, err := binaries.Parse(r.PathValue("version"))
	if err != nil {
		httpError(w, errors.NotFoundf("agent binary %q", r.PathValue("version")))
		return
	}
	b, err := all.Get(r.Context(), v)
	if err != nil {
		httpError(w, err)
		return
	}
	w.Header().Set("Content-Type", "application/x-tar-gz")
	w.Header().Set(sumHeader, b.SHA256)
	w.Header().Set("ETag", `"`+b.SHA256+`"`)
	if r.Header.Get("Range") != "" { // a download that was broken off goes on; the client compares the sum
		http.ServeContent(w, r, "", time.Time{}, all.Reader(r.Context(), b))
		return
	}
	w.Header().Set("Accept-Ranges", "bytes")
	w.Header().Set("Content-Length", strconv.FormatInt(b.Size, 10))
	if r.Method == http.MethodHead {
		return
	}
	if err := all.WriteTo(r.Context(), b, w); err != nil {
		if !errors.Is(err, context.Canceled) {
			logger.Warningf("sending agent binary %s: %v", v, err)
		}
		panic(http.ErrAbortHandler) // so that the client sees that it has not got all of it
	}
}
