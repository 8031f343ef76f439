package params

// ModelConfigResult is the result of Provisioner.ModelConfig, and of
// ControllerConfig.
type ModelConfigResult struct {
	Config map[string]any `json:"config"`
}

// ConfigValue is the value of a config key, and where it comes from: default,
// model, controller.
type ConfigValue struct {
	Value  any    `json:"value"`
	Source string `json:"source"`
}

// ModelConfigResults is the result of ModelConfig.ModelGet.
type ModelConfigResults struct {
	Config map[string]ConfigValue `json:"config"`
}

// ModelSet are the parameters of ModelConfig.ModelSet.
type ModelSet struct {
	Config map[string]any `json:"config"`
}

// ModelUnset are the parameters of ModelConfig.ModelUnset.
type ModelUnset struct {
	Keys []string `json:"keys"`
}
