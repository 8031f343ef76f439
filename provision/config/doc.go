// Package config holds what one machine is to become, as its installer is
// told, and the channel on which the installer reports back.
//
// A [MachineConfig] is the whole order: image, disk, names, files, commands.
// It is read once from the controller by a [Client] and never changes while
// the pipeline runs. Everything secret in it has type [Secret], which prints
// as "[redacted]" wherever it is formatted, so a config may be logged as it is.
//
// [Provider] is what the pipeline needs of the controller while it runs; [Client]
// is the one that speaks HTTPS, and tests bring fakes.
package config
