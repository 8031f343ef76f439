package metal3v1alpha1

import (
	"encoding/json"
	"strings"
)

// The annotations that change how a host is treated.
const (
	// PausedAnnotation, with any value, makes us leave the host alone.
	PausedAnnotation = "baremetalhost.metal3.io/paused"
	// StatusAnnotation carries a status as JSON; it is used once, for a host that
	// has none of its own.
	StatusAnnotation = "baremetalhost.metal3.io/status"
	// RebootAnnotation asks for one power cycle. With "/KEY" behind it the host is
	// kept off until every such annotation is gone.
	RebootAnnotation = "reboot.metal3.io"
	// InspectAnnotation asks for a ready host to be inspected again. With the value
	// "disabled" a host is not inspected at all.
	InspectAnnotation = "inspect.metal3.io"
	// WipeAnnotation with the value "soft" makes deprovisioning keep the data and make
	// the system unbootable, instead of wiping every disk.
	WipeAnnotation = "slipway/wipe"
	// KeepDisksAnnotation lists disks that a wipe never touches, by serial, WWN or name,
	// with commas.
	KeepDisksAnnotation = "slipway/keep-disks"
	// InstallerNetworkAnnotation says as JSON how the host's installer reaches the
	// controller, where DHCP does not do: bonds, vlans, static, dns.
	InstallerNetworkAnnotation = "slipway/installer-network"
)

// InspectionDisabled reports whether the host is not to be inspected.
func (h *BareMetalHost) InspectionDisabled() bool {
	return h.Metadata.Annotations[InspectAnnotation] == "disabled"
}

// InspectionRequested reports whether the host is to be inspected again.
func (h *BareMetalHost) InspectionRequested() bool {
	_, ok := h.Metadata.Annotations[InspectAnnotation]
	return ok && !h.InspectionDisabled()
}

// RebootMode is how a host is switched off for a reboot.
type RebootMode string

// The reboot modes. Soft is the default.
const (
	RebootSoft RebootMode = "soft"
	RebootHard RebootMode = "hard"
)

// Paused reports whether the host is to be left alone.
func (h *BareMetalHost) Paused() bool {
	_, ok := h.Metadata.Annotations[PausedAnnotation]
	return ok
}

// isReboot reports whether key is a reboot annotation, plain or with a key.
func isReboot(key string) bool {
	return key == RebootAnnotation || strings.HasPrefix(key, RebootAnnotation+"/")
}

// RebootRequested reports whether any reboot annotation holds the host off, and
// the hardest mode that one of them asks for.
func (h *BareMetalHost) RebootRequested() (mode RebootMode, ok bool) {
	mode = RebootSoft
	for key, value := range h.Metadata.Annotations {
		if !isReboot(key) {
			continue
		}
		ok = true
		var arguments struct {
			Mode RebootMode `json:"mode"`
		}
		if json.Unmarshal([]byte(value), &arguments) == nil && arguments.Mode == RebootHard {
			mode = RebootHard
		}
	}
	return mode, ok
}

// ClearReboot drops the plain reboot annotation, and those with a key too if
// keyed is set. It reports whether anything changed.
func (h *BareMetalHost) ClearReboot(keyed bool) bool {
	changed := false
	for key := range h.Metadata.Annotations {
		if key == RebootAnnotation || keyed && isReboot(key) {
			delete(h.Metadata.Annotations, key)
			changed = true
		}
	}
	return changed
}
