package params

import (
	"encoding/json"
	"time"

	"github.com/slipway-project/slipway/core/constraints"
)

// The facade Hosts is an addition of this project to the protocol: the bare-metal
// hosts of a site. List, and what changes what is wanted of hosts, is for
// controller superusers; Watch, Managed, Data, Intend, Save and Forget are for the
// manager agent that holds the site's lease; Allocate, Release, Consumed,
// WatchConsumed and Zones for the one that holds its model's. Records, specs and statuses are
// JSON of the resource BareMetalHost, whose keys are its own.

// HostNames names hosts.
type HostNames struct {
	Names []string `json:"names"` // for Hosts.List: none means all
}

// HostConsumer is the machine that a host belongs to.
type HostConsumer struct {
	ModelUUID string `json:"model-uuid"`
	MachineID string `json:"machine-id"`
}

// HostProgress says what a host waits for.
type HostProgress struct {
	Owner    string    `json:"owner,omitempty"` // who has to act; empty: nobody
	Reason   string    `json:"reason,omitempty"`
	Since    time.Time `json:"since,omitzero"`
	Deadline time.Time `json:"deadline,omitzero"` // when waiting turns into an error
	NextTry  time.Time `json:"next-try,omitzero"`
	Place    int       `json:"place,omitempty"` // in the queue, from 1
	Faults   int       `json:"faults,omitempty"`
}

// HostEvent is something that happened to a host.
type HostEvent struct {
	Reason  string    `json:"reason"`
	Message string    `json:"message"`
	Time    time.Time `json:"time"`
}

// Host describes a host. It holds no secrets.
type Host struct {
	Name           string          `json:"name"`
	Record         json.RawMessage `json:"record"`                // a BareMetalHost
	ReserveFor     string          `json:"reserve-for,omitempty"` // a model's UUID
	Consumer       *HostConsumer   `json:"consumer,omitempty"`
	Progress       HostProgress    `json:"progress"`
	Events         []HostEvent     `json:"events,omitempty"` // the newest last
	HasCredentials bool            `json:"has-credentials"`
}

// HostResult holds a host, or an error.
type HostResult struct {
	Result *Host  `json:"result,omitempty"`
	Error  *Error `json:"error,omitempty"`
}

// HostResults are the results of Hosts.List.
type HostResults struct {
	Results []HostResult `json:"results"`
}

// HostCredentials are what one logs in to a BMC with.
type HostCredentials struct {
	Username Secret `json:"username,omitempty"`
	Password Secret `json:"password,omitempty"`
}

// AddHost says what host to add.
type AddHost struct {
	Name        string            `json:"name,omitempty"` // empty: made of the boot MAC address
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
	Spec        json.RawMessage   `json:"spec"` // of a BareMetalHost
	Credentials HostCredentials   `json:"credentials,omitzero"`
	ReserveFor  string            `json:"reserve-for,omitempty"` // a model's UUID
}

// AddHosts are the parameters of Hosts.Add.
type AddHosts struct {
	Hosts []AddHost `json:"hosts"`
}

// AddHostResult holds a new host's name, or an error.
type AddHostResult struct {
	Name  string `json:"name,omitempty"`
	Error *Error `json:"error,omitempty"`
}

// AddHostResults are the results of Hosts.Add.
type AddHostResults struct {
	Results []AddHostResult `json:"results"`
}

// HostAction asks something of a host: power-on, power-off, reboot, hard-reboot,
// inspect, maintenance-on, maintenance-off, retry, remove or remove-by-force.
type HostAction struct {
	Name   string `json:"name"`
	Action string `json:"action"`
}

// HostActions are the parameters of Hosts.Do, whose results are ErrorResults.
type HostActions struct {
	Actions []HostAction `json:"actions"`
}

// SetHostCredentials gives a host's BMC other credentials.
type SetHostCredentials struct {
	Name        string          `json:"name"`
	Credentials HostCredentials `json:"credentials"`
}

// SetHostsCredentials are the parameters of Hosts.SetCredentials, whose results are
// ErrorResults.
type SetHostsCredentials struct {
	Hosts []SetHostCredentials `json:"hosts"`
}

// ManagedHost is a host as its manager sees it.
type ManagedHost struct {
	Host
	Credentials        HostCredentials `json:"credentials,omitzero"`
	CredentialsVersion int             `json:"credentials-version,omitempty"`
	Retries            int             `json:"retries,omitempty"`     // requests to try again at once
	Force              bool            `json:"force,omitempty"`       // it is being removed by force
	ForeignFor         time.Duration   `json:"foreign-for,omitempty"` // nanoseconds for which another manager may still act
}

// ManagedHosts is the result of Hosts.Managed: those of the named that there are.
type ManagedHosts struct {
	Hosts []ManagedHost `json:"hosts"`
}

// HostIntent says for how long the manager may act on a host.
type HostIntent struct {
	Name string        `json:"name"`
	For  time.Duration `json:"for"` // nanoseconds, from now
}

// HostIntents are the parameters of Hosts.Intend, whose results are ErrorResults.
type HostIntents struct {
	Intents []HostIntent `json:"intents"`
}

// HostUpdate is what the manager found out about a host.
type HostUpdate struct {
	Name             string          `json:"name"`
	Status           json.RawMessage `json:"status"` // of a BareMetalHost
	Progress         HostProgress    `json:"progress"`
	ClearAnnotations []string        `json:"clear-annotations,omitempty"`
	Events           []HostEvent     `json:"events,omitempty"` // new ones
}

// HostUpdates are the parameters of Hosts.Save, whose results are ErrorResults.
type HostUpdates struct {
	Updates []HostUpdate `json:"updates"`
}

// HostData is what a machine on a host is configured with at its first boot.
type HostData struct {
	UserData    Secret `json:"user-data,omitempty"`
	NetworkData Secret `json:"network-data,omitempty"`
}

// HostDataResult holds a host's data, or an error.
type HostDataResult struct {
	Result *HostData `json:"result,omitempty"`
	Error  *Error    `json:"error,omitempty"`
}

// HostDataResults are the results of Hosts.Data.
type HostDataResults struct {
	Results []HostDataResult `json:"results"`
}

// AllocateHost says what host a machine is to get, and what becomes of it.
type AllocateHost struct {
	MachineTag  string            `json:"machine-tag"`
	Nonce       string            `json:"nonce"` // that the machine is started with
	Constraints constraints.Value `json:"constraints"`
	Host        string            `json:"host,omitempty"`  // the only one that will do
	Zones       []string          `json:"zones,omitempty"` // that will do; none: any
	Apart       []string          `json:"apart,omitempty"` // hosts whose zones to keep away from; none: all of the model's
	Image       json.RawMessage   `json:"image"`           // of a BareMetalHost's spec: what to write
	Data        HostData          `json:"data,omitzero"`
}

// AllocateHosts are the parameters of Hosts.Allocate.
type AllocateHosts struct {
	Machines []AllocateHost `json:"machines"`
}

// ConsumedHost is a host as the machine's provisioner sees it that has it.
type ConsumedHost struct {
	Name      string          `json:"name"`
	MachineID string          `json:"machine-id"`
	Nonce     string          `json:"nonce"`
	Zone      string          `json:"zone,omitempty"`
	Tags      []string        `json:"tags,omitempty"`
	Status    json.RawMessage `json:"status"` // of a BareMetalHost
	Progress  HostProgress    `json:"progress"`
	Existed   bool            `json:"existed,omitempty"` // Allocate found that the machine had it
}

// ConsumedHostResult holds a host, or an error.
type ConsumedHostResult struct {
	Result *ConsumedHost `json:"result,omitempty"`
	Error  *Error        `json:"error,omitempty"`
}

// ConsumedHostResults are the results of Hosts.Allocate: one for each machine.
type ConsumedHostResults struct {
	Results []ConsumedHostResult `json:"results"`
}

// ConsumedHosts is the result of Hosts.Consumed: those of the named that belong to
// machines of the model.
type ConsumedHosts struct {
	Hosts []ConsumedHost `json:"hosts"`
}

// HostZone is a zone that hosts are in.
type HostZone struct {
	Name string `json:"name"`
	Free bool   `json:"free"` // a machine of the model could get a host in it
}

// HostZones is the result of Hosts.Zones.
type HostZones struct {
	Zones []HostZone `json:"zones"`
}
