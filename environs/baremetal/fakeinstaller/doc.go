// Package fakeinstaller has machines in memory do what the installer does, so that a whole
// rack of them can be rehearsed with: real Redfish and real orders, and no virtual machine.
//
// A machine of package fakebmc that boots from a medium of the installer reads its boot file
// as a real one does: over HTTP from the URL that its BMC was given, and only the few
// kilobytes that it needs. All else it learns from the controller that the file names: it
// exchanges the token, gets its order, sends reports, heartbeats, an inventory and log lines,
// loads and verifies the image, and goes off. The image goes nowhere; that a machine has one,
// and what cloud-init is handed with it, is remembered until the disks are wiped.
//
// A machine that boots from such a disk is "the operating system": it runs an agent, if the
// user data brings an agent file.
//
// Nothing here knows a controller but by what a real machine is told.
package fakeinstaller
