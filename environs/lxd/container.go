package lxd

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/core/hardware"
	"github.com/slipway-project/slipway/core/instance"
	"github.com/slipway-project/slipway/core/network"
	"github.com/slipway-project/slipway/core/status"
	"github.com/slipway-project/slipway/environs"
	"github.com/slipway-project/slipway/environs/lxd/rest"
	"github.com/slipway-project/slipway/environs/userdata"
)

// keyPrefix starts the keys of LXD's configuration that are for users.
const keyPrefix = "user."

// What a container's configuration says when nothing is missing any more, and
// before. Until then LXD must not start it by itself: that would run a container
// without its agent file, and of one that is half made it tries again and again,
// with 5 seconds between, while it answers nobody.
var (
	complete   = map[string]string{completeKey: "true", autostartKey: "true"}
	incomplete = map[string]string{completeKey: "false"}
)

const (
	completeKey  = keyPrefix + "slipway-complete"
	autostartKey = "boot.autostart"
)

// half reports whether something of a container is still missing.
func half(i rest.Instance) bool { return i.Config[completeKey] == "false" }

// firstPort is the loopback port in a container that leads to the first of the
// API's addresses; the next port leads to the next address.
const firstPort = 17070

// nameOf returns the name of a machine's container. It tells apart machines,
// models and sites, and is short enough to be a host name.
func nameOf(o environs.Owner) string {
	sum := sha256.Sum256([]byte(o.ControllerUUID + "/" + o.ModelUUID))
	return "slipway-" + hex.EncodeToString(sum[:6]) + "-" + strings.ReplaceAll(o.MachineID, "/", "-")
}

// ownerOf returns whose an instance is, by its marks.
func ownerOf(i rest.Instance) environs.Owner {
	return environs.OwnerOf(map[string]string{
		environs.TagControllerUUID: i.Config[keyPrefix+environs.TagControllerUUID],
		environs.TagModelUUID:      i.Config[keyPrefix+environs.TagModelUUID],
		environs.TagMachineID:      i.Config[keyPrefix+environs.TagMachineID],
	})
}

// ours reports whether an instance belongs to a machine of owner's model.
func ours(i rest.Instance, owner environs.Owner) bool {
	o := ownerOf(i)
	return o.SameModel(owner) && o.MachineID != ""
}

// plan is a container that is to be made, and what goes on its disk.
type plan struct {
	container rest.NewInstance
	agent     string // path of the agent's program here; empty means none
	files     []userdata.File
	// late says that the container is started first: nothing that it does at
	// its boot needs what goes on its disk.
	late bool
}

// planFor says what to make on a host for a machine.
func (e *Environ) planFor(ctx context.Context, s settings, info hostInfo, p environs.StartInstanceParams) (plan, error) {
	source, err := s.source(p.Base)
	if err != nil {
		return plan{}, err
	}
	n := rest.NewInstance{
		Name: nameOf(p.Owner), Type: "container", Source: source, Profiles: s.profiles,
		Config:  maps.Clone(incomplete),
		Devices: rest.Devices{},
	}
	tags := maps.Clone(p.Tags)
	if tags == nil {
		tags = map[string]string{}
	}
	maps.Copy(tags, p.Owner.Tags())
	tags[environs.TagNonce] = p.InstanceConfig.Nonce
	for key, value := range tags {
		n.Config[keyPrefix+key] = value
	}
	if s.nesting {
		n.Config["security.nesting"] = "true"
	}
	if err := limit(&n, info, p); err != nil {
		return plan{}, err
	}
	agent := *p.InstanceConfig
	inside, err := s.routes(ctx, n.Devices, agent.APIAddresses)
	if err != nil {
		return plan{}, err
	}
	agent.AgentBinaries = reroute(agent.AgentBinaries, agent.APIAddresses, inside)
	agent.APIAddresses = known(inside)
	params := userdata.Params{Config: &agent, AgentFileLaid: true, AgentLaid: s.hasAgent || e.options.AgentBinary != ""}
	if !s.cloudInit && !params.AgentLaid {
		return plan{}, errors.NewNotValid(nil, "an image without cloud-init needs a static agent: the worker was started without one, and "+HasAgentKey+" is not set")
	}
	out := plan{container: n, late: s.late()}
	if !s.hasAgent {
		out.agent = e.options.AgentBinary
	}
	if out.files, err = userdata.Files(params); err != nil {
		return plan{}, err
	}
	if out.late {
		// The image or its cloud-init has the rest.
		out.files = slices.DeleteFunc(out.files, func(f userdata.File) bool { return f.Path != userdata.AgentFilePath })
	}
	if s.cloudInit {
		text, err := userdata.CloudInit(params)
		if err != nil {
			return plan{}, err
		}
		n.Config["cloud-init.user-data"] = string(text)
	}
	return out, out.connect(p.Network, info.nics, s.cloudInit)
}

// limit turns constraints into limits.
func limit(n *rest.NewInstance, info hostInfo, p environs.StartInstanceParams) error {
	c := p.Constraints
	if c.Arch != nil && *c.Arch != "" {
		for theirs, name := range arches {
			if name == *c.Arch {
				n.Architecture = theirs
			}
		}
	}
	if c.Cores != nil && *c.Cores > 0 {
		n.Config["limits.cpu"] = strconv.FormatUint(*c.Cores, 10)
	}
	if c.Mem != nil && *c.Mem > 0 {
		n.Config["limits.memory"] = fmt.Sprintf("%dMiB", *c.Mem)
	}
	if c.RootDisk != nil && *c.RootDisk > 0 {
		if info.pool == "" {
			return errors.NewNotValid(nil, "root-disk: the LXD profiles name no storage pool")
		}
		n.Devices["root"] = map[string]string{
			"type": "disk", "path": "/", "pool": info.pool, "size": fmt.Sprintf("%dMiB", *c.RootDisk),
		}
	}
	return nil
}

// hardwareOf returns what a machine on the host is like if it is started with
// p, and what of the constraints the host cannot meet.
func hardwareOf(h *host, info hostInfo, p environs.StartInstanceParams) (hardware.Characteristics, []string) {
	cores, mem, zone := info.cores, info.memory, h.zone
	hc := hardware.Characteristics{CPUCores: &cores, Mem: &mem, AvailabilityZone: &zone, RootDisk: p.Constraints.RootDisk}
	c := p.Constraints
	for i, a := range info.arches {
		if i == 0 || c.Arch != nil && *c.Arch == a {
			hc.Arch = &a
		}
	}
	c.CPUPower, c.Tags = nil, nil // not about containers
	unmet := hc.Unmet(c)
	if c.Cores != nil && *c.Cores > 0 {
		hc.CPUCores = c.Cores
	}
	if c.Mem != nil && *c.Mem > 0 {
		hc.Mem = c.Mem
	}
	return hc, unmet
}

// routes returns, for each address of the API, the one under which a container
// reaches it, or "" if none does, and adds the devices that this takes. It errs if
// the API cannot be reached at all.
func (s settings) routes(ctx context.Context, devices rest.Devices, addresses []string) ([]string, error) {
	out := make([]string, len(addresses))
	for i, address := range addresses {
		hostName, port, err := net.SplitHostPort(address)
		if err != nil {
			return nil, errors.NewNotValid(nil, fmt.Sprintf("API address %q is not host:port", address))
		}
		if s.bridge {
			if ip := net.ParseIP(hostName); hostName != "localhost" && (ip == nil || !ip.IsLoopback()) {
				out[i] = address
			}
			continue
		}
		// LXD takes addresses only, no names.
		resolved, err := net.DefaultResolver.LookupHost(ctx, hostName)
		if err != nil {
			logger.Warningf("leaving out an API address: %v", err)
			continue
		}
		out[i] = net.JoinHostPort("127.0.0.1", strconv.Itoa(firstPort+i))
		devices["slipway-api-"+strconv.Itoa(i)] = map[string]string{
			"type": "proxy", "bind": "instance", "listen": "tcp:" + out[i], "connect": "tcp:" + net.JoinHostPort(resolved[0], port),
		}
	}
	if len(known(out)) == 0 && s.bridge {
		return nil, errors.Errorf("none of the API's addresses %s is reachable from a container: have the controller listen on the bridge, or reset %s", strings.Join(addresses, ", "), BridgeKey)
	}
	if len(known(out)) == 0 {
		return nil, errors.Errorf("none of the API's addresses %s is known to the resolver", strings.Join(addresses, ", "))
	}
	return out, nil
}

// known returns the addresses that are not empty.
func known(addresses []string) []string {
	return slices.DeleteFunc(slices.Clone(addresses), func(a string) bool { return a == "" })
}

// reroute returns packages of the agent with addresses of the API replaced by
// those under which a container reaches them. What it cannot reach is left out.
func reroute(all []environs.AgentBinary, addresses, inside []string) []environs.AgentBinary {
	var out []environs.AgentBinary
	for _, b := range all {
		u, err := url.Parse(b.URL)
		if err != nil {
			continue // it leads nowhere
		}
		if i := slices.Index(addresses, u.Host); i >= 0 {
			if inside[i] == "" {
				continue
			}
			u.Host = inside[i]
			b.URL = u.String()
		}
		out = append(out, b)
	}
	return out
}

// instanceOf returns what is known of a container, but for its addresses.
func instanceOf(h *host, i rest.Instance) environs.Instance {
	zone := h.zone
	out := environs.Instance{
		ID:       instance.ID(i.Name),
		Owner:    ownerOf(i),
		Nonce:    i.Config[keyPrefix+environs.TagNonce],
		Hardware: hardware.Characteristics{AvailabilityZone: &zone},
	}
	if name, ok := arches[i.Architecture]; ok {
		out.Hardware.Arch = &name
	}
	if n, err := strconv.ParseUint(i.ExpandedConfig["limits.cpu"], 10, 64); err == nil {
		out.Hardware.CPUCores = &n
	}
	if n, err := strconv.ParseUint(strings.TrimSuffix(i.ExpandedConfig["limits.memory"], "MiB"), 10, 64); err == nil {
		out.Hardware.Mem = &n
	}
	if half(i) {
		out.Nonce = "" // it is not sound yet
	}
	switch {
	case i.Status == rest.Running && half(i):
		out.Status, out.Message = status.Provisioning, "the agent's files are being written"
	case i.Status == rest.Running:
		out.Status = status.Running
	case i.Status == rest.Broken:
		out.Status, out.Message = status.Error, "LXD reports an error of the container"
	case !i.Ran():
		out.Status, out.Message = status.Stopped, "the container has never been started"
	default:
		out.Status, out.Message = status.Stopped, "the container is "+strings.ToLower(i.Status)
	}
	return out
}

// addressesOf returns where an instance can be reached.
func addressesOf(interfaces map[string]rest.Interface) []network.Address {
	var out []network.Address
	for _, i := range interfaces {
		if i.Type == "loopback" {
			continue
		}
		for _, a := range i.Addresses {
			if a.Scope == "global" {
				out = append(out, network.NewAddress(a.Address))
			}
		}
	}
	network.Sort(out)
	return out
}
