package params

import "time"

// The facade Singular has one of several workers do what only one may do at a
// time. It is for manager agents. Wait takes Entities and returns ErrorResults; it
// answers when what was asked for can be claimed. Release, an addition of this
// project, takes and returns the same, and gives up what the connection has claimed.

// SingularClaim asks for the exclusive right to care for an entity, or for it
// to go on.
type SingularClaim struct {
	EntityTag   string        `json:"entity-tag"`   // the connection's model, or the controller for what belongs to no model
	ClaimantTag string        `json:"claimant-tag"` // the caller's own
	Duration    time.Duration `json:"duration"`     // nanoseconds, from one second to one minute

	// Session tells one worker process from another that logs in under the same
	// name, and is the same on all of its connections. Empty means that each
	// connection is a worker of its own. An addition of this project.
	Session string `json:"session,omitempty"`
}

// SingularClaims are the parameters of Singular.Claim.
type SingularClaims struct {
	Claims []SingularClaim `json:"claims"`
}

// SingularResult is the answer to one claim.
type SingularResult struct {
	Epoch int64  `json:"epoch,omitempty"` // grows with every owner. An addition of this project
	Error *Error `json:"error,omitempty"`
}

// SingularResults are the results of Singular.Claim.
type SingularResults struct {
	Results []SingularResult `json:"results"`
}
