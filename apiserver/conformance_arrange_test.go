package apiserver_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/slipway-project/slipway/core/constraints"
	"github.com/slipway-project/slipway/core/container"
	"github.com/slipway-project/slipway/core/image"
	"github.com/slipway-project/slipway/core/instance"
	"github.com/slipway-project/slipway/core/job"
	"github.com/slipway-project/slipway/core/network"
	"github.com/slipway-project/slipway/core/status"
	"github.com/slipway-project/slipway/core/storage"
	"github.com/slipway-project/slipway/environs/config"
	"github.com/slipway-project/slipway/params"
	"github.com/slipway-project/slipway/state"
	"github.com/slipway-project/slipway/state/statetest"
)

// arrange carries out a step that changes or shows the state itself.
//
//	machines N                       N machines like any other
//	machine KEY=VALUE ...            one with series, group, placement, in (a host, with type), or constraints
//	container HOST TYPE [N]          containers
//	site                             goes on in the controller model, whose machine 0 runs the site
//	controllers N                    further machines that run the site
//	dead|dying|remove ID             along its life
//	instance ID INSTANCE             provisioned, with the nonce that agents show
//	status ID STATUS [INFO [DATA]]   the machine's
//	config|controller JSON           settings of the model, of the site
//	ports HOST:PORT ...              where the API server can be reached
//	space NAME [PROVIDER-ID]
//	subnet CIDR SPACE [KEY=VALUE ...] with id, zones, low, high
//	image JSON                       what an operator says of an image
//	pool NAME PROVIDER [KEY=VALUE]   a storage pool
//	nic ID NAME KEY=VALUE ...        a network interface of a machine, with cidr, address, index, disabled
//	addresses ID ADDRESS ...         what the provider says of where a machine is
//	cleanup                          what the cleaner does
//	taken CIDR                       the addresses of a subnet that are not free
//	volumes ID                       a machine's volumes
//	show ID ...                      machines, as state has them
//	password ID PASSWORD             whether it is the machine's
//	marked                           which machines are marked for removal
func (p *player) arrange(word, rest string) []string {
	ctx, st := context.Background(), p.st
	args := strings.Fields(rest)
	switch word {
	case "machines":
		for range number(args[0]) {
			statetest.AddMachine(p.t, st, state.MachineSpec{})
		}
	case "machine":
		statetest.AddMachine(p.t, st, p.spec(args))
	case "site":
		p.st = p.site().Management
	case "controllers":
		for range number(args[0]) {
			statetest.AddMachine(p.t, p.st, state.MachineSpec{Jobs: []job.Job{job.ManageModel}})
		}
	case "container":
		n := 1
		if len(args) > 2 {
			n = number(args[2])
		}
		for range n {
			statetest.AddMachine(p.t, st, state.MachineSpec{Parent: args[0], ContainerType: container.Type(args[1])})
		}
	case "dead", "dying", "remove":
		p.must(p.life(word, p.machine(rest)))
	case "instance":
		p.must(p.machine(args[0]).SetInstanceInfo(ctx, state.InstanceInfo{ID: instance.ID(args[1]), Nonce: agentNonce}))
	case "status":
		p.must(p.machine(args[0]).SetStatus(ctx, statusOf(args[1:])))
	case "config":
		p.must(st.ModelConfig().Update(ctx, config.Update{Set: p.object(rest)}))
	case "controller":
		p.must(p.site().UpdateControllerConfig(ctx, p.object(rest), nil))
	case "ports":
		servers := make([][]network.HostPort, len(args))
		for i, a := range args {
			hp, err := network.ParseHostPorts(a)
			p.must(err)
			servers[i] = hp
		}
		p.must(p.site().SetAPIHostPorts(ctx, servers))
	case "image":
		var sent params.CloudImageMetadata
		p.must(json.Unmarshal([]byte(rest), &sent))
		p.must(st.Images().Save(ctx, []image.Metadata{sent.Metadata()}))
	case "cleanup":
		_, err := p.site().Cleanups().Run(ctx, time.Now())
		p.must(err)
	default:
		return p.network(word, args)
	}
	return nil
}

// network carries out a step about networks.
func (p *player) network(word string, args []string) []string {
	ctx := context.Background()
	switch word {
	case "space":
		s := network.Space{Name: args[0]}
		if len(args) > 1 {
			s.ProviderID = strings.ReplaceAll(args[1], "_", " ")
		}
		p.must(p.st.Networks().AddSpace(ctx, s, nil))
	case "subnet":
		s := network.Subnet{CIDR: args[0], Space: args[1]}
		given := pairs(args[2:])
		s.ProviderID, s.Low, s.High = given["id"], given["low"], given["high"]
		if given["zones"] != "" {
			s.Zones = strings.Split(given["zones"], ",")
		}
		p.must(p.st.Networks().AddSubnet(ctx, s))
	case "pool":
		pool := storage.Pool{Name: args[0], Provider: args[1], Attrs: make(map[string]any)}
		for key, value := range pairs(args[2:]) {
			pool.Attrs[key] = value
		}
		p.must(p.st.Pools().Add(ctx, pool))
	case "nic":
		m, given := p.machine(args[0]), pairs(args[2:])
		index, _ := strconv.Atoi(given["index"])
		p.must(m.SetInterfaces(ctx, append(m.Interfaces(), network.Interface{
			Name: args[1], Index: index, CIDR: given["cidr"], Address: given["address"], Disabled: given["disabled"] == "true",
			DNSServers: []string{"10.0.0.53"},
		})))
	case "addresses":
		p.must(p.machine(args[0]).SetProviderAddresses(ctx, network.NewAddresses(args[1:]...)))
	default:
		return p.show(word, args)
	}
	return nil
}

// pairs reads KEY=VALUE words.
func pairs(words []string) map[string]string {
	out := make(map[string]string)
	for _, w := range words {
		key, value, _ := strings.Cut(w, "=")
		out[key] = value
	}
	return out
}

// show carries out a step that only shows.
func (p *player) show(word string, args []string) []string {
	var out []string
	switch word {
	case "show":
		for _, id := range args {
			out = append(out, describe(p.machine(id)))
		}
	case "password":
		out = append(out, strconv.FormatBool(p.machine(args[0]).PasswordValid(args[1])))
	case "volumes":
		for _, v := range p.machine(args[0]).Volumes() {
			text, err := marshal(v)
			p.must(err)
			out = append(out, string(text))
		}
	case "taken":
		taken, err := p.st.Networks().Addresses(context.Background(), args[0])
		p.must(err)
		for _, address := range slices.Sorted(maps.Keys(taken)) {
			out = append(out, fmt.Sprintf("%s %s of %s", address, taken[address].Life, taken[address].Holder))
		}
		if len(out) == 0 {
			out = append(out, "none")
		}
	case "marked":
		ids, err := p.st.Machines().MarkedForRemoval(context.Background())
		p.must(err)
		out = append(out, strings.Join(ids, " "))
	default:
		p.t.Fatalf("no step %q", word)
	}
	return out
}

func (p *player) must(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
}

func number(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		panic(err)
	}
	return n
}

func (p *player) object(text string) map[string]any {
	p.t.Helper()
	var attrs map[string]any
	p.must(json.Unmarshal([]byte(text), &attrs))
	return attrs
}

func (p *player) machine(id string) *state.Machine {
	p.t.Helper()
	m, err := p.st.Machines().Get(context.Background(), id)
	p.must(err)
	return m
}

func (p *player) life(word string, m *state.Machine) error {
	ctx := context.Background()
	switch word {
	case "dead":
		return m.EnsureDead(ctx)
	case "dying":
		return m.Destroy(ctx)
	}
	return m.Remove(ctx)
}

// statusOf reads a status, its text with _ for blanks, and its data as JSON.
func statusOf(args []string) status.Info {
	s := status.Info{Status: status.Status(args[0])}
	if len(args) > 1 {
		s.Message = strings.ReplaceAll(args[1], "_", " ")
	}
	if len(args) > 2 {
		_ = json.Unmarshal([]byte(args[2]), &s.Data)
	}
	return s
}

func (p *player) spec(args []string) state.MachineSpec {
	p.t.Helper()
	var spec state.MachineSpec
	var wanted []string
	for _, a := range args {
		key, value, _ := strings.Cut(a, "=")
		switch key {
		case "series":
			spec.Series = value
		case "group":
			spec.Group = value
		case "placement":
			spec.Placement = value
		case "disks":
			parts := strings.Split(value, ":")
			spec.Disks = append(spec.Disks, state.Disks{Pool: parts[0], Size: uint64(number(parts[1])), Count: number(parts[2])})
		case "jobs":
			spec.Jobs = []job.Job{job.Job(value)}
		default:
			wanted = append(wanted, a)
		}
	}
	var err error
	spec.Constraints, err = constraints.Parse(wanted...)
	p.must(err)
	return spec
}

// describe says what a machine is and has.
func describe(m *state.Machine) string {
	s := m.Status()
	text := fmt.Sprintf("%s %s status=%s/%s/%v", m.Id(), m.Life(), s.Status, s.Message, s.Data)
	if s.Data == nil {
		text = strings.TrimSuffix(text, "map[]")
	}
	if id, err := m.InstanceId(); err == nil {
		text += " instance=" + string(id)
		if h, err := m.Hardware(); err == nil {
			text += " hardware=" + h.String()
		}
	}
	if types, known := m.SupportedContainers(); known {
		text += fmt.Sprintf(" containers=%v", types)
	}
	if a := m.Addresses(); len(a) > 0 {
		text += fmt.Sprintf(" addresses=%v", a)
	}
	return text
}
