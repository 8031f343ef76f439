// Package params holds what goes over the wire: the parameters and results of
// every facade method, one file for each facade.
//
// JSON keys are spelled once, as struct tags, in kebab-case. The exceptions are
// part of the protocol: NotifyWatcherId, the members of a proxy and those of a
// disk. Where a key is always present, an empty list is null or [] as the
// comment of the field says; where a comment says nothing the key is left out
// when it has nothing to say. An error is always left out when there is none,
// because some clients take the mere presence of the key for a failure.
//
// Times are RFC 3339 with nanoseconds, null when unknown. Memory and disk sizes
// are MiB. Versions are strings. Tags are strings such as "machine-0-lxd-1"
// and "user-admin".
//
// Which error kind travels under which code is the table in errors.go.
package params
