package params

// ControllerConfigSet are the parameters of Controller.ConfigSet.
type ControllerConfigSet struct {
	Config map[string]any `json:"config"`
}

// ModelStatus says what is in a model.
type ModelStatus struct {
	ModelTag           string `json:"model-tag"`
	Life               string `json:"life"`
	HostedMachineCount int    `json:"hosted-machine-count"`
	ApplicationCount   int    `json:"application-count"` // there are none
	OwnerTag           string `json:"owner-tag"`
}

// ModelStatusResults is the result of Controller.ModelStatus.
type ModelStatusResults struct {
	Results []ModelStatus `json:"models"`
}

// UserAccess is what a user may do.
type UserAccess struct {
	UserTag string `json:"user-tag"`
	Access  string `json:"access"`
}

// UserAccessResult is what one user may do; Result is absent beside an error.
type UserAccessResult struct {
	Result *UserAccess `json:"result,omitempty"`
	Error  *Error      `json:"error,omitempty"`
}

// UserAccessResults is the result of Controller.GetControllerAccess.
type UserAccessResults struct {
	Results []UserAccessResult `json:"results"`
}

// ModelBlockInfo is a model in which operations are switched off.
type ModelBlockInfo struct {
	Name     string   `json:"name"`
	UUID     string   `json:"model-uuid"`
	OwnerTag string   `json:"owner-tag"`
	Blocks   []string `json:"blocks"` // kinds, as in Block
}

// ModelBlockInfoList is the result of Controller.ListBlockedModels.
type ModelBlockInfoList struct {
	Models []ModelBlockInfo `json:"models,omitempty"`
}

// RemoveBlocksArgs are the parameters of Controller.RemoveBlocks.
type RemoveBlocksArgs struct {
	All bool `json:"all"` // must be true
}
