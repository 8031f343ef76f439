// Package install keeps what the installers of bare-metal hosts are to do, and what they
// report.
//
// # An order
//
// A host has one order at most: to install an image, or to wipe its disks. The host
// manager makes it; the host then boots the installer from a medium made for this
// one boot. Every boot has a number, which never repeats for a host, and a token of 256
// random bits. Whoever shows the token with a public key of its own gets a credential
// for the rest of the run. The same key may ask again for five minutes, since the reply
// may have got lost; another key means that two machines, or somebody else, have the
// token: the credential is revoked and the order has failed.
//
// # What is kept
//
// Of tokens and credentials only hashes can be read. What a repeated exchange or a
// medium needs, and the data that the machine is configured with, is sealed with the key of
// the site's hosts. The token follows from the secret in the medium's path, and both are dropped
// together: when the token is used, and otherwise after an hour.
//
// An order is one document, so a report is one write. The log of each boot is a document of
// its own, which wakes nobody but those who follow it; it keeps its beginning and its
// end. Heartbeats are written twice a minute at most.
package install

import (
	"encoding/json"
	"time"

	"github.com/juju/errors"
	"github.com/juju/loggo"

	metal3v1alpha1 "github.com/slipway-project/slipway/environs/baremetal/metal3/v1alpha1"
	"github.com/slipway-project/slipway/provision/config"
	"github.com/slipway-project/slipway/state"
	"github.com/slipway-project/slipway/store"
)

var logger = loggo.GetLogger("slipway.state.install")

const (
	// MediumLife is how long a medium can be fetched and its token be used.
	MediumLife = time.Hour
	// RepeatWindow is how long the key that used a token may repeat the exchange.
	RepeatWindow = 5 * time.Minute
	// heartbeatEvery is how often a heartbeat is written down at most.
	heartbeatEvery = 25 * time.Second
	// maxSteps bounds the reports of steps that are kept of a boot.
	maxSteps = 200
	// maxName bounds names that a machine gives: of steps, disks and hardware. In bytes.
	maxName = 200
	// maxParts bounds how many disks, and how many ports, a machine can have.
	maxParts = 256
	// maxBoots is how many boots of a host are remembered, with their logs.
	maxBoots = 6
)

// The reasons to turn an installer away. Whoever does not show a secret learns
// nothing: not whether there is such a host.
const (
	// ErrUnknown says that a token, a credential or a path is none of ours, or not any more.
	ErrUnknown = errors.ConstError("unknown installer")
	// ErrUsedTwice says that a token came with a second key.
	ErrUsedTwice = errors.ConstError("installer token used twice")
	// ErrOver says that a boot is over: it was replaced, has ended, or came too late.
	ErrOver = errors.ConstError("this boot of the installer is over")
)

// Purpose is what an installer is booted for.
type Purpose string

// The purposes.
const (
	PurposeInstall Purpose = "install"
	PurposeWipe    Purpose = "wipe"
)

// Phase is how far an order has come.
type Phase string

// The phases.
const (
	PhaseWaiting Phase = "waiting" // the installer has not reported yet
	PhaseRunning Phase = "running"
	PhaseDone    Phase = "done"
	PhaseFailed  Phase = "failed"
)

// Mark is a point that an order has passed, as the host manager says.
type Mark string

// The marks.
const (
	MarkPrepared  Mark = "prepared"
	MarkBooted    Mark = "booted"
	MarkEjected   Mark = "ejected"
	MarkRestarted Mark = "restarted"
)

// Order says what an installer is to do.
type Order struct {
	Purpose   Purpose                         `json:"purpose"`
	Soft      bool                            `json:"soft,omitempty"` // a wipe keeps the data and makes the system unbootable
	Host      string                          `json:"host"`           // the host's UID
	Name      string                          `json:"name"`           // the host's name, for people
	Image     metal3v1alpha1.Image            `json:"image,omitzero"`
	RootHints *metal3v1alpha1.RootDeviceHints `json:"root-hints,omitempty"`
	BootMAC   string                          `json:"boot-mac,omitempty"`
	KeepDisks []string                        `json:"keep-disks,omitempty"` // serials, WWNs or names that a wipe never touches
	Erase     bool                            `json:"erase,omitempty"`      // wipe by the drives' own command
	Network   config.Network                  `json:"network,omitzero"`     // how the installer reaches us; zero: DHCP

	Data Data `json:"-"`
}

// Data is what a machine is configured with. It may hold secrets, and prints none.
type Data struct {
	User    config.Secret `json:"user,omitempty"`
	Network config.Secret `json:"network,omitempty"`
	Meta    config.Secret `json:"meta,omitempty"` // YAML of a map; see the package's machineConfig
}

// Boot is one boot of the installer, as it is remembered.
type Boot struct {
	Number  int       `json:"number"`
	Purpose Purpose   `json:"purpose"`
	Started time.Time `json:"started"`
	Ended   time.Time `json:"ended,omitzero"` // zero: under way
	Phase   Phase     `json:"phase"`
	Message string    `json:"message,omitempty"` // why it ended otherwise than well
}

// Install is a host's order and how it stands.
type Install struct {
	Order
	Number  int // of the present boot
	Tries   int // boots of this order, from 1
	Phase   Phase
	Step    string // what the installer does now
	Message string // why it failed, in one line
	// Medium is the secret part of the path of what the host boots from; "" once that is
	// not served any more.
	Medium config.Secret

	Started                              time.Time // when the order was made
	BootStarted                          time.Time // when the present boot was ordered
	Heard                                time.Time // when the installer was last heard of; zero: never in this boot
	Prepared, Booted, Ejected, Restarted time.Time // when a Mark was passed; zero: not yet

	Steps     []config.Status // reports of the present boot, the oldest first
	Boots     []Boot          // the newest last; the last is the present one
	Inventory json.RawMessage // what the machine is made of, as the installer saw it
	Firmware  json.RawMessage
	Health    json.RawMessage
	Disk      config.DiskID // where the system was put
}

// secrets are sealed. They print nothing.
type secrets struct {
	Medium     config.Secret `json:"medium,omitempty"`     // the path's secret, from which the token follows
	Credential config.Secret `json:"credential,omitempty"` // for a repeated exchange
	Data       Data          `json:"data"`
}

// doc is a host's order as it is stored.
type doc struct {
	Order  Order  `json:"order"`
	Sealed string `json:"sealed,omitempty"`

	Number         int       `json:"number"`
	Tries          int       `json:"tries"`
	MediumHash     string    `json:"medium-hash,omitempty"`
	TokenHash      string    `json:"token-hash,omitempty"`
	MediumUntil    time.Time `json:"medium-until,omitzero"`
	Key            []byte    `json:"key,omitempty"` // of the installer that used the token
	Claimed        time.Time `json:"claimed,omitzero"`
	CredentialHash string    `json:"credential-hash,omitempty"`

	Phase       Phase     `json:"phase"`
	Step        string    `json:"step,omitempty"`
	Message     string    `json:"message,omitempty"`
	Started     time.Time `json:"started"`
	BootStarted time.Time `json:"boot-started"`
	Heard       time.Time `json:"heard,omitzero"`
	Prepared    time.Time `json:"prepared,omitzero"`
	Booted      time.Time `json:"booted,omitzero"`
	Ejected     time.Time `json:"ejected,omitzero"`
	Restarted   time.Time `json:"restarted,omitzero"`

	Steps     []config.Status `json:"steps,omitempty"`
	Boots     []Boot          `json:"boots,omitempty"`
	Inventory json.RawMessage `json:"inventory,omitempty"`
	Firmware  json.RawMessage `json:"firmware,omitempty"`
	Health    json.RawMessage `json:"health,omitempty"`
	Disk      config.DiskID   `json:"disk,omitzero"`
}

// public returns the order as its callers see it, without its data.
func (d *doc) public() Install {
	return Install{
		Order: d.Order, Number: d.Number, Tries: d.Tries, Phase: d.Phase, Step: d.Step, Message: d.Message,
		Started: d.Started, BootStarted: d.BootStarted, Heard: d.Heard,
		Prepared: d.Prepared, Booted: d.Booted, Ejected: d.Ejected, Restarted: d.Restarted,
		Steps: d.Steps, Boots: d.Boots, Inventory: d.Inventory, Firmware: d.Firmware, Health: d.Health, Disk: d.Disk,
	}
}

// end notes how the present boot ended.
func (d *doc) end(now time.Time, phase Phase, message string) {
	d.Phase, d.Message = phase, message
	if n := len(d.Boots); n > 0 {
		d.Boots[n-1].Ended, d.Boots[n-1].Phase, d.Boots[n-1].Message = now, phase, message
	}
}

// Installs is the handle on the orders of a site.
type Installs struct{ docs *state.SiteDocs }

// New returns the handle. Behind a fence, all writes need the site's lease.
func New(docs *state.SiteDocs) *Installs { return &Installs{docs} }

func (is *Installs) key(host string) store.Key {
	return is.docs.Key(state.InstallsCollection, host)
}
