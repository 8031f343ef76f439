// Package worker is what long-running jobs have in common: how they are
// started, watched, and started again after a failure. The jobs themselves are
// in the folders below this package; they talk to the controller through api
// only.
package worker
