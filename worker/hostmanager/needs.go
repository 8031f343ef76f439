package hostmanager

import (
	"context"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/environs/baremetal/bmc"
	metal3v1alpha1 "github.com/slipway-project/slipway/environs/baremetal/metal3/v1alpha1"
	"github.com/slipway-project/slipway/environs/baremetal/provisioner"
	"github.com/slipway-project/slipway/watcher"
)

// ErrNotOwner is returned by a Store when another host manager has taken over.
// The manager then stops at once.
const ErrNotOwner = errors.ConstError("another host manager has taken over")

// Store is where host records are kept. An error that satisfies errors.NotFound
// says that the host is gone.
type Store interface {
	// WatchHosts names the hosts whose spec, metadata, credentials or requests
	// changed; what Save writes wakes nobody.
	WatchHosts(ctx context.Context) (watcher.StringsWatcher, error)
	// Hosts returns the records of the hosts that there are among ids.
	Hosts(ctx context.Context, ids []string) ([]Record, error)
	// Intend notes that this manager may act on the host until a time, which
	// replaces what was noted before. It must have been noted durably when it
	// returns. A time that has passed takes the intent back.
	Intend(ctx context.Context, id string, until time.Time) error
	// Save replaces what the manager knows of the host.
	Save(ctx context.Context, id string, update Update) error
	// Remove removes the record, after the host was let go.
	Remove(ctx context.Context, id string, events []Event) error
}

// Record is a host with all that is needed to work on it.
type Record struct {
	ID       string
	Host     *metal3v1alpha1.BareMetalHost
	Progress Progress

	// Credentials are the BMC's; they may be missing. CredentialsVersion changes
	// whenever they do.
	Credentials        bmc.Credentials
	CredentialsVersion string
	// Config is read when an image is about to be written; nil: no data.
	Config provisioner.HostConfigData

	// Retries counts the requests to try again at once.
	Retries int
	// Force removes the host without waiting for what cannot be had.
	Force bool
	// ForeignUntil is until when another manager may still act on the host.
	ForeignUntil time.Time
}

// Progress says what a host waits for. It is saved with the status.
type Progress struct {
	// Owner is who has to act: OwnerManager, OwnerQueue or OwnerOperator; empty: nobody,
	// the host is where it should be.
	Owner string `json:"owner,omitempty"`
	// Reason is what is waited for, or what went wrong.
	Reason string `json:"reason,omitempty"`
	// Since is when the host began to wait for it.
	Since time.Time `json:"since,omitzero"`
	// Deadline is when waiting turns into an error; zero: never.
	Deadline time.Time `json:"deadline,omitzero"`
	// NextTry is when a failed operation is tried again; zero: it has not failed, or
	// only a change helps.
	NextTry time.Time `json:"next-try,omitzero"`
	// Place is the host's place in the queue, from 1; 0: it does not queue.
	Place int `json:"place,omitempty"`
	// Faults is how often the back end was out of reach in a row.
	Faults int `json:"faults,omitempty"`
}

// The owners of a host's progress.
const (
	OwnerManager  = "host manager"
	OwnerQueue    = "queue"
	OwnerOperator = "operator"
)

// Event is something that people may want to know of.
type Event struct {
	Reason  string // one word in CamelCase
	Message string
	Time    time.Time
}

// Update is what a pass found out.
type Update struct {
	Status   metal3v1alpha1.BareMetalHostStatus
	Progress Progress
	// ClearAnnotations are those that have been dealt with.
	ClearAnnotations []string
	Events           []Event
}
