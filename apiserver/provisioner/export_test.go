// The retry watcher is not exported, and its tests need a clock of their own.
package provisioner

// NewRetryWatcher is newRetryWatcher.
var NewRetryWatcher = newRetryWatcher
