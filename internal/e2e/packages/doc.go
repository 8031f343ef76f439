// Package packages builds the archives and the Debian packages of a release as
// packaging/ does, twice in different folders to compare them; looks into those of
// every architecture; and installs those of this machine's in a root of their own,
// where the services run as their users, are told to stop, removed and purged; and
// in another, whose own systemd runs, an older version is installed, upgraded and
// gone back to.
//
// The root is laid out from the files that Debian's packages have on this machine,
// with their entries in dpkg's data base: all essential ones, systemd, and what
// they depend on, and nothing that this machine has changed or added. It takes
// seconds and no network, which debootstrap does not. It is entered with chroot in
// a mount namespace that ends with each program, so that nothing stays mounted.
//
// The tests need the build tag e2e, root, and Debian's packages that test/e2e.sh
// names.
package packages
