package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/juju/errors"
	"github.com/spf13/cobra"

	"github.com/slipway-project/slipway/api"
	"github.com/slipway-project/slipway/api/client"
	"github.com/slipway-project/slipway/api/machinemanager"
	"github.com/slipway-project/slipway/core/base"
	"github.com/slipway-project/slipway/core/constraints"
	"github.com/slipway-project/slipway/core/container"
	"github.com/slipway-project/slipway/core/placement"
	"github.com/slipway-project/slipway/core/size"
	"github.com/slipway-project/slipway/core/status"
	"github.com/slipway-project/slipway/core/storage"
	"github.com/slipway-project/slipway/params"
)

// maxAdded bounds how many machines one command adds, and batch how many one
// call does: servers refuse requests that are too big.
const (
	maxAdded = 10000
	batch    = 1000
)

// added says which machines were added.
type added struct {
	Machines []string `json:"machines"`
}

// addMachineFlags are the flags of add-machine.
type addMachineFlags struct {
	n           int
	constraints []string
	base        string
	to          string
	group       string
	disks       []string
}

func (a *app) addMachineCommand() *cobra.Command {
	var flags addMachineFlags
	cmd := &cobra.Command{
		Use:   "add-machine",
		Short: "Add machines to the model",
		Long: `Add machines to the model. The command returns when they have been noted; they
are started after that: see "slipway wait" and "slipway status --watch".

--to says where: zone=NAME for a zone, TYPE for a new container in a new machine,
TYPE:ID for one in machine ID, and ID alone for an lxd container in machine ID.
Machines of the same --group are kept apart where there is a choice.`,
		Example: `  slipway add-machine
  slipway add-machine -n 5 --constraints "mem=4G cores=2 arch=amd64"
  slipway add-machine --base ubuntu@22.04 --to zone=z1
  slipway add-machine --disks 2,10G --disks fast,100G
  slipway add-machine --to lxd:3`,
		Args: takes(0, 0),
	}
	cmd.Flags().IntVarP(&flags.n, "count", "n", 1, "how many")
	cmd.Flags().StringArrayVar(&flags.constraints, "constraints", nil, "what they must be like")
	cmd.Flags().StringVar(&flags.base, "base", "", "operating system, such as ubuntu@22.04; without it the model's default")
	cmd.Flags().StringVar(&flags.to, "to", "", "where to: ID, TYPE:ID, TYPE or zone=NAME")
	cmd.Flags().StringVar(&flags.group, "group", "", "distribution group")
	cmd.Flags().StringArrayVar(&flags.disks, "disks", nil, "volumes to make with each: [POOL,][COUNT,]SIZE; may be repeated")
	f := formatFlag(cmd)
	cmd.RunE = a.do(func(ctx context.Context, _ []string) error {
		p, err := flags.params()
		if err != nil {
			return err
		}
		return a.addMachines(ctx, *f, p, flags.n)
	})
	return cmd
}

// params turns the flags into a machine. A placement for the provider has no
// scope yet: that is the model's UUID.
func (f addMachineFlags) params() (params.AddMachineParams, error) {
	out := params.AddMachineParams{Jobs: []string{"JobHostUnits"}, Group: f.group}
	if f.n < 1 || f.n > maxAdded {
		return out, usagef("-n %d is not a number of machines: use 1 to %d", f.n, maxAdded)
	}
	var err error
	if out.Constraints, err = constraints.Parse(f.constraints...); err != nil {
		return out, usagef("%v: %s", err, constraintHint(f.constraints))
	}
	if f.base != "" {
		b, err := base.Parse(f.base)
		if err != nil {
			return out, errors.WithType(err, errUsage)
		}
		if out.Series, err = b.Series(); err != nil {
			return out, errors.WithType(err, errUsage)
		}
	}
	for _, text := range f.disks {
		d, err := parseDisk(text)
		if err != nil {
			return out, err
		}
		out.Disks = append(out.Disks, d)
	}
	to, err := placement.Parse(f.to)
	if err != nil {
		return out, errors.WithType(err, errUsage)
	}
	switch {
	case to.IsZero():
	case to.Scope == placement.MachineScope:
		out.Placement = &params.Placement{Scope: string(container.LXD), Directive: to.Directive}
	default:
		out.Placement = &params.Placement{Scope: to.Scope, Directive: to.Directive}
	}
	return out, nil
}

// parseDisk reads volumes as --disks takes them: a size with its unit, and
// before it how many and from which pool.
func parseDisk(text string) (params.Disk, error) {
	d := params.Disk{Count: 1}
	said := make(map[string]bool)
	for _, part := range strings.Split(text, ",") {
		what := "size"
		if n, err := size.ParseCount(part); err == nil && part != "" {
			what, d.Count = "number", n
		} else if mib, err := size.ParseMiB(part); err == nil && part != "" {
			d.Size = mib
		} else if part == "" {
			return d, usagef("--disks %q has an empty part: use a form such as 2,10G", text)
		} else if err := (storage.Pool{Name: part, Provider: part}).Check(); err != nil {
			return d, usagef("--disks %q: %q is no number, no size and no name of a storage pool: use a form such as fast,2,10G", text, part)
		} else {
			what, d.Pool = "storage pool", part
		}
		if said[what] {
			return d, usagef("--disks %q has more than one %s: use a form such as fast,2,10G, and --disks again for others", text, what)
		}
		said[what] = true
	}
	if d.Size == 0 || d.Count == 0 {
		return d, usagef("--disks %q does not say how many disks of which size: use a form such as 10G or fast,2,10G", text)
	}
	return d, nil
}

// addMachines adds n machines of a kind.
func (a *app) addMachines(ctx context.Context, f format, p params.AddMachineParams, n int) error {
	conn, c, err := a.openModel(ctx)
	if err != nil {
		return err
	}
	defer conn.Close() // nothing is under way
	if p.Placement != nil && p.Placement.Scope == "" {
		p.Placement.Scope = c.uuid
	}
	done := added{Machines: []string{}}
	var failures []string
	var broken error
	for left := n; left > 0 && broken == nil; left -= batch {
		var results []api.Result[string]
		add := client.New(conn).AddMachines
		if len(p.Disks) > 0 {
			add = machinemanager.New(conn).AddMachines // the other one does not look at disks
		}
		results, broken = add(ctx, slices.Repeat([]params.AddMachineParams{p}, min(left, batch))...)
		for _, r := range results {
			if r.Err != nil {
				failures = append(failures, r.Err.Error())
				continue
			}
			done.Machines = append(done.Machines, r.Value)
		}
	}
	err = show(a.stdout, f, done, func(w io.Writer) {
		for _, id := range done.Machines {
			fmt.Fprintf(w, "added machine %s\n", id)
		}
	})
	if err != nil {
		return err
	}
	if broken != nil {
		return saying(broken, "cannot add machines")
	}
	return several(failures, n, "not added")
}

// several returns one error for failures out of n, or nil if there are none.
// Equal failures are told once.
func several(failures []string, n int, what string) error {
	if len(failures) == 0 {
		return nil
	}
	var distinct []string
	seen := make(map[string]bool)
	for _, text := range failures {
		if !seen[text] {
			seen[text] = true
			distinct = append(distinct, text)
		}
	}
	if n == 1 {
		return errors.New(distinct[0])
	}
	return errors.Errorf("%d of %d machines %s: %s", len(failures), n, what, strings.Join(distinct, "; "))
}

func (a *app) removeMachineCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "remove-machine ID...",
		Short: "Remove machines from the model",
		Long: `Remove machines from the model, and stop their instances. The command returns
when that has been noted: see "slipway wait ID --for gone".

A machine with containers is only removed with --force, which takes the
containers along and waits for no agent.`,
		Example: `  slipway remove-machine 3
  slipway remove-machine 3 4 0/lxd/1 --force`,
		Args:              takes(1, -1),
		ValidArgsFunction: a.completeMachines,
	}
	force := cmd.Flags().Bool("force", false, "take containers along and wait for nothing")
	cmd.RunE = a.do(func(ctx context.Context, ids []string) error {
		if err := checkIDs(ids); err != nil {
			return err
		}
		conn, _, err := a.openModel(ctx)
		if err != nil {
			return err
		}
		defer conn.Close() // nothing is under way
		if err := client.New(conn).DestroyMachines(ctx, *force, ids...); err != nil {
			return errors.Trace(err)
		}
		for _, id := range ids {
			fmt.Fprintf(a.stdout, "removing machine %s\n", id)
		}
		return nil
	})
	return cmd
}

func (a *app) retryProvisioningCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "retry-provisioning [ID...]",
		Short: "Have machines started again that are in error",
		Example: `  slipway retry-provisioning 3
  slipway retry-provisioning --all`,
		Args:              takes(0, -1),
		ValidArgsFunction: a.completeMachines,
	}
	all := cmd.Flags().Bool("all", false, "all machines that are in error")
	cmd.RunE = a.do(func(ctx context.Context, ids []string) error {
		if *all == (len(ids) > 0) {
			return usagef("retry-provisioning takes either machine ids or --all")
		}
		if err := checkIDs(ids); err != nil {
			return err
		}
		return a.retryProvisioning(ctx, ids)
	})
	return cmd
}

// retryProvisioning has machines tried again; no ids means all in error.
func (a *app) retryProvisioning(ctx context.Context, ids []string) error {
	conn, c, err := a.openModel(ctx)
	if err != nil {
		return err
	}
	defer conn.Close() // nothing is under way
	if len(ids) == 0 {
		if ids, err = a.inError(ctx, conn, c); err != nil {
			return err
		}
		if len(ids) == 0 {
			fmt.Fprintln(a.stdout, "no machine is in error")
			return nil
		}
	}
	errs, err := client.New(conn).RetryProvisioning(ctx, ids...)
	if err != nil {
		return saying(err, "cannot retry provisioning")
	}
	var failures []string
	for i, err := range errs {
		if err != nil {
			failures = append(failures, err.Error())
			continue
		}
		fmt.Fprintf(a.stdout, "trying machine %s again\n", ids[i])
	}
	return several(failures, len(ids), "not tried again")
}

// inError returns the ids of the machines that are in error.
func (a *app) inError(ctx context.Context, conn *api.Conn, c chosen) ([]string, error) {
	view, err := a.fetchStatus(ctx, conn, c, nil)
	if err != nil {
		return nil, err
	}
	var ids []string
	each(view.Machines, func(id string, m *machineView) {
		if m.AgentStatus.Current == string(status.Error) {
			ids = append(ids, id)
		}
	})
	return ids, nil
}
