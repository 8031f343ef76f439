package fakebmc

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/juju/errors"
)

// FaultKind is a way in which a request goes wrong.
type FaultKind string

// The kinds of fault.
const (
	FaultStatus      FaultKind = "status"       // answer Status instead
	FaultGarbage     FaultKind = "garbage"      // 200 with something that is not JSON
	FaultHalfJSON    FaultKind = "half-json"    // 200 with JSON that breaks off
	FaultWrongJSON   FaultKind = "wrong-json"   // 200 with JSON whose fields have the wrong types
	FaultHuge        FaultKind = "huge"         // 200 with 10 MB of JSON
	FaultRedirect    FaultKind = "redirect"     // 302 to itself, for ever
	FaultRedirectOff FaultKind = "redirect-off" // 302 to Location
	FaultHang        FaultKind = "hang"         // no answer until the client gives up
	FaultClose       FaultKind = "close"        // the connection is closed
	FaultDrip        FaultKind = "drip"         // one byte a second
	FaultIgnore      FaultKind = "ignore"       // 204, and nothing happens
)

// Fault makes requests go wrong.
type Fault struct {
	Kind FaultKind `json:"kind"`
	// Method and Path choose requests: an exact method and a part of the path;
	// empty: all.
	Method string `json:"method,omitempty"`
	Path   string `json:"path,omitempty"`
	// Times is how many requests it strikes; 0: all.
	Times    int    `json:"times,omitempty"`
	Status   int    `json:"status,omitempty"`
	Location string `json:"location,omitempty"`
}

// Validate returns an error satisfying errors.NotValid if the fault makes no
// sense.
func (f Fault) Validate() error {
	if f.Times < 0 {
		return errors.NotValidf("fault that strikes %d times", f.Times)
	}
	switch f.Kind {
	case FaultStatus:
		if f.Status < 200 || f.Status > 599 {
			return errors.NotValidf("fault with status %d", f.Status)
		}
	case FaultRedirectOff:
		if f.Location == "" {
			return errors.NotValidf("fault %q without location", f.Kind)
		}
	case FaultGarbage, FaultHalfJSON, FaultWrongJSON, FaultHuge, FaultRedirect, FaultHang, FaultClose, FaultDrip, FaultIgnore:
	default:
		return errors.NotValidf("fault kind %q", f.Kind)
	}
	return nil
}

// Inject adds a fault. Of several that fit a request the first added strikes.
func (b *BMC) Inject(f Fault) error {
	if err := f.Validate(); err != nil {
		return errors.Trace(err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.faults = append(b.faults, &f)
	return nil
}

// ClearFaults removes all faults.
func (b *BMC) ClearFaults() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.faults = nil
}

// strikes returns the fault that meets the request, or nil.
func (b *BMC) strikes(r *http.Request) *Fault {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, f := range b.faults {
		if f.Method != "" && f.Method != r.Method || !strings.Contains(r.URL.Path, f.Path) {
			continue
		}
		hit := *f
		if f.Times > 0 {
			if f.Times--; f.Times == 0 {
				b.faults = append(b.faults[:i:i], b.faults[i+1:]...)
			}
		}
		return &hit
	}
	return nil
}

// hugeSize is how much JSON FaultHuge sends, in bytes.
const hugeSize = 10 << 20

// strike answers a request the way of the fault.
func (f *Fault) strike(b *BMC, w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	switch f.Kind {
	case FaultStatus:
		writeError(w, f.Status, "GeneralError", "A simulated fault.")
	case FaultGarbage:
		_, _ = io.WriteString(w, "<html>\x00\xff\xfe BMC v0.1 core dumped</html>")
	case FaultHalfJSON:
		_, _ = io.WriteString(w, `{"@odata.id": "/redfish/v1/", "Id": "RootService", "Systems": {"@oda`)
	case FaultWrongJSON:
		_, _ = io.WriteString(w, `{"@odata.id": 5, "Id": [], "PowerState": {}, "Boot": "Cd", "Members": "none", "Systems": [], "Actions": 7}`)
	case FaultHuge:
		_, _ = io.WriteString(w, `{"Name":"`)
		_, _ = w.Write(bytes.Repeat([]byte("A"), hugeSize))
		_, _ = io.WriteString(w, `"}`)
	case FaultRedirect:
		http.Redirect(w, r, r.URL.Path, http.StatusFound)
	case FaultRedirectOff:
		http.Redirect(w, r, f.Location, http.StatusFound)
	case FaultHang:
		b.stall(r, 0)
	case FaultClose:
		panic(http.ErrAbortHandler)
	case FaultDrip:
		control := http.NewResponseController(w)
		_, _ = io.WriteString(w, `{"Name":"`)
		for b.stall(r, time.Second) {
			_, _ = io.WriteString(w, "A")
			if control.Flush() != nil {
				return
			}
		}
	case FaultIgnore:
		w.WriteHeader(http.StatusNoContent)
	}
}

// stall waits for d (0: for ever) and reports whether it passed before the client
// went away or the BMC was closed.
func (b *BMC) stall(r *http.Request, d time.Duration) bool {
	var over <-chan time.Time
	if d > 0 {
		timer := time.NewTimer(d)
		defer timer.Stop()
		over = timer.C
	}
	select {
	case <-over:
		return true
	case <-r.Context().Done():
	case <-b.tomb.Dying():
	}
	return false
}
