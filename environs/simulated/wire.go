package simulated

import (
	"net/http"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/core/kind"
	"github.com/slipway-project/slipway/environs"
)

// The paths of the rack's HTTP interface. Every request has a bearer token;
// bodies are JSON.
const (
	pathRack      = "/v1/rack"      // GET: Description
	pathStart     = "/v1/start"     // POST StartRequest: StartReply
	pathStop      = "/v1/stop"      // POST StopRequest: stopReply
	pathList      = "/v1/list"      // POST ListRequest: []environs.Instance
	pathBehaviour = "/v1/behaviour" // GET, PUT: Behaviour
	pathFaults    = "/v1/faults"    // POST MachineFault
)

// maxBody bounds what either side reads: a list of 10,000 instances is about
// 6 MB.
const maxBody = 64 << 20

// wireError is an error on its way: its text, and its kind by name.
type wireError struct {
	Message string `json:"error"`
	Kind    string `json:"kind,omitempty"`
}

// stopReply has one entry for each instance that was to be stopped; null means
// that it is gone.
type stopReply struct {
	Results []*wireError `json:"results"`
}

// kinds is the table of kinds of error that are the same on both sides.
var kinds = []struct {
	name   string
	kind   errors.ConstError
	status int
}{
	{"permanent", environs.ErrPermanent, http.StatusUnprocessableEntity},
	{"zone", environs.ErrZone, http.StatusConflict},
	{"busy", environs.ErrBusy, http.StatusServiceUnavailable},
	{"lease-denied", kind.LeaseDenied, http.StatusConflict},
	{"already-exists", errors.AlreadyExists, http.StatusConflict},
	{"not-valid", errors.NotValid, http.StatusBadRequest},
	{"unauthorized", errors.Unauthorized, http.StatusUnauthorized},
	{"not-found", errors.NotFound, http.StatusNotFound},
}

// toWire returns err as it travels, and the HTTP status that goes with it.
func toWire(err error) (*wireError, int) {
	if err == nil {
		return nil, http.StatusOK
	}
	for _, k := range kinds {
		if errors.Is(err, k.kind) {
			return &wireError{err.Error(), k.name}, k.status
		}
	}
	return &wireError{Message: err.Error()}, http.StatusInternalServerError
}

// error returns the error that travelled; nil for nil.
func (w *wireError) error() error {
	if w == nil {
		return nil
	}
	for _, k := range kinds {
		if k.name == w.Kind {
			return errors.WithType(errors.New(w.Message), k.kind)
		}
	}
	return errors.New(w.Message)
}
