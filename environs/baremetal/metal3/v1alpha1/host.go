package metal3v1alpha1

import (
	"encoding/json"
	"time"
)

// APIVersion and Kind are what a document that describes a host carries.
const (
	APIVersion = "metal3.io/v1alpha1"
	Kind       = "BareMetalHost"
)

// BareMetalHost is one physical machine.
type BareMetalHost struct {
	APIVersion string     `json:"apiVersion,omitempty"`
	Kind       string     `json:"kind,omitempty"`
	Metadata   ObjectMeta `json:"metadata"`

	Spec   BareMetalHostSpec   `json:"spec"`
	Status BareMetalHostStatus `json:"status,omitzero"`
}

// Copy returns a host that shares nothing with h.
func (h *BareMetalHost) Copy() *BareMetalHost {
	data, err := json.Marshal(h)
	if err != nil {
		panic("metal3v1alpha1: a host is always plain data: " + err.Error())
	}
	c := new(BareMetalHost)
	if err := json.Unmarshal(data, c); err != nil {
		panic("metal3v1alpha1: cannot read back a host: " + err.Error())
	}
	return c
}

// ObjectMeta names a host.
type ObjectMeta struct {
	Name        string            `json:"name"`
	Namespace   string            `json:"namespace,omitempty"`
	UID         string            `json:"uid,omitempty"` // stable over the host's whole life; empty in an imported document
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`

	// CreationTimestamp is when the host was added.
	CreationTimestamp time.Time `json:"creationTimestamp,omitzero"`
	// DeletionTimestamp, when set, says that the host is to be removed.
	DeletionTimestamp *time.Time `json:"deletionTimestamp,omitempty"`
}

// BareMetalHostSpec is what the owner wants.
type BareMetalHostSpec struct {
	Taints []Taint `json:"taints,omitempty"`

	BMC BMCDetails `json:"bmc,omitzero"`
	// HardwareProfile names an entry of Profiles; empty means "unknown".
	HardwareProfile string           `json:"hardwareProfile,omitempty"`
	RootDeviceHints *RootDeviceHints `json:"rootDeviceHints,omitempty"`
	// BootMode is UEFI when empty.
	BootMode BootMode `json:"bootMode,omitempty"`
	// BootMACAddress is the network interface the host installs from: six pairs
	// of hexadecimal digits with colons.
	BootMACAddress string `json:"bootMACAddress,omitempty"`
	// Online is whether the host should be powered on.
	Online bool `json:"online"`
	// ConsumerRef, when set, says that the host is in use, and by whom.
	ConsumerRef *ObjectReference `json:"consumerRef,omitempty"`
	// Image is what should be on the host's disk; nil or an empty URL: nothing.
	Image *Image `json:"image,omitempty"`

	UserData    *SecretReference `json:"userData,omitempty"`
	NetworkData *SecretReference `json:"networkData,omitempty"`
	MetaData    *SecretReference `json:"metaData,omitempty"`

	Description string `json:"description,omitempty"`
	// ExternallyProvisioned says that the host carries an image that we did not
	// write and must not touch.
	ExternallyProvisioned bool `json:"externallyProvisioned,omitempty"`
}

// Taint keeps work off a host. It is kept for import and export; nothing acts on
// it.
type Taint struct {
	Key    string `json:"key"`
	Value  string `json:"value,omitempty"`
	Effect string `json:"effect,omitempty"`
}

// BMCDetails says how to reach a host's management controller.
type BMCDetails struct {
	// Address is in the grammar of package bmc.
	Address string `json:"address,omitempty"`
	// CredentialsName is the secret with keys username and password, in the
	// host's own namespace.
	CredentialsName string `json:"credentialsName,omitempty"`
	// DisableCertificateVerification accepts any certificate.
	DisableCertificateVerification bool `json:"disableCertificateVerification,omitempty"`
	// CertificateFingerprint, when set, is the SHA-256 of the BMC's certificate
	// (DER) in hexadecimal, colons allowed; no other certificate is accepted, and
	// this one whoever signed it.
	CertificateFingerprint string `json:"certificateFingerprint,omitempty"`
	// CABundle, when set, holds the PEM certificates that may have signed the
	// BMC's; empty means those of the operating system.
	CABundle string `json:"caBundle,omitempty"`
}

// BootMode is how a host's firmware starts it.
type BootMode string

// The boot modes.
const (
	UEFI            BootMode = "UEFI"
	Legacy          BootMode = "legacy"
	DefaultBootMode          = UEFI
)

// ChecksumType is the algorithm of an image's checksum.
type ChecksumType string

// The checksum types. MD5 is what an empty one means.
const (
	MD5    ChecksumType = "md5"
	SHA256 ChecksumType = "sha256"
	SHA512 ChecksumType = "sha512"
)

// Image is what is to be written on a host's root device. Only the URL decides
// whether a host is provisioned anew: a change of the checksum alone does nothing.
type Image struct {
	URL string `json:"url"`
	// Checksum is hexadecimal, or the URL of a file that has it.
	Checksum     string       `json:"checksum,omitempty"`
	ChecksumType ChecksumType `json:"checksumType,omitempty"`
	// DiskFormat is raw, qcow2, vdi or vmdk; nil means: find out. LiveISO is not
	// written to a disk: the host boots from it each time.
	DiskFormat *string `json:"format,omitempty"`
}

// LiveISO is the DiskFormat of an image to boot from.
const LiveISO = "live-iso"

// IsLiveISO reports whether the image is to be booted, not written.
func (i *Image) IsLiveISO() bool {
	return i != nil && i.DiskFormat != nil && *i.DiskFormat == LiveISO
}

// ChecksumOf returns the checksum and its algorithm; ok is false if the image
// has none or one of an unknown type.
func (i *Image) ChecksumOf() (checksum string, kind ChecksumType, ok bool) {
	if i == nil || i.Checksum == "" {
		return "", "", false
	}
	switch i.ChecksumType {
	case "":
		return i.Checksum, MD5, true
	case MD5, SHA256, SHA512:
		return i.Checksum, i.ChecksumType, true
	}
	return "", "", false
}

// SecretReference names a secret.
type SecretReference struct {
	Name string `json:"name"`
	// Namespace is the host's when empty.
	Namespace string `json:"namespace,omitempty"`
}

// ObjectReference names whatever uses a host.
type ObjectReference struct {
	Kind       string `json:"kind,omitempty"`
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name,omitempty"`
	UID        string `json:"uid,omitempty"`
	APIVersion string `json:"apiVersion,omitempty"`
}

// EffectiveBootMode returns the boot mode asked for, or the default.
func (h *BareMetalHost) EffectiveBootMode() BootMode {
	if h.Spec.BootMode == "" {
		return DefaultBootMode
	}
	return h.Spec.BootMode
}

// HasBMCDetails reports whether anything is known of the host's BMC.
func (h *BareMetalHost) HasBMCDetails() bool {
	return h.Spec.BMC.Address != "" || h.Spec.BMC.CredentialsName != ""
}

// WantsImage reports whether the spec names an image.
func (h *BareMetalHost) WantsImage() bool {
	return h.Spec.Image != nil && h.Spec.Image.URL != ""
}

// NeedsProvisioning reports whether a ready host should get an image now. A host
// that is to be off is never started.
func (h *BareMetalHost) NeedsProvisioning() bool {
	return h.Spec.Online && h.WantsImage() && h.Status.Provisioning.Image.URL == ""
}

// ImageChanged reports whether the image on the host, or on its way there, is no
// longer the one asked for.
func (h *BareMetalHost) ImageChanged() bool {
	if !h.WantsImage() {
		return true
	}
	have := h.Status.Provisioning.Image.URL
	return have != "" && have != h.Spec.Image.URL
}

// Deleting reports whether the host is to be removed.
func (h *BareMetalHost) Deleting() bool { return h.Metadata.DeletionTimestamp != nil }
