package disk

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/provision/config"
)

// created matches what nvme prints of a new namespace.
var created = regexp.MustCompile(`created nsid:(\d+)`)

// SetupNamespaces divides the controller anew: all its namespaces are deleted,
// and those of c made and attached in order. It returns the block device of the first.
// A controller whose boot medium or mounted file system would be lost is refused.
func (m *Manager) SetupNamespaces(ctx context.Context, c config.NVMeCtrl) (string, error) {
	all, err := m.Disks()
	if err != nil {
		return "", err
	}
	for _, i := range all {
		if isNamespace(i.Path, c.Controller) {
			if err := m.CheckWipe(i); err != nil {
				return "", err
			}
		}
	}
	id, capacity, err := m.controller(ctx, c.Controller)
	if err != nil {
		return "", err
	}
	if err := m.run(ctx, "nvme", "delete-ns", c.Controller, "--namespace-id=0xffffffff"); err != nil {
		return "", errors.Annotatef(err, "cannot delete namespaces of %s", c.Controller)
	}
	first := ""
	for _, ns := range c.Namespaces {
		block := uint64(max(ns.BlockSize, 512))
		flbas := "--flbas=0"
		if block == 4096 {
			flbas = "--block-size=4096"
		}
		blocks := strconv.FormatUint(capacity/100*uint64(ns.Percent)/block, 10)
		out, err := m.cmd.Run(ctx, "nvme", "create-ns", c.Controller, "--nsze="+blocks, "--ncap="+blocks, flbas)
		if err != nil {
			return "", errors.Annotatef(err, "cannot create namespace %q of %s", ns.Label, c.Controller)
		}
		match := created.FindSubmatch(out)
		if match == nil {
			return "", errors.NotValidf("answer to creation of namespace %q of %s", ns.Label, c.Controller)
		}
		nsid := string(match[1])
		if err := m.run(ctx, "nvme", "attach-ns", c.Controller, "--namespace-id="+nsid, "--controllers="+id); err != nil {
			return "", errors.Annotatef(err, "cannot attach namespace %q of %s", ns.Label, c.Controller)
		}
		if first == "" {
			first = c.Controller + "n" + nsid
		}
	}
	if err := m.run(ctx, "nvme", "ns-rescan", c.Controller); err != nil {
		return "", errors.Annotatef(err, "cannot rescan %s", c.Controller)
	}
	return first, m.waitNode(ctx, first)
}

// isNamespace reports whether path is a namespace of the NVMe controller.
func isNamespace(path, controller string) bool {
	rest, ok := strings.CutPrefix(path, controller+"n")
	_, err := strconv.Atoi(rest)
	return ok && err == nil
}

// controller returns the controller's id and its whole capacity in bytes (NVM
// Express Base Specification, Identify Controller: CNTLID and TNVMCAP).
func (m *Manager) controller(ctx context.Context, path string) (string, uint64, error) {
	out, err := m.cmd.Run(ctx, "nvme", "id-ctrl", path, "--output-format=json")
	if err != nil {
		return "", 0, errors.Annotatef(err, "cannot identify %s", path)
	}
	var id struct {
		Controller uint64      `json:"cntlid"`
		Capacity   json.Number `json:"tnvmcap"`
	}
	if err := json.Unmarshal(out, &id); err != nil {
		return "", 0, errors.NotValidf("answer of nvme id-ctrl %s", path)
	}
	capacity, err := strconv.ParseUint(id.Capacity.String(), 10, 64)
	if err != nil || capacity == 0 {
		return "", 0, errors.NotSupportedf("dividing %s, which tells no capacity,", path)
	}
	return fmt.Sprintf("0x%x", id.Controller), capacity, nil
}
