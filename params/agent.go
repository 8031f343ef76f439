package params

// AgentEntity is what an agent must know of its own entity.
type AgentEntity struct {
	Life          string   `json:"life"`
	Jobs          []string `json:"jobs"`
	ContainerType string   `json:"container-type"`
	Error         *Error   `json:"error,omitempty"`
}

// AgentGetEntitiesResults are the results of Agent.GetEntities.
type AgentGetEntitiesResults struct {
	Entities []AgentEntity `json:"entities"` // the protocol's own key for these results
}

// IsMasterResult is the result of Agent.IsMaster.
type IsMasterResult struct {
	Master bool `json:"master"`
}
