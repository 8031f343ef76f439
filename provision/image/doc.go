// Package image finds operating system images and writes them to disks.
//
// An image comes over HTTP, or as an OCI artifact, raw or compressed (gzip, zstd,
// xz, lz4), or as qcow2; the format is detected, never taken from a name. Its bytes are
// hashed as they are read and written once. Both ends of the disk, a mebibyte each, are
// zeroed first and written last, after the checksum or signature has been found
// right: a disk with half an image, or with a wrong one, cannot be booted.
//
// Memory stays below 64 MiB and the window that the compression declares, whatever the image's
// size; windows above 128 MiB are refused. A connection that breaks is resumed where
// it broke, so long as the server still has the same file.
//
// What is read is outside text. Nothing of it reaches a privileged tool: there is
// no tool, and the qcow2 reader knows neither backing files nor external data.
package image
