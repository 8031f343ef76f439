package redfish

import (
	"context"
	"time"

	metal3v1alpha1 "github.com/slipway-project/slipway/environs/baremetal/metal3/v1alpha1"
)

// Purpose is what an installer is booted for.
type Purpose string

// The purposes.
const (
	PurposeInstall Purpose = "install"
	PurposeWipe    Purpose = "wipe"
)

// Phase is how far a job has come.
type Phase string

// The phases.
const (
	PhaseWaiting Phase = "waiting" // the installer has not reported yet
	PhaseRunning Phase = "running"
	PhaseDone    Phase = "done"
	PhaseFailed  Phase = "failed"
)

// Job is a piece of work for an installer.
type Job struct {
	Purpose   Purpose
	Soft      bool     // a wipe keeps the data, and makes the system unbootable
	Host      string   // the host's UID, or its name if it has none
	Name      string   // the host's name, for people
	KeepDisks []string // serials, WWNs or names of disks that a wipe never touches
	Network   string   // JSON of how the installer reaches the controller; empty: DHCP
	Image     metal3v1alpha1.Image
	RootHints *metal3v1alpha1.RootDeviceHints
	BootMode  metal3v1alpha1.BootMode
	BootMAC   string

	// What the machine is configured with; MetaData is YAML. They may hold secrets.
	UserData, NetworkData, MetaData string
}

// String names the job, and none of its data.
func (j Job) String() string { return string(j.Purpose) + " of host " + j.Host }

// GoString is String, so that %#v tells no more.
func (j Job) GoString() string { return j.String() }

// JobStatus is how a job stands. An installer keeps it for as long as the host is
// registered, also over a restart of ours.
type JobStatus struct {
	Purpose Purpose
	Image   string // the URL of the image to install
	Phase   Phase
	Step    string // what the installer does now, for people
	Message string // why it failed, in one line

	// ISO is the URL of the image for virtual media, HTTPBoot that for UEFI HTTP
	// boot. Both are the same for one boot of the installer.
	ISO, HTTPBoot string

	Number int // of the present boot; grows with each
	Tries  int // boots of this job, from 1

	// Details is what the installer found the host to be made of; nil: it has not said.
	Details *metal3v1alpha1.HardwareDetails

	Started    time.Time // when the present boot was ordered
	LastReport time.Time // when the installer was last heard of; zero: never

	// When the job passed each Mark; zero: not yet.
	Prepared, Booted, Ejected, Restarted time.Time
}

// Mark is a point that a job has passed.
type Mark string

// The marks.
const (
	MarkPrepared  Mark = "prepared"  // the machine is off, and will boot the installer once
	MarkBooted    Mark = "booted"    // it is on
	MarkEjected   Mark = "ejected"   // the installer is done, the machine off and the medium out
	MarkRestarted Mark = "restarted" // the machine is on again, or wiped
)

// Installer is what puts images on disks. All calls are idempotent and answer at
// once.
type Installer interface {
	// Start makes a new job, in place of any other that the host has. The error satisfies
	// errors.BadRequest, errors.NotValid or errors.NotSupported for a job that cannot be done.
	Start(ctx context.Context, job Job) (JobStatus, error)
	// Status returns the host's job. The error satisfies errors.NotFound if there
	// is none.
	Status(ctx context.Context, host string) (JobStatus, error)
	// Mark notes that the host's job has passed a point.
	Mark(ctx context.Context, host string, mark Mark) error
	// Renew gives up the host's present boot, if it is still that of number, for a reason,
	// and prepares another one of the same job: with other URLs, and no Mark passed.
	Renew(ctx context.Context, host string, number int, reason string) error
	// Cancel forgets the host's job; what an installer reports afterwards is
	// refused.
	Cancel(ctx context.Context, host string) error
}
