package params

// NotifyWatchResult names a new NotifyWatcher of the connection. Its first
// event has been consumed by the call that made it.
type NotifyWatchResult struct {
	NotifyWatcherID string `json:"NotifyWatcherId"` // the protocol's one key of this form
	Error           *Error `json:"error,omitempty"`
}

// NotifyWatchResults are the results of a bulk call for NotifyWatchers.
type NotifyWatchResults struct {
	Results []NotifyWatchResult `json:"results"`
}

// StringsWatchResult names a new StringsWatcher of the connection, with its
// first event. It is also what StringsWatcher.Next returns, where the id is
// empty.
type StringsWatchResult struct {
	StringsWatcherID string   `json:"watcher-id"`
	Changes          []string `json:"changes,omitempty"`
	Error            *Error   `json:"error,omitempty"`
}

// StringsWatchResults are the results of a bulk call for StringsWatchers.
type StringsWatchResults struct {
	Results []StringsWatchResult `json:"results"`
}
