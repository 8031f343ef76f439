package params

import "time"

// The kinds of status histories: what an agent reported of a machine or a
// container, and what was reported of its instance.
const (
	HistoryMachineAgent   = "juju-machine"
	HistoryContainerAgent = "juju-container"
	HistoryMachine        = "machine"
	HistoryContainer      = "container"
)

// StatusHistoryFilter says which statuses of a history are wanted. Zero fields
// leave none out.
type StatusHistoryFilter struct {
	Size    int        `json:"size"`    // the newest so many
	Date    *time.Time `json:"date"`    // since then
	Delta   *int64     `json:"delta"`   // since so many nanoseconds ago
	Exclude []string   `json:"exclude"` // statuses with one of these texts
}

// StatusHistoryRequest asks for one history of one entity. Size is Filter.Size of
// older clients.
type StatusHistoryRequest struct {
	Kind   string              `json:"historyKind"`
	Size   int                 `json:"size"`
	Filter StatusHistoryFilter `json:"filter"`
	Tag    string              `json:"tag"`
}

// StatusHistoryRequests are the parameters of StatusHistory.
type StatusHistoryRequests struct {
	Requests []StatusHistoryRequest `json:"requests"`
}

// History is a status history, newest first.
type History struct {
	Statuses []DetailedStatus `json:"statuses"`
	Error    *Error           `json:"error,omitempty"`
}

// StatusHistoryResult is the history that one request asked for.
type StatusHistoryResult struct {
	History History `json:"history"`
	Error   *Error  `json:"error,omitempty"`
}

// StatusHistoryResults are the results of StatusHistory.
type StatusHistoryResults struct {
	Results []StatusHistoryResult `json:"results"`
}
