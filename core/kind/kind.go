// Package kind names the kinds of error that callers tell apart and that
// github.com/juju/errors has no name for.
//
// A kind is put on an error where the error is made, with errors.WithType, and
// tested with errors.Is:
//
//	return errors.WithType(errors.New("not found or dead"), kind.Dead)
//	if errors.Is(err, kind.Dead) { ... }
//
// Which kinds cross the wire, and under which code, is the table in
// params/errors.go.
package kind

import "github.com/juju/errors"

// The kinds of error. The text of each is what it prints when used as an error
// of its own.
const (
	// ActionBlocked: an operator has switched this operation off.
	ActionBlocked = errors.ConstError("the operation has been blocked")
	// Contention: other writers kept winning; trying later may help.
	Contention = errors.ConstError("state changing too quickly; try again soon")
	// Dead: the entity is dead, or gone, and can no longer be changed.
	Dead = errors.ConstError("not found or dead")
	// HasAttachedStorage: storage that outlives the machine is attached to it.
	HasAttachedStorage = errors.ConstError("machine has attached storage")
	// HasAssignedUnits: something still runs on the machine.
	HasAssignedUnits = errors.ConstError("machine has assigned units")
	// HasContainers: containers on the machine have not been removed.
	HasContainers = errors.ConstError("machine is hosting containers")
	// HasHostedModels: a controller cannot go while it holds models.
	HasHostedModels = errors.ConstError("controller has hosted models")
	// LeaseDenied: another worker holds the lease.
	LeaseDenied = errors.ConstError("lease claim denied")
	// LoginExpired: the credentials were good once.
	LoginExpired = errors.ConstError("login expired")
	// ModelNotFound: there is no model with that UUID. An error of this kind
	// that came over the wire is also errors.NotFound.
	ModelNotFound = errors.ConstError("model not found")
	// NoAddress: the machine has no address yet.
	NoAddress = errors.ConstError("no address set")
	// NoCredentials: a login without a name.
	NoCredentials = errors.ConstError("no credentials provided")
	// Retry: the server cannot answer now, and soon will.
	Retry = errors.ConstError("retry")
	// Stopped: the watcher was stopped while somebody waited for it.
	Stopped = errors.ConstError("watcher has been stopped")
	// TryAgain: too many logins at once.
	TryAgain = errors.ConstError("try again")
	// UpgradeInProgress: the controller is being upgraded.
	UpgradeInProgress = errors.ConstError("upgrade in progress")
)
