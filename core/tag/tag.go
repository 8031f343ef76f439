package tag

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/juju/errors"
	"github.com/juju/names/v5"
)

// The kinds of tag that this project uses itself. Tags of other kinds, such as
// relations, can be parsed too, so that a caller is told that it may not touch
// them rather than that they do not exist.
const (
	ApplicationKind = names.ApplicationTagKind
	ControllerKind  = names.ControllerTagKind
	HostKind        = "host"
	MachineKind     = names.MachineTagKind
	ModelKind       = names.ModelTagKind
	UnitKind        = names.UnitTagKind
	UserKind        = names.UserTagKind
	VolumeKind      = names.VolumeTagKind
)

// Tags, each comparable with ==. Their zero values name nothing.
type (
	// Tag is a tag of any kind.
	Tag = names.Tag
	// ApplicationTag names an application.
	ApplicationTag = names.ApplicationTag
	// ControllerTag names a site by its UUID.
	ControllerTag = names.ControllerTag
	// MachineTag names a machine or container within a model.
	MachineTag = names.MachineTag
	// ModelTag names a model by its UUID.
	ModelTag = names.ModelTag
	// UnitTag names a unit.
	UnitTag = names.UnitTag
	// UserTag names a person; its Id has no domain if the domain is "local".
	UserTag = names.UserTag
	// VolumeTag names a volume.
	VolumeTag = names.VolumeTag
)

// HostTag names a bare-metal host, which belongs to the site, not to a model.
type HostTag struct{ id string }

// Kind returns HostKind.
func (HostTag) Kind() string { return HostKind }

// Id returns the host's name.
func (t HostTag) Id() string { return t.id }

// String returns the tag as the API writes it.
func (t HostTag) String() string { return HostKind + "-" + t.id }

var (
	hostName = regexp.MustCompile(`^[a-z0-9](?:[a-z0-9.-]{0,61}[a-z0-9])?$`)
	uuid     = regexp.MustCompile(`^[a-f0-9]{8}-[a-f0-9]{4}-[a-f0-9]{4}-[a-f0-9]{4}-[a-f0-9]{12}$`)
)

// IsValidHost reports whether id can name a host: a DNS name of at most 63
// characters.
func IsValidHost(id string) bool { return hostName.MatchString(id) }

// IsValidUUID reports whether id is a UUID in lower-case hexadecimal, and
// nothing else.
func IsValidUUID(id string) bool { return uuid.MatchString(id) }

// IsValidUser reports whether id can name a user, with or without a domain.
func IsValidUser(id string) bool { return names.IsValidUser(id) }

// IsValidUserName reports whether name can name a user of this site: it has no
// domain, and at most 255 bytes.
func IsValidUserName(name string) bool {
	return len(name) <= maxUserName && names.IsValidUserName(name)
}

// IsValidModelName reports whether name can name a model: lower-case letters,
// digits and hyphens, not starting with a hyphen.
func IsValidModelName(name string) bool { return names.IsValidModelName(name) }

// IsValidApplication reports whether name can name an application.
func IsValidApplication(name string) bool { return names.IsValidApplication(name) }

// IsValidUnit reports whether name can name a unit, such as "mysql/0".
func IsValidUnit(name string) bool { return names.IsValidUnit(name) }

// NewHostTag returns the tag of a host, or an error satisfying errors.NotValid
// if id cannot name one.
func NewHostTag(id string) (HostTag, error) {
	if !IsValidHost(id) {
		return HostTag{}, errors.NotValidf("host name %q", id)
	}
	return HostTag{id}, nil
}

// NewMachineTag returns the tag of the machine with the given id. The id must
// satisfy IsValidMachine; that is for the caller to know, as for ids that come
// from the store.
func NewMachineTag(id string) MachineTag { return names.NewMachineTag(id) }

// NewModelTag returns the tag of the model with the given UUID, which must
// satisfy IsValidUUID.
func NewModelTag(uuid string) ModelTag { return names.NewModelTag(uuid) }

// NewControllerTag returns the tag of the site with the given UUID, which must
// satisfy IsValidUUID.
func NewControllerTag(uuid string) ControllerTag { return names.NewControllerTag(uuid) }

// NewUserTag returns the tag of a user, or an error satisfying errors.NotValid
// if id cannot name one.
func NewUserTag(id string) (UserTag, error) {
	if !names.IsValidUser(id) {
		return UserTag{}, errors.NotValidf("user name %q", id)
	}
	return names.NewUserTag(id), nil
}

// invalid is the error for text that is no tag of the wanted kind; an empty
// kind means of no kind at all.
func invalid(text, kind string) error {
	if kind != "" {
		kind += " "
	}
	return errors.WithType(fmt.Errorf("%q is not a valid %stag", text, kind), errors.NotValid)
}

// Bounds on what strangers send, which is matched against patterns, remembered
// and logged; in bytes.
const (
	maxLength   = 1024 // of a tag
	maxUserName = 255
)

// ParseTag returns the tag that text writes. It returns an error satisfying
// errors.NotValid, `"x" is not a valid tag` if the kind is unknown and `"x" is
// not a valid machine tag` (or another kind) if the kind is known but not the
// id. No tag has more than 1024 bytes.
func ParseTag(text string) (Tag, error) {
	if len(text) > maxLength {
		return nil, errors.NotValidf("tag of %d bytes (at most %d)", len(text), maxLength)
	}
	kind, id, found := strings.Cut(text, "-")
	if !found {
		return nil, invalid(text, "")
	}
	switch kind {
	case HostKind:
		if !IsValidHost(id) {
			return nil, invalid(text, kind)
		}
		return HostTag{id}, nil
	case ModelKind, names.EnvironTagKind, names.IPAddressTagKind, names.CAASModelTagKind:
		// The package underneath accepts a UUID anywhere in the id.
		if !IsValidUUID(id) {
			return nil, invalid(text, kind)
		}
	case ControllerKind:
		if !IsValidUUID(id) && !names.IsValidControllerAgent(id) {
			return nil, invalid(text, kind)
		}
	case names.ActionTagKind:
		if !IsValidUUID(id) && !names.IsValidOperation(id) {
			return nil, invalid(text, kind)
		}
	}
	t, err := names.ParseTag(text)
	if err != nil {
		if _, kindErr := names.TagKind(text); kindErr != nil {
			kind = ""
		}
		return nil, invalid(text, kind)
	}
	// Ids have other spellings of a separator ("machine-0/lxd/0"): only the
	// one that tags print is a tag.
	if _, user := t.(UserTag); !user && t.String() != text {
		return nil, invalid(text, kind)
	}
	return t, nil
}

// parseAs is ParseTag for one type of tag.
func parseAs[T Tag](text, kind string) (T, error) {
	var none T
	t, err := ParseTag(text)
	if err != nil {
		return none, err
	}
	typed, ok := t.(T)
	if !ok {
		return none, invalid(text, kind)
	}
	return typed, nil
}

// ParseMachineTag is ParseTag for a machine; a tag of another kind is not
// valid.
func ParseMachineTag(text string) (MachineTag, error) { return parseAs[MachineTag](text, MachineKind) }

// ParseUserTag is ParseTag for a user.
func ParseUserTag(text string) (UserTag, error) { return parseAs[UserTag](text, UserKind) }

// ParseModelTag is ParseTag for a model.
func ParseModelTag(text string) (ModelTag, error) { return parseAs[ModelTag](text, ModelKind) }

// ParseControllerTag is ParseTag for a site.
func ParseControllerTag(text string) (ControllerTag, error) {
	return parseAs[ControllerTag](text, ControllerKind)
}

// ParseHostTag is ParseTag for a bare-metal host.
func ParseHostTag(text string) (HostTag, error) { return parseAs[HostTag](text, HostKind) }

// ParseUnitTag is ParseTag for a unit.
func ParseUnitTag(text string) (UnitTag, error) { return parseAs[UnitTag](text, UnitKind) }

// ParseApplicationTag is ParseTag for an application.
func ParseApplicationTag(text string) (ApplicationTag, error) {
	return parseAs[ApplicationTag](text, ApplicationKind)
}

// ParseVolumeTag is ParseTag for a volume.
func ParseVolumeTag(text string) (VolumeTag, error) { return parseAs[VolumeTag](text, VolumeKind) }
