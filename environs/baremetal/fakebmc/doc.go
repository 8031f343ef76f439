// Package fakebmc is a management controller (BMC) that speaks Redfish, with the
// machines behind it, for tests and demonstrations.
//
// A BMC is an http.Handler: it has a service root, sessions, systems with
// inventory and power, managers with virtual media, chassis, BIOS settings and an
// event service. A Rack is many BMCs behind one listener.
//
// A machine is powered by a Machine: in memory (see Memory), where a function is
// called at every boot in place of what the machine would run, or a real virtual
// one. Vendors differ by the rows of a table (see Vendors), and anything can be
// made to go wrong (see Fault).
//
// Resource shapes follow DMTF DSP0266 (protocol) and DSP0268 (data model) as
// far as provisioning needs them.
package fakebmc
