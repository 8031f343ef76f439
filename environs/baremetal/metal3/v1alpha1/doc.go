// Package metal3v1alpha1 holds the record of a bare-metal host: what its owner
// wants of it (the spec), what is known about it (the status) and what it is
// made of (the hardware details).
//
// Names, JSON keys and values follow the BareMetalHost resource of the group
// metal3.io/v1alpha1, so that documents written for other tools of this field
// can be imported and exported unchanged. The keys are therefore camelCase,
// unlike everything else on our own wire.
//
// Two fields have no counterpart there: BMCDetails.CertificateFingerprint and
// BMCDetails.CABundle, which say how a BMC proves who it is.
//
// The package does no I/O. Values are plain data: whoever holds a pointer owns
// it, and Copy gives an independent one.
package metal3v1alpha1
