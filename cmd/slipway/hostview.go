package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/juju/errors"
	"github.com/spf13/cobra"

	"github.com/slipway-project/slipway/api"
	"github.com/slipway-project/slipway/api/hosts"
	metal3v1alpha1 "github.com/slipway-project/slipway/environs/baremetal/metal3/v1alpha1"
	"github.com/slipway-project/slipway/internal/printable"
	"github.com/slipway-project/slipway/params"
)

// hostView is a host as it is shown.
type hostView struct {
	Name       string                       `json:"name"`
	State      string                       `json:"state"`
	Power      string                       `json:"power"`
	Message    string                       `json:"message"`
	Consumer   string                       `json:"consumer,omitempty"`    // machine N of model UUID
	ReserveFor string                       `json:"reserve-for,omitempty"` // a model's UUID
	Progress   params.HostProgress          `json:"progress"`
	Events     []params.HostEvent           `json:"events,omitempty"`
	Installer  *params.InstallReport        `json:"installer,omitempty"` // only of one host
	Host       metal3v1alpha1.BareMetalHost `json:"host"`
}

// viewOf returns a host as it is shown.
func viewOf(h params.Host) (hostView, error) {
	v := hostView{Name: h.Name, ReserveFor: h.ReserveFor, Progress: h.Progress, Events: h.Events}
	if err := json.Unmarshal(h.Record, &v.Host); err != nil {
		return v, errors.Annotatef(err, "cannot read host %q", h.Name)
	}
	status := v.Host.Status
	v.State, v.Power = string(status.Provisioning.State), "off"
	if v.State == "" {
		v.State = "new"
	}
	if status.PoweredOn {
		v.Power = "on"
	}
	if h.Consumer != nil {
		v.Consumer = fmt.Sprintf("machine %s of model %s", h.Consumer.MachineID, h.Consumer.ModelUUID)
	}
	v.Message = v.message()
	return v, nil
}

// message says in one line what is wrong with a host, or what it waits for.
func (v hostView) message() string {
	var parts []string
	add := func(text string) {
		if text != "" {
			parts = append(parts, text)
		}
	}
	status := v.Host.Status
	switch {
	case v.Host.Deleting():
		add("being removed")
	case v.Host.Paused():
		add("in maintenance")
	}
	if status.ErrorMessage != "" {
		add(fmt.Sprintf("%s: %s (%d times)", status.ErrorType, strings.Join(strings.Fields(status.ErrorMessage), " "), max(1, status.ErrorCount)))
	} else if v.Progress.Reason != "" {
		add("waiting for " + v.Progress.Reason)
	}
	if v.Progress.Place > 0 {
		add(fmt.Sprintf("place %d in the queue", v.Progress.Place))
	}
	if !v.Progress.NextTry.IsZero() {
		add("next try " + v.Progress.NextTry.UTC().Format("15:04:05Z"))
	}
	return strings.Join(parts, "; ")
}

// listHosts returns the named hosts, or all.
func listHosts(ctx context.Context, c *hosts.Client, names ...string) ([]hostView, error) {
	results, err := c.List(ctx, names...)
	if err != nil {
		return nil, saying(err, "cannot list hosts")
	}
	views := make([]hostView, len(results))
	for i, r := range results {
		if r.Err != nil {
			return nil, errors.Trace(r.Err)
		}
		if views[i], err = viewOf(r.Value); err != nil {
			return nil, err
		}
	}
	return views, nil
}

func (a *app) hostsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "hosts",
		Short:   "Show the bare-metal hosts of the controller",
		Aliases: []string{"list-hosts"},
		Example: `  slipway hosts
  slipway hosts --format json`,
		Args: takes(0, 0),
	}
	f := formatFlag(cmd)
	cmd.RunE = a.do(func(ctx context.Context, _ []string) error {
		return a.withHosts(ctx, func(c *hosts.Client, _ *api.Conn, _ site) error {
			views, err := listHosts(ctx, c)
			if err != nil {
				return err
			}
			return show(a.stdout, *f, map[string][]hostView{"hosts": views}, func(w io.Writer) { hostsTable(w, views) })
		})
	})
	return cmd
}

// hostsTable writes hosts for people.
func hostsTable(w io.Writer, views []hostView) {
	if len(views) == 0 {
		fmt.Fprintln(w, "no hosts: add one with \"slipway add-host\"")
		return
	}
	table := [][]string{{"Host", "State", "Power", "BMC", "Consumer", "Message"}}
	for _, v := range views {
		table = append(table, []string{v.Name, v.State, v.Power, v.Host.Spec.BMC.Address, v.Consumer, v.Message})
	}
	rows(w, table)
}

// table writes a host for people: a line for each thing that is known.
func (v hostView) table(w io.Writer) {
	line := func(name, value string) {
		if value != "" {
			fmt.Fprintf(w, "%-10s %s\n", name+":", printable.Line(value))
		}
	}
	line("host", v.Name)
	line("state", v.State)
	line("power", v.Power)
	line("message", v.Message)
	line("owner", v.Progress.Owner)
	line("bmc", v.Host.Spec.BMC.Address)
	line("boot mac", v.Host.Spec.BootMACAddress)
	labels := v.Host.Metadata.Labels
	line("zone", labels[zoneLabel])
	line("tags", strings.Join(slices.DeleteFunc(slices.Sorted(maps.Keys(labels)), func(t string) bool { return t == zoneLabel }), " "))
	if v.Host.Spec.Image != nil {
		line("image", v.Host.Spec.Image.URL)
	}
	line("consumer", v.Consumer)
	line("reserved", v.ReserveFor)
	if hw := v.Host.Status.HardwareDetails; hw != nil {
		line("hardware", fmt.Sprintf("%s %s, %d x %s, %d MiB, %d disks, %d network addresses", hw.SystemVendor.Manufacturer,
			hw.SystemVendor.ProductName, hw.CPU.Count, hw.CPU.Arch, hw.RAMMebibytes, len(hw.Storage), len(hw.NIC)))
	}
	if v.Installer != nil {
		installerLines(line, *v.Installer)
	}
	for _, e := range v.Events {
		line("event", fmt.Sprintf("%s %s: %s", e.Time.UTC().Format("2006-01-02 15:04:05Z"), e.Reason, e.Message))
	}
}
