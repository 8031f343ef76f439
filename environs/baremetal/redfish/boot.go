package redfish

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/juju/errors"
	gofish "github.com/stmcginnis/gofish/redfish"

	"github.com/slipway-project/slipway/environs/baremetal/bmc"
	metal3v1alpha1 "github.com/slipway-project/slipway/environs/baremetal/metal3/v1alpha1"
)

// decode reads an answer into v.
func decode(a answer, path string, v any) error {
	if err := json.Unmarshal(a.body, v); err != nil {
		return notRedfish(path, err)
	}
	return nil
}

// medium is what we need of a VirtualMedia resource.
type medium struct {
	Image      string
	MediaTypes []gofish.VirtualMediaType
	Actions    struct {
		Insert struct {
			Target string `json:"target"`
		} `json:"#VirtualMedia.InsertMedia"`
		Eject struct {
			Target string `json:"target"`
		} `json:"#VirtualMedia.EjectMedia"`
	}
	path, etag string
}

// findCD returns the system's virtual CD, or nil if it has none.
func (c *call) findCD(sys *system) (*medium, error) {
	c.conn.mu.Lock()
	path := c.known.cd
	c.conn.mu.Unlock()
	if path != "" {
		return c.readMedium(path)
	}
	collections := []string{sys.VirtualMedia.ID}
	for _, manager := range sys.Links.ManagedBy {
		var m struct{ VirtualMedia link }
		if _, err := c.conn.get(c.ctx, manager.ID, &m); err != nil {
			return nil, errors.Trace(err)
		}
		collections = append(collections, m.VirtualMedia.ID)
	}
	for _, collection := range collections {
		if collection == "" {
			continue
		}
		var all struct{ Members []link }
		if _, err := c.conn.get(c.ctx, collection, &all); err != nil {
			return nil, errors.Trace(err)
		}
		for _, member := range all.Members {
			m, err := c.readMedium(member.ID)
			if err != nil {
				return nil, errors.Trace(err)
			}
			if slices.Contains(m.MediaTypes, gofish.CDMediaType) || slices.Contains(m.MediaTypes, gofish.DVDMediaType) {
				c.conn.mu.Lock()
				c.known.cd = member.ID
				c.conn.mu.Unlock()
				return m, nil
			}
		}
	}
	return nil, nil
}

// readMedium reads the virtual medium at path.
func (c *call) readMedium(path string) (*medium, error) {
	m := &medium{path: path}
	etag, err := c.conn.get(c.ctx, path, m)
	if err != nil {
		return nil, errors.Trace(err)
	}
	m.etag = etag
	return m, nil
}

// insert puts image into the virtual CD.
func (c *call) insert(v vendor, m *medium, image string) error {
	if v.ejectFirst && m.Image != "" {
		if err := c.takeOut(v, m); err != nil {
			return errors.Trace(err)
		}
	}
	payload := map[string]any{"Image": image}
	if !v.imageOnly {
		payload["Inserted"], payload["WriteProtected"] = true, true
	}
	if m.Actions.Insert.Target == "" {
		return c.patch(v, m.path, m.etag, payload)
	}
	_, err := c.conn.do(c.ctx, http.MethodPost, m.Actions.Insert.Target, payload, nil)
	if statusOf(err) == http.StatusBadRequest && !v.imageOnly {
		_, err = c.conn.do(c.ctx, http.MethodPost, m.Actions.Insert.Target, map[string]any{"Image": image}, nil)
	}
	return errors.Annotate(err, "cannot insert virtual medium")
}

// takeOut empties the virtual CD.
func (c *call) takeOut(v vendor, m *medium) error {
	if m.Actions.Eject.Target == "" {
		return c.patch(v, m.path, m.etag, map[string]any{"Image": nil, "Inserted": false})
	}
	_, err := c.conn.do(c.ctx, http.MethodPost, m.Actions.Eject.Target, map[string]any{}, nil)
	return errors.Annotate(err, "cannot eject virtual medium")
}

// eject empties the virtual CD if image is in it.
func (c *call) eject(image string) error {
	sys, err := c.conn.readSystem(c.ctx, c.path)
	if err != nil {
		return errors.Trace(err)
	}
	m, err := c.findCD(sys)
	if err != nil || m == nil || image == "" || m.Image != image {
		return errors.Trace(err)
	}
	return errors.Trace(c.takeOut(vendorOf(sys.Manufacturer), m))
}

// patch changes a resource, with its ETag where the vendor insists on it.
func (c *call) patch(v vendor, path, etag string, payload any) error {
	h := make(http.Header)
	if v.ifMatch && etag != "" {
		h.Set("If-Match", etag)
	}
	_, err := c.conn.do(c.ctx, http.MethodPatch, path, payload, h)
	return errors.Annotatef(err, "cannot change %s", path)
}

// bootPlan is how the installer gets to the host.
type bootPlan struct {
	target string // BootSourceOverrideTarget
	uri    string // for UEFI HTTP
	image  string // for virtual media
	cd     *medium
}

// plan chooses how to boot the installer: as the address says or, if it does not
// say, by virtual media, or by UEFI HTTP if there is no virtual CD.
func (c *call) plan(sys *system, job JobStatus) (bootPlan, error) {
	via := c.address.Driver.Boot
	canHTTP := job.HTTPBoot != "" && slices.Contains(sys.Boot.Allowed, "UefiHttp")
	if via != bmc.BootHTTP && job.ISO != "" {
		cd, err := c.findCD(sys)
		if err != nil {
			return bootPlan{}, errors.Trace(err)
		}
		if cd != nil {
			return bootPlan{target: cdTarget(sys), image: job.ISO, cd: cd}, nil
		}
		if via == bmc.BootVirtualMedia {
			return bootPlan{}, verdictf("the BMC has no virtual CD; use the scheme redfish-uefihttp if it can boot by HTTP")
		}
	}
	if canHTTP && c.bootMode() == metal3v1alpha1.UEFI {
		return bootPlan{target: "UefiHttp", uri: job.HTTPBoot}, nil
	}
	return bootPlan{}, verdictf("the BMC can neither boot from a virtual CD nor by UEFI HTTP; it offers %s", clean(strings.Join(sys.Boot.Allowed, ", "), ""))
}

// cdTarget returns the boot source that means the virtual CD.
func cdTarget(sys *system) string {
	if !slices.Contains(sys.Boot.Allowed, "Cd") && slices.Contains(sys.Boot.Allowed, "UsbCd") {
		return "UsbCd"
	}
	return "Cd"
}

// bootMode returns the boot mode in force.
func (c *call) bootMode() metal3v1alpha1.BootMode {
	if m := c.host.Status.Provisioning.BootMode; m != "" {
		return m
	}
	return c.host.EffectiveBootMode()
}

// overridden reports whether the next boot is the one planned.
func (plan bootPlan) overridden(sys *system) bool {
	return sys.Boot.Target == plan.target && sys.Boot.Enabled == "Once" && (plan.uri == "" || sys.Boot.HTTPURI == plan.uri)
}

// override makes the next boot, and only that, the one planned.
func (c *call) override(sys *system, plan bootPlan) error {
	v := vendorOf(sys.Manufacturer)
	boot := map[string]any{"BootSourceOverrideEnabled": "Once", "BootSourceOverrideTarget": plan.target}
	if !v.noMode {
		boot["BootSourceOverrideMode"] = "UEFI"
		if c.bootMode() == metal3v1alpha1.Legacy {
			boot["BootSourceOverrideMode"] = "Legacy"
		}
	}
	if plan.uri != "" {
		boot["HttpBootUri"] = plan.uri
	}
	return errors.Trace(c.patch(v, sys.path, sys.etag, map[string]any{"Boot": boot}))
}
