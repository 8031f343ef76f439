package params

import (
	"encoding/json"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/core/hardware"
	"github.com/slipway-project/slipway/core/network"
)

// AllWatcherID names a new AllWatcher of the connection.
type AllWatcherID struct {
	WatcherID string `json:"watcher-id"`
}

// AllWatcherNextResults is the result of AllWatcher.Next. The first holds
// everything there is.
type AllWatcherNextResults struct {
	Deltas []Delta `json:"deltas"`
}

// Delta is a change of one entity. On the wire it is the list
// [kind, "change" or "remove", entity].
type Delta struct {
	Removed bool
	Entity  DeltaEntity // nil after reading a kind that is not known here
}

// DeltaEntity is what a Delta is about: *MachineUpdate or *ModelUpdate.
type DeltaEntity interface {
	// DeltaKind returns the first member of the delta.
	DeltaKind() string
}

// MarshalJSON writes the list of three.
func (d Delta) MarshalJSON() ([]byte, error) {
	if d.Entity == nil {
		return nil, errors.New("delta without an entity")
	}
	op := "change"
	if d.Removed {
		op = "remove"
	}
	return json.Marshal([]any{d.Entity.DeltaKind(), op, d.Entity})
}

// UnmarshalJSON reads the list of three.
func (d *Delta) UnmarshalJSON(data []byte) error {
	var members []json.RawMessage
	if err := json.Unmarshal(data, &members); err != nil {
		return err
	}
	if len(members) != 3 {
		return errors.NotValidf("delta of %d members", len(members))
	}
	var kind, op string
	if err := json.Unmarshal(members[0], &kind); err != nil {
		return err
	}
	if err := json.Unmarshal(members[1], &op); err != nil {
		return err
	}
	*d = Delta{Removed: op == "remove"}
	switch kind {
	case (*MachineUpdate)(nil).DeltaKind():
		d.Entity = new(MachineUpdate)
	case (*ModelUpdate)(nil).DeltaKind():
		d.Entity = new(ModelUpdate)
	default:
		return nil
	}
	return json.Unmarshal(members[2], d.Entity)
}

// StatusUpdate is a status in a Delta.
type StatusUpdate struct {
	Current string         `json:"current"`
	Message string         `json:"message"`
	Since   *time.Time     `json:"since,omitempty"`
	Version string         `json:"version"`
	Data    map[string]any `json:"data,omitempty"`
}

// MachineUpdate is a machine in a Delta. A removal has at least ModelUUID and ID.
type MachineUpdate struct {
	ModelUUID                string                    `json:"model-uuid"`
	ID                       string                    `json:"id"`
	InstanceID               string                    `json:"instance-id"` // empty if there is none
	AgentStatus              StatusUpdate              `json:"agent-status"`
	InstanceStatus           StatusUpdate              `json:"instance-status"`
	Life                     string                    `json:"life"`
	Series                   string                    `json:"series,omitempty"`
	Base                     string                    `json:"base,omitempty"` // such as ubuntu@22.04
	ContainerType            string                    `json:"container-type"`
	SupportedContainers      []string                  `json:"supported-containers"`
	SupportedContainersKnown bool                      `json:"supported-containers-known"`
	Hardware                 *hardware.Characteristics `json:"hardware-characteristics,omitempty"`
	Jobs                     []string                  `json:"jobs"`
	Addresses                []network.Address         `json:"addresses"`
	HasVote                  bool                      `json:"has-vote"`
	WantsVote                bool                      `json:"wants-vote"`
	Hostname                 string                    `json:"hostname,omitempty"`
}

// DeltaKind returns "machine".
func (*MachineUpdate) DeltaKind() string { return "machine" }

// ModelUpdate is a model in a Delta.
type ModelUpdate struct {
	ModelUUID      string         `json:"model-uuid"`
	Name           string         `json:"name"`
	Life           string         `json:"life"`
	Owner          string         `json:"owner"`
	ControllerUUID string         `json:"controller-uuid"`
	IsController   bool           `json:"is-controller"`
	Config         map[string]any `json:"config,omitempty"`
	Status         StatusUpdate   `json:"status"`
}

// DeltaKind returns "model".
func (*ModelUpdate) DeltaKind() string { return "model" }
