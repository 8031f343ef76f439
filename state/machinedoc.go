package state

import (
	"maps"
	"slices"
	"time"

	"github.com/slipway-project/slipway/core/base"
	"github.com/slipway-project/slipway/core/constraints"
	"github.com/slipway-project/slipway/core/container"
	"github.com/slipway-project/slipway/core/hardware"
	"github.com/slipway-project/slipway/core/instance"
	"github.com/slipway-project/slipway/core/job"
	"github.com/slipway-project/slipway/core/life"
	"github.com/slipway-project/slipway/core/network"
	"github.com/slipway-project/slipway/core/status"
	"github.com/slipway-project/slipway/store"
)

// machineDoc is a machine as it is stored. A decoded document is shared and
// never changed: a writer changes a shallow copy, and gives slices and pointers
// in it new values instead of changing what they hold.
type machineDoc struct {
	Life        life.Value        `json:"life"`
	Created     time.Time         `json:"created"`
	Series      string            `json:"series"`
	Base        base.Base         `json:"base,omitzero"`
	Jobs        []job.Job         `json:"jobs"`
	Constraints constraints.Value `json:"constraints,omitzero"`
	Placement   string            `json:"placement,omitempty"`
	Group       string            `json:"group,omitempty"`
	Worker      string            `json:"worker,omitempty"` // name of the further worker identity that this is
	Host        string            `json:"host,omitempty"`   // name of the bare-metal host that it was given

	Instance       *instanceDoc `json:"instance,omitempty"` // nil until the machine is provisioned
	Status         statusDoc    `json:"status"`
	InstanceStatus statusDoc    `json:"instance-status"`

	ProviderAddresses []network.Address `json:"provider-addresses,omitempty"`
	MachineAddresses  []network.Address `json:"machine-addresses,omitempty"`
	Public            network.Address   `json:"public-address,omitzero"`
	Private           network.Address   `json:"private-address,omitzero"`
	Hostname          string            `json:"hostname,omitempty"`

	Interfaces []network.Interface `json:"interfaces,omitempty"`
	Volumes    []Volume            `json:"volumes,omitempty"`
	Allocated  []Allocated         `json:"allocated,omitempty"` // to a container

	Containers      []string         `json:"containers,omitempty"` // ids of the direct ones that have not been removed
	ContainersKnown bool             `json:"containers-known,omitempty"`
	ContainerTypes  []container.Type `json:"container-types,omitempty"` // what it can host, if ContainersKnown
	PasswordHash    string           `json:"password-hash,omitempty"`
	AgentVersion    string           `json:"agent-version,omitempty"`
	AgentStarted    time.Time        `json:"agent-started,omitzero"`
}

// instanceDoc is what was recorded, once, when a machine got its instance.
type instanceDoc struct {
	ID       instance.ID              `json:"id"`
	Nonce    string                   `json:"nonce"`
	Hardware hardware.Characteristics `json:"hardware,omitzero"`
}

// statusDoc is a status as it is stored.
type statusDoc struct {
	Status  status.Status  `json:"status"`
	Message string         `json:"message,omitempty"`
	Data    map[string]any `json:"data,omitempty"`
	Since   time.Time      `json:"since"`
	Retry   time.Time      `json:"retry,omitzero"` // when somebody asked for another try; zero means nobody has
}

func newStatusDoc(i status.Info) statusDoc {
	return statusDoc{Status: i.Status, Message: i.Message, Data: i.Data, Since: i.Since}
}

func (s statusDoc) info() status.Info {
	return status.Info{Status: s.Status, Message: s.Message, Data: maps.Clone(s.Data), Since: s.Since}
}

// transient reports whether a start has failed in a way that may pass.
func (d *machineDoc) transient() bool {
	return d.Instance == nil && d.Status.Status == status.Error && d.Status.Data["transient"] == true
}

func (d *machineDoc) isManager() bool { return slices.Contains(d.Jobs, job.ManageModel) }

// index returns the document's index values.
func (d *machineDoc) index(modelUUID string) map[string]string {
	var m map[string]string
	set := func(name, value string) {
		if m == nil {
			m = make(map[string]string, 2)
		}
		m[name] = value
	}
	if d.transient() {
		set(transientIndex, modelUUID)
	}
	if d.Group != "" {
		set(groupIndex, modelUUID+":"+d.Group)
	}
	return m
}

// machineOp returns the operation that writes d over what was read at rev; rev zero means a
// new machine.
func (st *State) machineOp(id string, rev store.Rev, d *machineDoc) (store.Op, error) {
	return writeOp(st.key(machinesC, id), rev, d, d.index(st.modelUUID))
}
