package client

import (
	"context"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/apiserver/common"
	"github.com/slipway-project/slipway/core/base"
	"github.com/slipway-project/slipway/core/job"
	"github.com/slipway-project/slipway/core/life"
	"github.com/slipway-project/slipway/core/network"
	"github.com/slipway-project/slipway/core/status"
	"github.com/slipway-project/slipway/core/tag"
	"github.com/slipway-project/slipway/environs/config"
	"github.com/slipway-project/slipway/params"
)

// agentGone is the message of an agent that is shown as down.
const agentGone = "agent is not communicating with the server"

// FullStatus returns the status of the model and of the machines that a pattern
// matches, with the hosts and the containers of those.
func (c *Client) FullStatus(ctx context.Context, args params.StatusParams) (params.FullStatus, error) {
	info, err := c.backend.Info(ctx)
	if err != nil {
		return params.FullStatus{}, errors.Trace(err)
	}
	settings, err := c.backend.Settings(ctx)
	if err != nil {
		return params.FullStatus{}, errors.Trace(err)
	}
	all, err := c.backend.All(ctx)
	if err != nil {
		return params.FullStatus{}, errors.Trace(err)
	}
	shown, err := c.match(all, args.Patterns)
	if err != nil {
		return params.FullStatus{}, errors.Trace(err)
	}
	version := c.conn.Version
	if n, ok := settings.AgentVersion(); ok {
		version = n.String()
	}
	return params.FullStatus{
		Model: params.ModelStatusInfo{
			Name: info.Name, UUID: c.backend.ModelUUID(), CloudTag: "cloud-" + settings.Type(), Version: version,
		},
		Machines:     c.nest(shown),
		Applications: map[string]struct{}{},
	}, nil
}

// nest returns the status of machines by id, containers within their hosts. A
// machine comes after its host.
func (c *Client) nest(machines []Machine) map[string]params.MachineStatus {
	top := make(map[string]params.MachineStatus, len(machines))
	inside := make(map[string]map[string]params.MachineStatus) // by the host's id
	for _, m := range slices.Backward(machines) {
		s := c.machineStatus(m)
		if containers := inside[m.Id()]; containers != nil {
			s.Containers = containers
		}
		host := m.ParentId()
		if host == "" {
			top[m.Id()] = s
			continue
		}
		if inside[host] == nil {
			inside[host] = make(map[string]params.MachineStatus)
		}
		inside[host][m.Id()] = s
	}
	return top
}

// machineStatus returns the status of one machine, without its containers.
func (c *Client) machineStatus(m Machine) params.MachineStatus {
	agent := detailed(c.agentStatus(m))
	agent.Version = m.AgentVersion()
	if m.Life() != life.Alive {
		agent.Life = string(m.Life())
	}
	jobs := m.Jobs()
	s := params.MachineStatus{
		AgentStatus:    agent,
		InstanceStatus: detailed(m.InstanceStatus()),
		Hostname:       m.Hostname(),
		InstanceID:     "pending",
		Series:         m.Series(),
		Base:           baseOf(m),
		ID:             m.Id(),
		Containers:     map[string]params.MachineStatus{},
		Constraints:    m.Constraints().String(),
		Jobs:           make([]string, len(jobs)),
		WantsVote:      slices.Contains(jobs, job.ManageModel),
	}
	for i, j := range jobs {
		s.Jobs[i] = string(j)
	}
	if m.IsProvisioned() { // asked first: errors for thousands of machines take their time
		if id, err := m.InstanceId(); err == nil {
			s.InstanceID = string(id)
		}
		if h, err := m.Hardware(); err == nil {
			s.Hardware = h.String()
		}
		if public, ok := m.PublicAddress(); ok {
			s.DNSName = public.Value
		}
	}
	s.IPAddresses = ipAddresses(m.Addresses(), s.DNSName)
	return s
}

// agentStatus returns what a machine's agent reported last, or that the agent is
// gone. An agent is not missed before its machine has an instance.
func (c *Client) agentStatus(m Machine) status.Info {
	s := m.Status()
	if !m.IsProvisioned() || m.Life() == life.Dead || s.Status == status.Pending || s.Status == status.Stopped {
		return s
	}
	if c.conn.Presence.AgentAlive(c.backend.ModelUUID(), m.Tag()) {
		return s
	}
	since := c.conn.Presence.AgentLeft(c.backend.ModelUUID(), m.Tag())
	if since.IsZero() { // it has not come back since the server started
		since = s.Since
	}
	return status.Info{Status: status.Down, Message: agentGone, Since: since}
}

// detailed returns a status as people are shown it: without its data.
func detailed(s status.Info) params.DetailedStatus {
	return params.DetailedStatus{
		Status: string(s.Status), Info: s.Message, Data: map[string]any{}, Since: common.Since(s.Since),
	}
}

// baseOf returns the operating system of a machine, nil if it is not known.
func baseOf(m Machine) *params.Base {
	b := m.Base()
	if b.IsZero() {
		var err error
		if b, err = base.FromSeries(m.Series()); err != nil {
			return nil
		}
	}
	return &params.Base{Name: b.Name, Channel: b.Channel + "/stable"}
}

// ipAddresses returns the addresses that can be reached from elsewhere, or
// else the one that the machine is known by.
func ipAddresses(all []network.Address, known string) []string {
	var out []string
	for _, a := range all {
		if a.Scope != network.ScopeMachineLocal && a.Scope != network.ScopeLinkLocal {
			out = append(out, a.Value)
		}
	}
	if out == nil && known != "" {
		return []string{known}
	}
	return out
}

// match returns the machines that a pattern matches, their hosts, and the
// containers in them; without patterns all.
func (c *Client) match(all []Machine, patterns []string) ([]Machine, error) {
	if len(patterns) == 0 {
		return all, nil
	}
	for _, p := range patterns {
		if _, err := path.Match(p, ""); err != nil {
			return nil, errors.NotValidf("pattern %q", p)
		}
	}
	keep := make(map[string]bool)
	for _, m := range all { // a host comes before its containers
		if keep[m.ParentId()] || c.matches(m, patterns) {
			keep[m.Id()] = true
		}
	}
	for _, m := range slices.Backward(all) {
		if keep[m.Id()] {
			for host := m.ParentId(); host != ""; host = tag.Parent(host) {
				keep[host] = true
			}
		}
	}
	return slices.DeleteFunc(slices.Clone(all), func(m Machine) bool { return !keep[m.Id()] }), nil
}

// matches reports whether a pattern matches something that is shown of the
// machine: its id, name, instance, a status or an address.
func (c *Client) matches(m Machine, patterns []string) bool {
	instance, _ := m.InstanceId() // empty if there is none
	texts := []string{
		strings.ReplaceAll(m.Id(), "/", "."), m.Hostname(), string(instance),
		string(c.agentStatus(m).Status), string(m.InstanceStatus().Status),
	}
	for _, a := range m.Addresses() {
		texts = append(texts, a.Value)
	}
	for _, p := range patterns {
		p = strings.ReplaceAll(p, "/", ".") // a star is for whole ids
		if slices.ContainsFunc(texts, func(text string) bool {
			ok, err := path.Match(p, text)
			return err == nil && ok && text != ""
		}) {
			return true
		}
	}
	return false
}

// defaultSeries returns the series of new machines for which nobody says any.
func defaultSeries(settings *config.Config) string {
	series, err := defaultBase(settings).Series()
	if err != nil {
		return base.DefaultSeries()
	}
	return series
}

func defaultBase(settings *config.Config) base.Base {
	if b := settings.DefaultBase(); !b.IsZero() {
		return b
	}
	return base.Default()
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
