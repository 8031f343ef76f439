package state

import "time"

// Kinds of cleanup, as in the ids of their documents.
const (
	forceMachine = "force-machine" // forceMachine:<machine id>
	destroyModel = "destroy-model"
)

// cleanupDoc is work that was asked for and is done later.
type cleanupDoc struct {
	Asked time.Time `json:"asked"`
}

// Cleanups is the handle on work that was asked for and is done later: by
// whoever runs it, in the background.
type Cleanups struct{ c *Controller }
