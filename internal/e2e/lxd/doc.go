// Package lxd checks machines on real LXD daemons, which its tests start in
// temporary folders: nothing outside of those and no network but loopback is used,
// or one that a test makes in a network namespace. Machines are busybox containers,
// or Debian's systemd and LXD, whose /usr they have from this machine to read.
//
// The tests have the build tag e2e, and need root and Debian's packages that
// test/e2e.sh names.
package lxd
