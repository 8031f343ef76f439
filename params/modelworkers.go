package params

// The facade ModelWorkers is an addition of this project to the protocol.
// AddWorkers and RemoveWorkers are for controller superusers; WatchModels, whose
// result is a StringsWatchResult of model UUIDs, is for manager agents.

// AddWorker names a worker that is to have an identity of its own.
type AddWorker struct {
	Name string `json:"name"` // unique; letters, digits and hyphens
}

// AddWorkers are the parameters of ModelWorkers.AddWorkers.
type AddWorkers struct {
	Workers []AddWorker `json:"workers"`
}

// WorkerIdentity is what a worker logs in with. Its password is told once.
type WorkerIdentity struct {
	Tag       string `json:"tag"`
	Password  Secret `json:"password"`
	Nonce     string `json:"nonce"`
	ModelUUID string `json:"model-uuid"` // the controller model's
}

// AddWorkerResult holds the identity of a new worker, or an error.
type AddWorkerResult struct {
	Result *WorkerIdentity `json:"result,omitempty"`
	Error  *Error          `json:"error,omitempty"`
}

// AddWorkerResults are the results of ModelWorkers.AddWorkers.
type AddWorkerResults struct {
	Results []AddWorkerResult `json:"results"`
}

// RemoveWorkers are the parameters of ModelWorkers.RemoveWorkers, whose results
// are ErrorResults. A removed worker's connections are closed.
type RemoveWorkers struct {
	Names []string `json:"names"`
}

// String returns the tag alone.
func (w WorkerIdentity) String() string { return w.Tag + " [redacted]" }
