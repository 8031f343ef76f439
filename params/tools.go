package params

// Tools says where an agent binary can be had.
type Tools struct {
	Version string `json:"version"` // number-series-arch
	URL     string `json:"url"`
	SHA256  string `json:"sha256,omitempty"`
	Size    int64  `json:"size"` // bytes
}

// FindToolsParams says which agent binaries are wanted. Empty texts, the number
// "0.0.0" and -1 mean any.
type FindToolsParams struct {
	Number string `json:"number"`
	Major  int    `json:"major"`
	Minor  int    `json:"minor"`
	Arch   string `json:"arch"`
	Series string `json:"series"`
}

// FindToolsResult is the result of FindTools: each binary once for each API
// address; null beside an error.
type FindToolsResult struct {
	List  []Tools `json:"list"`
	Error *Error  `json:"error,omitempty"`
}

// ToolsResult is what one agent should run; Tools is null beside an error.
type ToolsResult struct {
	Tools                          []Tools `json:"tools"`
	DisableSSLHostnameVerification bool    `json:"disable-ssl-hostname-verification"`
	Error                          *Error  `json:"error,omitempty"`
}

// ToolsResults are the results of Tools.
type ToolsResults struct {
	Results []ToolsResult `json:"results"`
}
