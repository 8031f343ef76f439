package metal3v1alpha1

import "time"

// OperationalStatus is the short answer to "is this host well?".
type OperationalStatus string

// The operational statuses.
const (
	OperationalStatusNone       OperationalStatus = ""
	OperationalStatusOK         OperationalStatus = "OK"
	OperationalStatusDiscovered OperationalStatus = "discovered" // known, but without BMC details
	OperationalStatusError      OperationalStatus = "error"
	OperationalStatusDelayed    OperationalStatus = "delayed" // waits for a place in a queue
)

// ErrorType says during what an error happened.
type ErrorType string

// The error types.
const (
	NoError                      ErrorType = ""
	RegistrationError            ErrorType = "registration error"
	ProvisionedRegistrationError ErrorType = "provisioned registration error" // adopting a host that carries an image
	InspectionError              ErrorType = "inspection error"
	ProvisioningError            ErrorType = "provisioning error"
	PowerManagementError         ErrorType = "power management error"
)

// ProvisioningState is where a host is in its life.
type ProvisioningState string

// The provisioning states. StateReady and StateAvailable are synonyms: we write
// the first and read both.
const (
	StateNone                  ProvisioningState = ""
	StateUnmanaged             ProvisioningState = "unmanaged"
	StateRegistering           ProvisioningState = "registering"
	StateInspecting            ProvisioningState = "inspecting"
	StateMatchProfile          ProvisioningState = "match profile"
	StateReady                 ProvisioningState = "ready"
	StateAvailable             ProvisioningState = "available"
	StateProvisioning          ProvisioningState = "provisioning"
	StateProvisioned           ProvisioningState = "provisioned"
	StateExternallyProvisioned ProvisioningState = "externally provisioned"
	StateDeprovisioning        ProvisioningState = "deprovisioning"
	StateDeleting              ProvisioningState = "deleting"
)

// BareMetalHostStatus is what is known about a host.
type BareMetalHostStatus struct {
	OperationalStatus OperationalStatus `json:"operationalStatus,omitempty"`
	ErrorType         ErrorType         `json:"errorType,omitempty"`
	ErrorMessage      string            `json:"errorMessage,omitempty"`
	// ErrorCount is how often the present operation failed in a row. Starting
	// work anew does not clear it, success does.
	ErrorCount  int        `json:"errorCount,omitempty"`
	LastUpdated *time.Time `json:"lastUpdated,omitempty"`

	HardwareProfile string           `json:"hardwareProfile,omitempty"`
	HardwareDetails *HardwareDetails `json:"hardware,omitempty"`

	Provisioning ProvisionStatus `json:"provisioning,omitzero"`

	GoodCredentials  CredentialsStatus `json:"goodCredentials,omitzero"`
	TriedCredentials CredentialsStatus `json:"triedCredentials,omitzero"`

	// PoweredOn is the power state last read from the BMC.
	PoweredOn bool `json:"poweredOn"`

	OperationHistory OperationHistory `json:"operationHistory,omitzero"`

	// ProvisioningFailCount is how often the image in the spec could not be
	// provisioned; LastAttemptedImage is its URL.
	ProvisioningFailCount int    `json:"provisioningFailCount,omitempty"`
	LastAttemptedImage    string `json:"lastAttemptedImage,omitempty"`
}

// ProvisionStatus is what a host carries or is about to carry.
type ProvisionStatus struct {
	State ProvisioningState `json:"state"`
	// ID is the name the back end gave the host; empty before registration.
	ID string `json:"ID,omitempty"`
	// Image is what was written last; an empty URL means nothing.
	Image Image `json:"image,omitzero"`
	// RootDeviceHints and BootMode are those in force, copied from the spec when
	// provisioning started, so that a later edit does not provision anew.
	RootDeviceHints *RootDeviceHints `json:"rootDeviceHints,omitempty"`
	BootMode        BootMode         `json:"bootMode,omitempty"`
}

// CredentialsStatus names one version of one secret.
type CredentialsStatus struct {
	Reference *SecretReference `json:"credentials,omitempty"`
	Version   string           `json:"credentialsVersion,omitempty"`
}

// Match reports whether s names version of the secret called name in namespace.
func (s CredentialsStatus) Match(namespace, name, version string) bool {
	return s.Reference != nil && s.Reference.Name == name &&
		s.Reference.Namespace == namespace && s.Version == version
}

// OperationMetric is when an operation last started and ended; zero: not yet.
type OperationMetric struct {
	Start time.Time `json:"start,omitzero"`
	End   time.Time `json:"end,omitzero"`
}

// Duration returns how long the operation took; 0 if it has not ended.
func (m OperationMetric) Duration() time.Duration {
	if m.Start.IsZero() || m.End.Before(m.Start) {
		return 0
	}
	return m.End.Sub(m.Start)
}

// OperationHistory is when each operation last ran.
type OperationHistory struct {
	Register    OperationMetric `json:"register,omitzero"`
	Inspect     OperationMetric `json:"inspect,omitzero"`
	Provision   OperationMetric `json:"provision,omitzero"`
	Deprovision OperationMetric `json:"deprovision,omitzero"`
}

// ForState returns the record that state belongs to, or nil.
func (o *OperationHistory) ForState(state ProvisioningState) *OperationMetric {
	switch state {
	case StateRegistering:
		return &o.Register
	case StateInspecting:
		return &o.Inspect
	case StateProvisioning:
		return &o.Provision
	case StateDeprovisioning:
		return &o.Deprovision
	}
	return nil
}
