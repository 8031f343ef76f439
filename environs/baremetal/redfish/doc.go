// Package redfish is the bare-metal back end that talks to management controllers
// (BMCs) itself, by Redfish: DMTF DSP0266 and DSP0268.
//
// # Talking to a BMC
//
// There is at most one session and there are at most four requests in flight for
// each BMC, whatever number of hosts is behind it; every request and every call has
// a time limit; answers are read up to a bound and redirects are not followed.
// What a BMC says is believed only once it has been read back: a power command has
// succeeded when the power state says so.
//
// A fault of the network or a BMC that is busy is an error of the call: it says
// nothing about the host, and the next try may do. A BMC that refuses the
// password, shows another certificate or answers nonsense is a verdict: the
// Result's ErrorMessage.
//
// # Installing
//
// The image is written by an operating system of its own, the installer, which the
// host boots from virtual media or by UEFI HTTP. Where that comes from, and how
// far it has come, is asked of an Installer. The steps are: power off, insert the
// medium, override the boot source once, power on, wait for the installer to report
// that it is done, power off, eject, power on. Each step is taken only if what is
// read from the BMC and the Installer shows that it has not been taken; so a new
// process goes on where another one stopped.
//
// BMCs of different makers differ by the rows of one table, in vendor.go.
package redfish
