package redfish

import (
	"context"
	"net/http"
	"slices"

	"github.com/juju/errors"
	gofish "github.com/stmcginnis/gofish/redfish"
)

// link is a reference to a resource.
type link struct {
	ID string `json:"@odata.id"`
}

// system is what we need of a ComputerSystem for power and boot. It is much
// smaller than the whole, and so is the chance to stumble over a field that a BMC
// gets wrong.
type system struct {
	ID           string `json:"@odata.id"`
	UUID         string
	Manufacturer string
	PowerState   gofish.PowerState
	Boot         struct {
		Target  string   `json:"BootSourceOverrideTarget"`
		Enabled string   `json:"BootSourceOverrideEnabled"`
		Allowed []string `json:"BootSourceOverrideTarget@Redfish.AllowableValues"`
		HTTPURI string   `json:"HttpBootUri"`
	}
	VirtualMedia link
	SecureBoot   link
	Links        struct {
		ManagedBy []link
	}
	Actions struct {
		Reset struct {
			Target  string             `json:"target"`
			Allowed []gofish.ResetType `json:"ResetType@Redfish.AllowableValues"`
		} `json:"#ComputerSystem.Reset"`
	}

	path string
	etag string
}

// readSystem reads the system at path.
func (c *conn) readSystem(ctx context.Context, path string) (*system, error) {
	s := &system{path: path}
	etag, err := c.get(ctx, path, s)
	if err != nil {
		return nil, errors.Trace(err)
	}
	s.etag = etag
	return s, nil
}

// isOn reports whether the machine is on; known is false while it is changing or
// the BMC does not say.
func (s *system) isOn() (on, known bool) {
	switch s.PowerState {
	case gofish.OnPowerState:
		return true, true
	case gofish.OffPowerState:
		return false, true
	}
	return false, false
}

// allows reports whether the system takes that reset type; one that lists none
// may take all.
func (s *system) allows(t gofish.ResetType) bool {
	return len(s.Actions.Reset.Allowed) == 0 || slices.Contains(s.Actions.Reset.Allowed, t)
}

// reset sends a power command.
func (c *conn) reset(ctx context.Context, s *system, t gofish.ResetType) error {
	target := s.Actions.Reset.Target
	if target == "" {
		target = s.path + "/Actions/ComputerSystem.Reset"
	}
	_, err := c.do(ctx, http.MethodPost, target, map[string]any{"ResetType": t}, nil)
	return errors.Trace(err)
}

// findSystem returns the path of the system that the address means: the one it
// names, or the BMC's only one.
func (c *conn) findSystem(ctx context.Context, path string) (string, error) {
	if path != "" && path != "/redfish/v1" && path != "/redfish" {
		return path, nil
	}
	var all struct{ Members []link }
	if _, err := c.get(ctx, systemsPath, &all); err != nil {
		return "", errors.Trace(err)
	}
	switch len(all.Members) {
	case 0:
		return "", verdictf("the BMC has no system")
	case 1:
		return all.Members[0].ID, nil
	}
	return "", verdictf("the BMC has %d systems; name one in its address, for example %s", len(all.Members), clean(all.Members[0].ID, ""))
}
