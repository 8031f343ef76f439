package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"time"

	"github.com/juju/errors"
	"github.com/spf13/cobra"

	"github.com/slipway-project/slipway/api"
	"github.com/slipway-project/slipway/api/client"
	"github.com/slipway-project/slipway/core/tag"
	"github.com/slipway-project/slipway/params"
)

// redrawEvery is the least time between two pictures of status --watch, so that
// a burst of changes is one picture.
const redrawEvery = 250 * time.Millisecond

// deltaTimeout bounds how long show-machine waits for what status leaves out.
const deltaTimeout = 5 * time.Second

func (a *app) statusCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "status [ID...]",
		Short: "Show the model and its machines",
		Long: `Show the model and its machines, or only the machines given by id.

With --watch the picture is drawn anew whenever the controller says that
something has changed, until you interrupt it.`,
		Example: `  slipway status
  slipway status 0 1 --format json
  slipway status --watch`,
		Args:              takes(0, -1),
		ValidArgsFunction: a.completeMachines,
	}
	f := formatFlag(cmd)
	watch := cmd.Flags().BoolP("watch", "w", false, "go on and show every change")
	cmd.RunE = a.do(func(ctx context.Context, ids []string) error {
		if err := checkIDs(ids); err != nil {
			return err
		}
		if *watch {
			return a.watchStatus(ctx, *f, ids)
		}
		view, err := a.status(ctx, ids)
		if err != nil {
			return err
		}
		return show(a.stdout, *f, view, func(w io.Writer) { view.table(w, a.now()) })
	})
	return cmd
}

func (a *app) machinesCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "machines",
		Short:   "Show the machines of the model",
		Aliases: []string{"list-machines"},
		Example: `  slipway machines
  slipway machines --format yaml`,
		Args: takes(0, 0),
	}
	f := formatFlag(cmd)
	cmd.RunE = a.do(func(ctx context.Context, _ []string) error {
		view, err := a.status(ctx, nil)
		if err != nil {
			return err
		}
		return show(a.stdout, *f, view, func(w io.Writer) { view.machineTable(w, a.now()) })
	})
	return cmd
}

func (a *app) showMachineCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "show-machine ID...",
		Short: "Show all there is to know of machines",
		Long: `Show all there is to know of machines. For one that is not as it should be: what
is wrong, why, since when, when the next try is, and what you can do.`,
		Example: `  slipway show-machine 0
  slipway show-machine 0/lxd/1 --format json`,
		Args:              takes(1, -1),
		ValidArgsFunction: a.completeMachines,
	}
	f := formatFlag(cmd)
	cmd.RunE = a.do(func(ctx context.Context, ids []string) error {
		if err := checkIDs(ids); err != nil {
			return err
		}
		return a.showMachines(ctx, *f, ids)
	})
	return cmd
}

// checkIDs returns an error for the first text that cannot be a machine's id.
func checkIDs(ids []string) error {
	for _, id := range ids {
		if !tag.IsValidMachine(id) {
			return usagef("%q is not a machine id: use a number, or HOST/TYPE/NUMBER for a container, such as 3 or 3/lxd/0", id)
		}
	}
	return nil
}

// status returns what a model's status is now.
func (a *app) status(ctx context.Context, ids []string) (statusView, error) {
	conn, c, err := a.openModel(ctx)
	if err != nil {
		return statusView{}, err
	}
	defer conn.Close() // nothing is under way
	return a.fetchStatus(ctx, conn, c, ids)
}

// fetchStatus asks for the status of a model, or of the machines ids, all of
// which must exist.
func (a *app) fetchStatus(ctx context.Context, conn *api.Conn, c chosen, ids []string) (statusView, error) {
	full, err := client.New(conn).FullStatus(ctx, ids...)
	if err != nil {
		return statusView{}, saying(err, "cannot get the status")
	}
	view := viewStatus(full, c)
	view.addOverdue(a.now())
	for _, id := range ids {
		if find(view.Machines, id) == nil {
			return statusView{}, missing(id, c)
		}
	}
	return view, nil
}

func missing(id string, c chosen) error {
	return errors.NewNotFound(nil, fmt.Sprintf("machine %s not found in model %q: \"slipway machines\" shows those that are", id, c.model))
}

// showMachines shows machines one by one.
func (a *app) showMachines(ctx context.Context, f format, ids []string) error {
	conn, c, err := a.openModel(ctx)
	if err != nil {
		return err
	}
	defer conn.Close() // nothing is under way
	view, err := a.fetchStatus(ctx, conn, c, ids)
	if err != nil {
		return err
	}
	chosen := statusView{Model: view.Model, Machines: ordered[machineView]{}}
	waiting := false
	for _, id := range ids {
		m := find(view.Machines, id)
		chosen.Machines = append(chosen.Machines, entry[machineView]{id, *m})
		waiting = waiting || m.Attention != nil || m.InstanceID == unprovisioned
	}
	if waiting {
		a.addTries(ctx, conn, chosen.Machines)
	}
	return show(a.stdout, f, chosen, func(w io.Writer) {
		for i := range chosen.Machines {
			if i > 0 {
				fmt.Fprintln(w)
			}
			chosen.Machines[i].value.describe(w, chosen.Machines[i].key, a.now())
		}
	})
}

// addTries adds what only the stream of changes tells: when a failed start is
// tried again. What is shown is good without it.
func (a *app) addTries(ctx context.Context, conn *api.Conn, machines ordered[machineView]) {
	ctx, cancel := context.WithTimeout(ctx, deltaTimeout)
	defer cancel()
	w, err := client.New(conn).WatchAll(ctx)
	if err != nil {
		return
	}
	defer func() {
		w.Kill()
		_ = w.Wait()
	}()
	var deltas []params.Delta
	select {
	case <-ctx.Done():
	case deltas = <-w.Changes():
	}
	for _, d := range deltas {
		m, ok := d.Entity.(*params.MachineUpdate)
		if !ok {
			continue
		}
		for i := range machines {
			if machines[i].key == m.ID {
				machines[i].value.addData(m.ID, m.InstanceStatus.Data, m.AgentStatus.Data)
			}
		}
	}
}

// watchStatus shows the status and then each change of it, until ctx is done.
func (a *app) watchStatus(ctx context.Context, f format, ids []string) error {
	c, err := a.chooseModel(ctx)
	if err != nil {
		return err
	}
	var failure error
	r := a.reconnector(c)
	err = r.Run(ctx, func(ctx context.Context, conn *api.Conn) error {
		w, err := client.New(conn).WatchAll(ctx)
		if err != nil {
			return err
		}
		defer func() {
			w.Kill()
			_ = w.Wait() // why it ended has been seen
		}()
		for {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case _, ok := <-w.Changes():
				if !ok {
					return w.Wait()
				}
			}
			view, err := a.fetchStatus(ctx, conn, c, ids)
			if errors.Is(err, errors.NotFound) || errors.Is(err, errors.Unauthorized) {
				failure = err
				return nil // and it will not get better
			}
			if err != nil {
				return err
			}
			if err := a.draw(f, view); err != nil {
				return err
			}
			if err := pause(ctx, redrawEvery); err != nil {
				return err
			}
		}
	})
	if failure != nil {
		return failure
	}
	if ctx.Err() != nil {
		return nil // which is how watching ends
	}
	return err
}

// draw shows one picture: in place of the last on a terminal, else after it.
func (a *app) draw(f format, view statusView) error {
	var picture bytes.Buffer
	if err := show(&picture, f, view, func(w io.Writer) { view.table(w, a.now()) }); err != nil {
		return err
	}
	if !isTerminal(a.stdout) && f == tabular {
		picture.WriteByte('\n')
	}
	if isTerminal(a.stdout) {
		_, _ = io.WriteString(bare(a.stdout), "\x1b[H\x1b[2J") // the next write fails too
	}
	_, err := a.stdout.Write(picture.Bytes())
	return errors.Trace(err)
}

// pause waits, unless ctx is done first.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
