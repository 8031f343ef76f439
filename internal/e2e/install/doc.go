// Package install installs virtual machines: QEMU with UEFI firmware boots the
// installer's medium, which streams an image to the virtual disk, configures it and reports
// to a controller in the test; then the disk is booted. Its tests need the build tag
// e2e, and Debian's packages that test/e2e.sh names.
package install
