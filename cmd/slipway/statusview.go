package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/slipway-project/slipway/core/hardware"
	"github.com/slipway-project/slipway/core/status"
	"github.com/slipway-project/slipway/core/tag"
	"github.com/slipway-project/slipway/params"
)

// whatError is what is wrong with a machine that waits for an operator.
const whatError = "in error"

// unprovisioned is the instance id of a machine that has none.
const unprovisioned = "pending"

// statusView is a model and its machines, as scripts read them.
type statusView struct {
	Model    modelView            `json:"model"`
	Machines ordered[machineView] `json:"machines"`
}

// modelView is what there is to say of a model.
type modelView struct {
	Name       string `json:"name"`
	UUID       string `json:"uuid"`
	Type       string `json:"type"`
	Controller string `json:"controller"`
	Cloud      string `json:"cloud"`
	Version    string `json:"version"`
}

// conditionView is a status.
type conditionView struct {
	Current string     `json:"current"`
	Message string     `json:"message"`
	Since   *time.Time `json:"since"`
	Version string     `json:"version,omitempty"` // of the agent
	Life    string     `json:"life,omitempty"`    // dying or dead
}

// machineView is a machine. The keys for the agent's and the instance's status
// are those that scripts for this protocol expect.
type machineView struct {
	AgentStatus    conditionView        `json:"juju-status"`
	Hostname       string               `json:"hostname"`
	DNSName        string               `json:"dns-name"`
	IPAddresses    []string             `json:"ip-addresses"`
	InstanceID     string               `json:"instance-id"` // "pending" if there is none
	InstanceStatus conditionView        `json:"machine-status"`
	Base           baseView             `json:"base"`
	Containers     ordered[machineView] `json:"containers"`
	Constraints    string               `json:"constraints"`
	Hardware       string               `json:"hardware"`
	Attention      *attention           `json:"attention,omitempty"` // nil if all is well
}

// baseView is an operating system.
type baseView struct {
	Name    string `json:"name"`
	Channel string `json:"channel"`
}

// attention says what is wrong with a machine, and what can be done.
type attention struct {
	What    string     `json:"what"`
	Why     string     `json:"why"`
	Since   *time.Time `json:"since"`
	Tries   int        `json:"tries,omitempty"`    // so far; 0 means unknown
	NextTry *time.Time `json:"next-try,omitempty"` // nil means none is planned
	Do      string     `json:"do"`

	overdue bool // whether nothing is wrong but the time
}

// viewStatus turns the server's answer into what is shown.
func viewStatus(full params.FullStatus, c chosen) statusView {
	uuid := full.Model.UUID
	if uuid == "" {
		uuid = c.uuid
	}
	return statusView{
		Model: modelView{Name: full.Model.Name, UUID: uuid, Type: "iaas", Controller: c.name,
			Cloud: strings.TrimPrefix(full.Model.CloudTag, "cloud-"), Version: full.Model.Version},
		Machines: viewMachines(full.Machines),
	}
}

func viewMachines(machines map[string]params.MachineStatus) ordered[machineView] {
	out := make(ordered[machineView], 0, len(machines))
	for _, id := range slices.SortedFunc(maps.Keys(machines), tag.CompareMachines) {
		m := machines[id]
		out = append(out, entry[machineView]{id, viewMachine(id, &m)})
	}
	return out
}

func viewMachine(id string, m *params.MachineStatus) machineView {
	out := machineView{
		AgentStatus: viewCondition(m.AgentStatus), InstanceStatus: viewCondition(m.InstanceStatus),
		Hostname: m.Hostname, DNSName: m.DNSName, IPAddresses: m.IPAddresses, InstanceID: m.InstanceID,
		Base: viewBase(m), Containers: viewMachines(m.Containers), Constraints: m.Constraints, Hardware: m.Hardware,
	}
	if out.IPAddresses == nil {
		out.IPAddresses = []string{}
	}
	out.Attention = attentionOf(id, &out)
	return out
}

func viewCondition(s params.DetailedStatus) conditionView {
	return conditionView{Current: s.Status, Message: s.Info, Since: s.Since, Version: s.Version, Life: s.Life}
}

func viewBase(m *params.MachineStatus) baseView {
	if m.Base == nil {
		return baseView{}
	}
	return baseView{Name: m.Base.Name, Channel: strings.TrimSuffix(m.Base.Channel, "/stable")}
}

// attentionOf returns what is wrong with a machine, nil if it is as it should
// be or on its way there.
func attentionOf(id string, m *machineView) *attention {
	agent, inst := m.AgentStatus, m.InstanceStatus
	retry := fmt.Sprintf("\"slipway retry-provisioning %s\" tries again; \"slipway remove-machine %s\" gives it up", id, id)
	switch {
	case agent.Life != "":
		why := inst.Message
		if inst.Current == string(status.Running) {
			why = "its agent has not finished yet"
		}
		return &attention{What: "being removed", Why: firstOf(agent.Message, why, "its instance has not been stopped yet"), Since: agent.Since,
			Do: fmt.Sprintf("wait; \"slipway remove-machine %s --force\" waits for nothing", id)}
	case agent.Current == string(status.Error):
		return &attention{What: whatError, Why: firstOf(agent.Message, inst.Message), Since: agent.Since, Do: retry}
	case inst.Current == string(status.ProvisioningError):
		return &attention{What: whatError, Why: firstOf(inst.Message, agent.Message), Since: inst.Since, Do: retry}
	case agent.Current == string(status.Down):
		return &attention{What: "down", Why: agent.Message, Since: agent.Since,
			Do: "see whether the instance runs and reaches the controller; the agent connects again by itself"}
	}
	return nil
}

// How long a machine may take until something counts as wrong.
const (
	untakenTime = time.Minute      // until a provisioner takes it up
	startTime   = 30 * time.Minute // until it has an instance
	bootTime    = 20 * time.Minute // from then on, until its agent reports
)

// addOverdue adds what is wrong with machines that are on their way for too long.
func (v statusView) addOverdue(now time.Time) {
	each(v.Machines, func(id string, m *machineView) {
		agent, inst := m.AgentStatus, m.InstanceStatus
		if m.Attention != nil || agent.Life != "" || agent.Current != string(status.Pending) || inst.Since == nil {
			return
		}
		giveUp := fmt.Sprintf("\"slipway remove-machine %s\" gives it up", id)
		a := attention{Since: inst.Since, overdue: true}
		limit := bootTime
		switch {
		case m.InstanceID != unprovisioned:
			a.What, a.Why = "not reporting yet", firstOf(agent.Message, "it has an instance, and its agent has not logged in since")
			a.Do = "look at the instance's console: has it booted, and does it reach the controller? " + giveUp
		case inst.Current == string(status.Pending) && inst.Message == "":
			a.What, a.Why, limit = "not taken up yet", "no provisioner has looked at it", untakenTime
			a.Do = "see that provisionerd runs; \"slipway debug-log -m controller --include-module slipway.worker\" shows what it does"
			if host := tag.Parent(id); host != "" {
				a.Why = "the agent of machine " + host + " has not looked at it"
				a.Do = fmt.Sprintf("see that machine %s is started, and can have such containers: \"slipway show-machine %s\"", host, host)
			}
		default:
			a.What, a.Why, limit = "starting for long", firstOf(inst.Message, "its instance is being started"), startTime
			a.Do = "see whether the provider makes progress; " + giveUp
		}
		if now.Sub(*inst.Since) > limit {
			m.Attention = &a
		}
	})
}

// addData takes over what the data of statuses says of further tries. A machine
// that waits for its next try then needs attention too.
func (m *machineView) addData(id string, data ...map[string]any) {
	for _, d := range data {
		tries, _ := d[status.DataTries].(float64)
		text, _ := d[status.DataNextTry].(string)
		next, err := time.Parse(time.RFC3339, text)
		if tries == 0 && err != nil {
			continue
		}
		if m.Attention == nil || m.Attention.overdue {
			m.Attention = &attention{What: "not started yet", Why: m.InstanceStatus.Message, Since: m.InstanceStatus.Since,
				Do: fmt.Sprintf("wait for the next try; \"slipway remove-machine %s\" gives it up", id)}
		}
		m.Attention.Tries = int(tries)
		if err == nil {
			m.Attention.NextTry = &next
		}
	}
}

// firstOf returns the first text that is not empty.
func firstOf(texts ...string) string {
	for _, t := range texts {
		if t != "" {
			return t
		}
	}
	return ""
}

// each calls f with every machine and, after it, its containers.
func each(machines ordered[machineView], f func(id string, m *machineView)) {
	for i := range machines {
		f(machines[i].key, &machines[i].value)
		each(machines[i].value.Containers, f)
	}
}

// find returns one machine, however deep.
func find(machines ordered[machineView], id string) *machineView {
	var found *machineView
	each(machines, func(at string, m *machineView) {
		if at == id {
			found = m
		}
	})
	return found
}

// table writes the model and its machines for people.
func (v statusView) table(w io.Writer, now time.Time) {
	rows(w, [][]string{
		{"Model", "Controller", "Cloud", "Version"},
		{v.Model.Name, v.Model.Controller, v.Model.Cloud, v.Model.Version},
	})
	fmt.Fprintln(w)
	v.machineTable(w, now)
}

// machineTable writes the machines for people.
func (v statusView) machineTable(w io.Writer, now time.Time) {
	if len(v.Machines) == 0 {
		fmt.Fprintln(w, "The model has no machines.")
		return
	}
	table := [][]string{{"Machine", "State", "Since", "Address", "Instance", "Base", "AZ", "Message"}}
	var troubled []string
	each(v.Machines, func(id string, m *machineView) {
		message := m.AgentStatus.Message
		if m.AgentStatus.Current != string(status.Started) {
			message = firstOf(message, m.InstanceStatus.Message)
		}
		table = append(table, []string{id, stateOf(m), ago(m.AgentStatus.Since, now), m.DNSName, m.InstanceID, m.Base.text(), zoneOf(m.Hardware), message})
		if m.Attention != nil {
			troubled = append(troubled, id)
		}
	})
	rows(w, table)
	switch n := len(troubled); {
	case n == 1:
		fmt.Fprintf(w, "\nMachine %s needs attention: \"slipway show-machine %s\" says why.\n", troubled[0], troubled[0])
	case n > 1:
		fmt.Fprintf(w, "\n%d machines need attention: \"slipway show-machine %s\" says why for the first.\n", n, troubled[0])
	}
}

// stateOf returns one word for a machine, two if it is on its way out.
func stateOf(m *machineView) string {
	state := m.AgentStatus.Current
	if m.AgentStatus.Life != "" {
		state += " (" + m.AgentStatus.Life + ")"
	}
	return state
}

func (b baseView) text() string {
	if b.Name == "" {
		return ""
	}
	return b.Name + "@" + b.Channel
}

// zoneOf returns the availability zone in a machine's hardware.
func zoneOf(text string) string {
	hw, err := hardware.Parse(text)
	if err != nil || hw.AvailabilityZone == nil {
		return ""
	}
	return *hw.AvailabilityZone
}

// ago returns how long ago something was, roughly.
func ago(then *time.Time, now time.Time) string {
	if then == nil || then.IsZero() {
		return ""
	}
	return roughly(now.Sub(*then))
}

// roughly returns a duration in its largest unit.
func roughly(d time.Duration) string {
	d = max(d, 0)
	switch {
	case d < time.Minute:
		return strconv.Itoa(int(d/time.Second)) + "s"
	case d < time.Hour:
		return strconv.Itoa(int(d/time.Minute)) + "m"
	case d < 48*time.Hour:
		return strconv.Itoa(int(d/time.Hour)) + "h"
	}
	return strconv.Itoa(int(d/(24*time.Hour))) + "d"
}

// describe writes one machine for people.
func (m *machineView) describe(w io.Writer, id string, now time.Time) {
	var table [][]string
	add := func(name, value string) {
		if value != "" {
			table = append(table, []string{name + ":", value})
		}
	}
	add("Machine", id)
	add("Agent", m.AgentStatus.describe(now))
	add("Instance", m.InstanceID)
	add("Instance status", m.InstanceStatus.describe(now))
	add("Host name", m.Hostname)
	add("Addresses", strings.Join(m.IPAddresses, ", "))
	add("Base", m.Base.text())
	add("Constraints", m.Constraints)
	add("Hardware", m.Hardware)
	var containers []string
	each(m.Containers, func(id string, _ *machineView) { containers = append(containers, id) })
	add("Containers", strings.Join(containers, ", "))
	if a := m.Attention; a != nil {
		add("Attention", a.What)
		add("  why", a.Why)
		if a.Since != nil {
			add("  since", fmt.Sprintf("%s (%s ago)", a.Since.Format(time.RFC3339), ago(a.Since, now)))
		}
		if a.Tries > 0 {
			add("  tries", strconv.Itoa(a.Tries))
		}
		if a.NextTry != nil {
			add("  next try", fmt.Sprintf("%s (in %s)", a.NextTry.Format(time.RFC3339), roughly(a.NextTry.Sub(now))))
		} else if a.What == whatError {
			add("  next try", "none is planned")
		} else {
			add("  next try", "by itself, as soon as it can be")
		}
		add("  do", a.Do)
	}
	rows(w, table)
}

func (c conditionView) describe(now time.Time) string {
	text := c.Current
	if c.Life != "" {
		text += " (" + c.Life + ")"
	}
	if c.Since != nil && !c.Since.IsZero() {
		text += " for " + ago(c.Since, now)
	}
	if c.Message != "" {
		text += ": " + c.Message
	}
	return text
}
