package params

// Block is an operation that somebody switched off.
type Block struct {
	ID      string `json:"id"`
	Tag     string `json:"tag"`  // of the model
	Type    string `json:"type"` // BlockChange, BlockRemove or BlockDestroy
	Message string `json:"message,omitempty"`
}

// BlockResult holds one block.
type BlockResult struct {
	Result Block  `json:"result"`
	Error  *Error `json:"error,omitempty"`
}

// BlockResults is the result of Block.List.
type BlockResults struct {
	Results []BlockResult `json:"results,omitempty"`
}

// BlockSwitchParams are the parameters of SwitchBlockOn and SwitchBlockOff.
type BlockSwitchParams struct {
	Type    string `json:"type"`
	Message string `json:"message,omitempty"`
}

// AnnotationsGetResult holds the annotations of one entity.
type AnnotationsGetResult struct {
	EntityTag   string            `json:"entity"`
	Annotations map[string]string `json:"annotations"`
	Error       ErrorResult       `json:"error,omitzero"`
}

// AnnotationsGetResults is the result of Annotations.Get.
type AnnotationsGetResults struct {
	Results []AnnotationsGetResult `json:"results"`
}

// EntityAnnotations changes annotations of one entity; an empty value removes one.
type EntityAnnotations struct {
	EntityTag   string            `json:"entity"`
	Annotations map[string]string `json:"annotations"`
}

// AnnotationsSet are the parameters of Annotations.Set.
type AnnotationsSet struct {
	Annotations []EntityAnnotations `json:"annotations"`
}

// ListSSHKeys are the parameters of KeyManager.ListKeys. Without Mode only
// fingerprints are told.
type ListSSHKeys struct {
	Entities Entities `json:"entities"`
	Mode     bool     `json:"mode"`
}

// StringsResults are results of many lists of texts.
type StringsResults struct {
	Results []StringsResult `json:"results"`
}

// ModifyUserSSHKeys are the parameters of AddKeys, and of DeleteKeys, which takes
// fingerprints and comments too.
type ModifyUserSSHKeys struct {
	User string   `json:"user"`
	Keys []string `json:"ssh-keys"`
}

// VersionResult is the version that one agent should run.
type VersionResult struct {
	Version string `json:"version,omitempty"`
	// Downgrade says that a newer agent is to go back. It is not in the protocol's
	// first form, which leaves it open.
	Downgrade bool   `json:"downgrade,omitempty"`
	Error     *Error `json:"error,omitempty"`
}

// VersionResults is the result of DesiredVersion; null for no agents.
type VersionResults struct {
	Results []VersionResult `json:"results"`
}

// AgentTools says what an agent runs.
type AgentTools struct {
	Tag   string `json:"tag"`
	Tools struct {
		Version string `json:"version"` // number-series-arch
	} `json:"tools"`
}

// SetAgentTools are the parameters of Upgrader.SetTools.
type SetAgentTools struct {
	AgentTools []AgentTools `json:"agent-tools"`
}
