package fakebmc

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/juju/errors"
	"github.com/juju/loggo"
	"gopkg.in/tomb.v2"

	"github.com/slipway-project/slipway/environs/baremetal/bmc"
)

var logger = loggo.GetLogger("slipway.environs.baremetal.fakebmc")

// Config describes a BMC. The zero value is usable: one machine in memory that
// does everything at once and lets anyone in.
type Config struct {
	Vendor string // a name from Vendors; empty: "generic"
	// Systems is how many machines are behind the BMC; 0: one.
	Systems int
	// FirstSystem is added to the machines' numbers, so that no two of a rack have
	// the same MAC addresses and serial numbers.
	FirstSystem int
	// Machine makes the machine of system n, counted from 0; nil: Memory{}.
	Machine func(n int) Machine
	// Credentials are what the BMC accepts; without a password, anything.
	Credentials bmc.Credentials
	// NoBasic and NoSessions switch a way to authenticate off.
	NoBasic, NoSessions bool
	// MaxSessions is how many sessions may be open; 0: 16.
	MaxSessions int
	Delays      Delays
}

// Delays are how long things take. The zero value is no time at all.
type Delays struct {
	Request  time.Duration `json:"request"`   // every request
	PowerOn  time.Duration `json:"power-on"`  // from off to on, and a boot
	PowerOff time.Duration `json:"power-off"` // by force
	SoftOff  time.Duration `json:"soft-off"`  // by asking the operating system
	Media    time.Duration `json:"media"`     // inserting and ejecting
}

// BMC is one management controller. Its methods may be called from any
// goroutine. It must be closed.
type BMC struct {
	config  Config
	vendor  Vendor
	mux     *http.ServeMux
	tomb    tomb.Tomb
	life    sync.Mutex // held to start a goroutine and to kill the tomb
	uuid    string
	systems []*System

	mu            sync.Mutex
	faults        []*Fault
	credentials   bmc.Credentials
	sessions      map[string]session // by token
	subscriptions map[string]subscription
	nextID        int
	loggedIn      int // how many sessions were ever opened

	inFlight, maxInFlight, requests atomic.Int64
}

// New returns a BMC. The error satisfies errors.NotFound if there is no such
// vendor.
func New(c Config) (*BMC, error) {
	vendor, ok := VendorNamed(c.Vendor)
	if !ok {
		return nil, errors.NotFoundf("BMC vendor %q", c.Vendor)
	}
	if c.Systems == 0 {
		c.Systems = 1
	}
	if c.MaxSessions == 0 {
		c.MaxSessions = 16
	}
	b := &BMC{config: c, vendor: vendor, credentials: c.Credentials, uuid: uuid("bmc", c.FirstSystem),
		sessions: make(map[string]session), subscriptions: make(map[string]subscription)}
	b.tomb.Go(func() error { // so that the tomb lives until Close
		<-b.tomb.Dying()
		return nil
	})
	for n := range c.Systems {
		b.systems = append(b.systems, newSystem(b, n))
	}
	b.mux = b.routes()
	return b, nil
}

// Close stops the machines and waits for all that is under way.
func (b *BMC) Close() error {
	b.life.Lock()
	b.tomb.Kill(nil)
	b.life.Unlock()
	for _, s := range b.systems {
		s.close()
	}
	return errors.Trace(b.tomb.Wait())
}

// System returns machine n, counted from 0.
func (b *BMC) System(n int) *System { return b.systems[n] }

// SetCredentials changes what the BMC accepts, and ends all sessions.
func (b *BMC) SetCredentials(c bmc.Credentials) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.credentials = c
	clear(b.sessions)
}

// Stats are counts since a BMC was made.
type Stats struct {
	Requests    int64 `json:"requests"`
	MaxInFlight int64 `json:"max-in-flight"` // the most requests served at one time
	Sessions    int   `json:"sessions"`      // open now
	LoggedIn    int   `json:"logged-in"`     // ever opened
}

// Stats returns the counts.
func (b *BMC) Stats() Stats {
	b.mu.Lock()
	defer b.mu.Unlock()
	return Stats{Requests: b.requests.Load(), MaxInFlight: b.maxInFlight.Load(), Sessions: len(b.sessions), LoggedIn: b.loggedIn}
}

// ServeHTTP serves Redfish, and below /fakebmc the control of faults.
func (b *BMC) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.HasPrefix(r.URL.Path, "/fakebmc/") {
		b.control(w, r)
		return
	}
	b.requests.Add(1)
	now := b.inFlight.Add(1)
	defer b.inFlight.Add(-1)
	for most := b.maxInFlight.Load(); now > most && !b.maxInFlight.CompareAndSwap(most, now); {
		most = b.maxInFlight.Load()
	}
	if d := b.config.Delays.Request; d > 0 && !b.stall(r, d) {
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, 1<<20)
	if f := b.strikes(r); f != nil {
		logger.Debugf("%s %s meets fault %s", r.Method, r.URL.Path, f.Kind)
		f.strike(b, w, r)
		return
	}
	w.Header().Set("OData-Version", "4.0")
	path := strings.TrimRight(r.URL.Path, "/")
	if !public(r.Method, path) && !b.allowed(r) {
		w.Header().Set("WWW-Authenticate", `Basic realm="BMC"`)
		writeError(w, http.StatusUnauthorized, "NoValidSession", "There is no valid session established with the implementation.")
		return
	}
	r.URL.Path, r.URL.RawPath = path, ""
	b.mux.ServeHTTP(w, r)
}

// public reports whether a request needs no authentication (DSP0266, 13.3.2).
func public(method, path string) bool {
	switch path {
	case "/redfish", "/redfish/v1", "/redfish/v1/odata":
		return method == http.MethodGet || method == http.MethodHead
	case "/redfish/v1/SessionService/Sessions":
		return method == http.MethodPost
	}
	return false
}

// allowed reports whether the request's session or password is good.
func (b *BMC) allowed(r *http.Request) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if token := r.Header.Get("X-Auth-Token"); token != "" {
		_, ok := b.sessions[token]
		return ok
	}
	user, password, ok := r.BasicAuth()
	if b.credentials.Password == "" {
		return true
	}
	return ok && !b.config.NoBasic && user == b.credentials.Username && password == b.credentials.Password
}

// doc is a JSON object.
type doc = map[string]any

// link returns a reference to a resource.
func link(path string) doc { return doc{"@odata.id": path} }

// collection returns a collection of the resources at paths.
func collection(path, name string, paths []string) doc {
	members := make([]doc, 0, len(paths))
	for _, p := range paths {
		members = append(members, link(p))
	}
	return doc{"@odata.id": path, "Name": name, "Members": members, "Members@odata.count": len(members)}
}

// writeJSON answers with a resource and its ETag.
func writeJSON(w http.ResponseWriter, status int, v doc) {
	data, err := json.Marshal(v)
	if err != nil {
		writeError(w, http.StatusInternalServerError, "InternalError", err.Error())
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if tag, ok := v["@odata.etag"].(string); ok {
		w.Header().Set("ETag", tag)
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(data)))
	w.WriteHeader(status)
	_, _ = w.Write(data)
}

// writeError answers with a Redfish error.
func writeError(w http.ResponseWriter, status int, id, message string) {
	data, _ := json.Marshal(doc{"error": doc{
		"code": "Base.1.8." + id, "message": message,
		"@Message.ExtendedInfo": []doc{{"MessageId": "Base.1.8." + id, "Message": message, "Severity": "Critical"}},
	}})
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(data)
}

// readBody decodes a request's JSON object; no body is an empty one.
func readBody(w http.ResponseWriter, r *http.Request, into any) bool {
	data, err := io.ReadAll(r.Body)
	if err == nil && len(data) > 0 {
		err = json.Unmarshal(data, into)
	}
	if err != nil {
		writeError(w, http.StatusBadRequest, "MalformedJSON", "The request body could not be understood.")
	}
	return err == nil
}

// uuid returns a UUID that follows from kind and n.
func uuid(kind string, n int) string {
	return fmt.Sprintf("%08x-%04x-4000-8000-%012x", n, len(kind), n)
}

// token returns a fresh secret.
func token() string { return rand.Text() }
