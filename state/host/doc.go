// Package host keeps the bare-metal hosts of a site.
//
// A host is two documents: what people want of it, with the sealed credentials of
// its BMC, and what its manager found out. A manager that reports wakes nobody who
// follows what people want. A host that is a machine's has a third, sealed: what the
// machine is configured with.
//
// The place of a BMC and the MAC address that a host boots from are claims: no
// two hosts have the same. Credentials go in, and come out for the one manager
// that holds the site's lease; what people read tells only whether there are any.
package host

import (
	"encoding/json"
	"time"

	"github.com/juju/errors"

	metal3v1alpha1 "github.com/slipway-project/slipway/environs/baremetal/metal3/v1alpha1"
	"github.com/slipway-project/slipway/state"
	"github.com/slipway-project/slipway/store"
)

// Consumer is the machine that a host belongs to.
type Consumer struct {
	ModelUUID string `json:"model-uuid"`
	MachineID string `json:"machine-id"`
	Nonce     string `json:"nonce,omitempty"` // that the machine is started with
}

// Progress says what a host waits for: who has to act, why, and until when. See
// hostmanager.Progress, whose fields these are.
type Progress struct {
	Owner    string    `json:"owner,omitempty"`
	Reason   string    `json:"reason,omitempty"`
	Since    time.Time `json:"since,omitzero"`
	Deadline time.Time `json:"deadline,omitzero"`
	NextTry  time.Time `json:"next-try,omitzero"`
	Place    int       `json:"place,omitempty"`
	Faults   int       `json:"faults,omitempty"`
}

// Event is something that happened to a host.
type Event struct {
	Reason  string    `json:"reason"`
	Message string    `json:"message"`
	Time    time.Time `json:"time"`
}

// maxEvents is how many events are kept of a host.
const maxEvents = 20

// hostDoc is what people want of a host.
type hostDoc struct {
	Metadata           metal3v1alpha1.ObjectMeta        `json:"metadata"`
	Spec               metal3v1alpha1.BareMetalHostSpec `json:"spec"`
	Sealed             string                           `json:"sealed,omitempty"` // credentials
	CredentialsVersion int                              `json:"credentials-version,omitempty"`
	ReserveFor         string                           `json:"reserve-for,omitempty"`
	Consumer           *Consumer                        `json:"consumer,omitempty"`
	Retries            int                              `json:"retries,omitempty"`
	Force              bool                             `json:"force,omitempty"`
}

// statusDoc is what the manager found out about a host.
type statusDoc struct {
	Status   metal3v1alpha1.BareMetalHostStatus `json:"status"`
	Progress Progress                           `json:"progress"`
	Events   []Event                            `json:"events,omitempty"` // the newest last
	Intent   intent                             `json:"intent,omitzero"`
}

// intent says until when the manager of an epoch may act on the host.
type intent struct {
	Epoch int64     `json:"epoch"`
	Until time.Time `json:"until"`
}

// claimDoc keeps a name for one host.
type claimDoc struct {
	Holder string `json:"holder"`
}

// Host is a host as people see it.
type Host struct {
	Name   string
	Record *metal3v1alpha1.BareMetalHost // the host's own
	// ReserveFor is the UUID of the only model whose machines may get the host;
	// empty means any.
	ReserveFor string
	Consumer   *Consumer // nil: it is free
	Progress   Progress
	Events     []Event // the newest last
	Retries    int     // requests to try again at once
	Force      bool    // it is being removed by force

	HasCredentials     bool
	CredentialsVersion int // grows whenever they are set
}

// pair is a host's documents.
type pair struct {
	name               string
	host               hostDoc
	status             statusDoc
	hostRev, statusRev store.Rev
}

// decodePair reads a host's documents. The one with the status may be missing.
func decodePair(name string, h, s store.Doc) (*pair, error) {
	p := &pair{name: name, hostRev: h.Rev, statusRev: s.Rev}
	if err := json.Unmarshal(h.Data, &p.host); err != nil {
		return nil, errors.Annotatef(err, "cannot decode host %q", name)
	}
	if s.Rev == 0 {
		return p, nil
	}
	err := json.Unmarshal(s.Data, &p.status)
	return p, errors.Annotatef(err, "cannot decode the status of host %q", name)
}

// public returns the host as people see it.
func (p *pair) public() Host {
	return Host{
		Name: p.name,
		Record: &metal3v1alpha1.BareMetalHost{
			APIVersion: metal3v1alpha1.APIVersion, Kind: metal3v1alpha1.Kind,
			Metadata: p.host.Metadata, Spec: p.host.Spec, Status: p.status.Status,
		},
		ReserveFor: p.host.ReserveFor, Consumer: p.host.Consumer,
		Progress: p.status.Progress, Events: p.status.Events,
		Retries: p.host.Retries, Force: p.host.Force,
		HasCredentials: p.host.Sealed != "", CredentialsVersion: p.host.CredentialsVersion,
	}
}

// writeOp returns the operation that writes v over the document read at rev, or as
// a new one when rev is zero.
func writeOp(key store.Key, rev store.Rev, v any) (store.Op, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return store.Op{}, errors.Annotatef(err, "cannot encode document %s %q", key.Collection, key.ID)
	}
	if rev == 0 {
		return store.Insert(key, data, nil), nil
	}
	return store.Replace(key, rev, data, nil), nil
}

// Hosts is the handle on the hosts of a site.
type Hosts struct{ docs *state.SiteDocs }

// New returns the handle. Behind a fence, all writes need the site's lease.
func New(docs *state.SiteDocs) *Hosts { return &Hosts{docs} }

func (hs *Hosts) hostKey(name string) store.Key {
	return hs.docs.Key(state.HostsCollection, name)
}

func (hs *Hosts) statusKey(name string) store.Key {
	return hs.docs.Key(state.HostStatusCollection, name)
}

func (hs *Hosts) dataKey(name string) store.Key {
	return hs.docs.Key(state.HostDataCollection, name)
}
