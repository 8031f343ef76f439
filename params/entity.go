package params

// Entity names one entity.
type Entity struct {
	Tag string `json:"tag"`
}

// Entities names the entities that a bulk call is about. Its results are as
// many, in the same order.
type Entities struct {
	Entities []Entity `json:"entities"`
}

// ErrorResult says whether one part of a bulk call failed.
type ErrorResult struct {
	Error *Error `json:"error,omitempty"`
}

// ErrorResults are the results of a bulk call that only succeeds or fails.
type ErrorResults struct {
	Results []ErrorResult `json:"results"`
}

// StringResult holds a text or an error.
type StringResult struct {
	Error  *Error `json:"error,omitempty"`
	Result string `json:"result"`
}

// StringResults are the results of a bulk call for texts.
type StringResults struct {
	Results []StringResult `json:"results"`
}

// StringsResult holds texts or an error.
type StringsResult struct {
	Error  *Error   `json:"error,omitempty"`
	Result []string `json:"result,omitempty"`
}

// BoolResult holds a truth or an error.
type BoolResult struct {
	Error  *Error `json:"error,omitempty"`
	Result bool   `json:"result"`
}

// BytesResult holds bytes, which go as base64.
type BytesResult struct {
	Result []byte `json:"result"`
}

// LifeResult holds the life of an entity: alive, dying or dead; empty beside an
// error.
type LifeResult struct {
	Life  string `json:"life"`
	Error *Error `json:"error,omitempty"`
}

// LifeResults are the results of Life.
type LifeResults struct {
	Results []LifeResult `json:"results"`
}

// EntityPassword gives an entity a password.
type EntityPassword struct {
	Tag      string `json:"tag"`
	Password Secret `json:"password"`
}

// EntityPasswords are the parameters of SetPasswords, and of
// UserManager.SetPassword.
type EntityPasswords struct {
	Changes []EntityPassword `json:"changes"`
}
