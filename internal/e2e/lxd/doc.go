// Package lxd checks machines on a real LXD daemon, which its tests start in
// a temporary folder: nothing outside of that folder and no network but
// loopback is used. They have the build tag e2e, and need root and Debian's
// packages lxd, lxd-client and busybox-static.
package lxd
