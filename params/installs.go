package params

import (
	"encoding/json"
	"time"
)

// The facade Installs is an addition of this project to the protocol: what installers
// of bare-metal hosts are to do, and how far they are. Show and Log are for controller
// superusers, and name hosts by their names; the others are for the manager agent that
// holds the site's lease, and name hosts by their UIDs.

// HostUIDs names hosts by their UIDs.
type HostUIDs struct {
	Hosts []string `json:"hosts"`
}

// InstallOrder says what a host's installer is to do.
type InstallOrder struct {
	Purpose   string          `json:"purpose"`           // install or wipe
	Soft      bool            `json:"soft,omitempty"`    // a wipe keeps the data
	Host      string          `json:"host"`              // UID
	Name      string          `json:"name"`              // for people
	Image     json.RawMessage `json:"image,omitempty"`   // of a BareMetalHost
	RootHints json.RawMessage `json:"hints,omitempty"`   // rootDeviceHints of a BareMetalHost
	Network   json.RawMessage `json:"network,omitempty"` // of the installer; none means DHCP
	BootMAC   string          `json:"boot-mac,omitempty"`
	KeepDisks []string        `json:"keep-disks,omitempty"`
	Erase     bool            `json:"erase,omitempty"` // by the drives' own command

	UserData    Secret `json:"user-data,omitempty"`
	NetworkData Secret `json:"network-data,omitempty"`
	MetaData    Secret `json:"meta-data,omitempty"` // YAML of a map
}

// InstallOrders are the parameters of Installs.Start.
type InstallOrders struct {
	Orders []InstallOrder `json:"orders"`
}

// InstallStatus is how a host's order stands. Times are the controller's; Now is what its
// clock showed.
type InstallStatus struct {
	Host     string          `json:"host"` // UID
	Purpose  string          `json:"purpose"`
	Image    string          `json:"image,omitempty"` // URL
	Phase    string          `json:"phase"`           // waiting, running, done or failed
	Step     string          `json:"step,omitempty"`
	Message  string          `json:"message,omitempty"` // why it failed
	Number   int             `json:"number"`            // of the present boot
	Tries    int             `json:"tries"`             // boots of this order, from 1
	ISO      Secret          `json:"iso,omitempty"`     // URL for virtual media
	HTTPBoot Secret          `json:"http-boot,omitempty"`
	Details  json.RawMessage `json:"details,omitempty"` // hardware of a BareMetalHost, as the installer saw it

	Now       time.Time `json:"now"`
	Started   time.Time `json:"started"` // the present boot
	Heard     time.Time `json:"heard,omitzero"`
	Prepared  time.Time `json:"prepared,omitzero"`
	Booted    time.Time `json:"booted,omitzero"`
	Ejected   time.Time `json:"ejected,omitzero"`
	Restarted time.Time `json:"restarted,omitzero"`
}

// InstallStatuses is the result of Installs.Status: of those hosts that have an order.
type InstallStatuses struct {
	Statuses []InstallStatus `json:"statuses"`
}

// InstallStatusResult holds a status, or an error.
type InstallStatusResult struct {
	Result *InstallStatus `json:"result,omitempty"`
	Error  *Error         `json:"error,omitempty"`
}

// InstallStatusResults are the results of Installs.Start.
type InstallStatusResults struct {
	Results []InstallStatusResult `json:"results"`
}

// InstallMark says that a host's order has passed a point: prepared, booted, ejected or
// restarted.
type InstallMark struct {
	Host string `json:"host"` // UID
	Mark string `json:"mark"`
}

// InstallMarks are the parameters of Installs.Mark, whose results are ErrorResults.
type InstallMarks struct {
	Marks []InstallMark `json:"marks"`
}

// InstallRenewal gives up a host's present boot, and orders another one.
type InstallRenewal struct {
	Host   string `json:"host"`   // UID
	Number int    `json:"number"` // of the boot that is given up; another one is left as it is
	Reason string `json:"reason"`
}

// InstallRenewals are the parameters of Installs.Renew, whose results are ErrorResults.
type InstallRenewals struct {
	Renewals []InstallRenewal `json:"renewals"`
}

// InstallBoot is one boot of a host's installer.
type InstallBoot struct {
	Number  int       `json:"number"`
	Purpose string    `json:"purpose"`
	Started time.Time `json:"started"`
	Ended   time.Time `json:"ended,omitzero"`
	Phase   string    `json:"phase"`
	Message string    `json:"message,omitempty"`
}

// InstallReport is what is known of a host's installer. It holds no secrets.
type InstallReport struct {
	Phase     string          `json:"phase"`
	Step      string          `json:"step,omitempty"`
	Message   string          `json:"message,omitempty"`
	Boots     []InstallBoot   `json:"boots,omitempty"` // the newest last
	Steps     json.RawMessage `json:"steps,omitempty"` // reports of the newest boot
	Inventory json.RawMessage `json:"inventory,omitempty"`
	Firmware  json.RawMessage `json:"firmware,omitempty"`
	Health    json.RawMessage `json:"health,omitempty"`
	Disk      json.RawMessage `json:"disk,omitempty"` // where the system is
}

// InstallReportResult holds a report, or an error.
type InstallReportResult struct {
	Result *InstallReport `json:"result,omitempty"`
	Error  *Error         `json:"error,omitempty"`
}

// InstallReportResults are the results of Installs.Show.
type InstallReportResults struct {
	Results []InstallReportResult `json:"results"`
}

// InstallLogQuery asks for the log of one boot.
type InstallLogQuery struct {
	Name  string `json:"name"`            // of the host
	Boot  int    `json:"boot,omitempty"`  // number; 0 means the newest
	After int    `json:"after,omitempty"` // lines that the caller has
	// Wait has the call answered once there are more lines, or after half a minute.
	Wait bool `json:"wait,omitempty"`
}

// InstallLog is the result of Installs.Log.
type InstallLog struct {
	Boot    int      `json:"boot"` // 0: the host was never installed
	Lines   []string `json:"lines,omitempty"`
	Next    int      `json:"next"`    // what After is to be for the lines that follow
	Ended   bool     `json:"ended"`   // no more lines are to be expected
	Newest  int      `json:"newest"`  // boot of the host
	Message string   `json:"message"` // how the boot ended
}
