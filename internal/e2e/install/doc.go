// Package install installs virtual machines: QEMU with UEFI firmware boots the
// installer's medium, which streams an image to the virtual disk, configures it and reports
// to a controller in the test; then the disk is booted. TestChain goes the whole way with the
// real programs: operator's command, controller, worker, BMCs, machines and their agents, and
// back; with a wrong image, a power cut and, in the long form, a controller that is started
// anew and a boot by HTTP. The tests need the build tag e2e, and Debian's packages that test/e2e.sh names.
package install
