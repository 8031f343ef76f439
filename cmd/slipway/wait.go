package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/juju/errors"
	"github.com/spf13/cobra"

	"github.com/slipway-project/slipway/api"
	"github.com/slipway-project/slipway/api/client"
	"github.com/slipway-project/slipway/core/life"
	"github.com/slipway-project/slipway/core/status"
	"github.com/slipway-project/slipway/core/tag"
	"github.com/slipway-project/slipway/internal/printable"
	"github.com/slipway-project/slipway/params"
)

// What can be waited for.
const (
	forStarted = "started"
	forGone    = "gone"
)

// maxNamed bounds how many machines a message names.
const maxNamed = 5

func (a *app) waitCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "wait [ID...]",
		Short: "Wait until machines have started or are gone",
		Long: `Wait until all the given machines, or all machines of the model, have started, or
are gone. The controller says when something changes; nothing is asked again and
again. The command exits with 3 if that takes longer than --timeout.`,
		Example: `  slipway wait 0 1 --for started
  slipway wait --all --for started --timeout 10m
  slipway remove-machine 3 && slipway wait 3 --for gone`,
		Args:              takes(0, -1),
		ValidArgsFunction: a.completeMachines,
	}
	all := cmd.Flags().Bool("all", false, "all machines of the model")
	what := cmd.Flags().String("for", "", "started or gone")
	timeout := cmd.Flags().Duration("timeout", 10*time.Minute, "how long to wait at most")
	// Refused only for a flag that does not exist.
	_ = cmd.RegisterFlagCompletionFunc("for", cobra.FixedCompletions([]string{forStarted, forGone}, cobra.ShellCompDirectiveNoFileComp))
	cmd.RunE = a.do(func(ctx context.Context, ids []string) error {
		switch {
		case *what != forStarted && *what != forGone:
			return usagef("--for %q is nothing to wait for: use --for started or --for gone", *what)
		case *all == (len(ids) > 0):
			return usagef("wait takes either machine ids or --all")
		case *timeout <= 0:
			return usagef("--timeout %v is no time to wait: use for example 10m", *timeout)
		}
		if err := checkIDs(ids); err != nil {
			return err
		}
		return a.wait(ctx, &waiting{ids: ids, what: *what}, *timeout)
	})
	return cmd
}

// wait waits, over as many connections as that takes.
func (a *app) wait(ctx context.Context, w *waiting, timeout time.Duration) error {
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, errTimeout)
	defer cancel()
	c, err := a.chooseModel(ctx)
	if err != nil {
		return err
	}
	var verdict error
	r := a.reconnector(c)
	err = r.Run(ctx, func(ctx context.Context, conn *api.Conn) error {
		done, err := a.follow(ctx, conn, w)
		if done {
			verdict = err
			return nil
		}
		return err
	})
	a.progress("")
	if errors.Is(context.Cause(ctx), errTimeout) && err != nil {
		return errors.WithType(errors.Errorf("timed out after %v: %s", timeout, w.left()), errTimeout)
	}
	if err != nil {
		return err
	}
	return verdict
}

// follow waits over one connection. It reports whether there is nothing more to
// wait for, with the outcome.
func (a *app) follow(ctx context.Context, conn *api.Conn, w *waiting) (bool, error) {
	stream, err := client.New(conn).WatchAll(ctx)
	if err != nil {
		return false, err
	}
	defer func() {
		stream.Kill()
		_ = stream.Wait() // why it ended has been seen
	}()
	w.begin()
	for {
		select {
		case <-ctx.Done():
			return false, ctx.Err()
		case deltas, ok := <-stream.Changes():
			if !ok {
				return false, stream.Wait()
			}
			w.apply(deltas)
		}
		done, err := w.check()
		if done {
			return true, err
		}
		a.progress(w.text())
	}
}

// progress shows a line on a terminal, in place of the last.
func (a *app) progress(text string) {
	if isTerminal(a.stderr) {
		fmt.Fprintf(bare(a.stderr), "\r\x1b[K%s", printable.Line(text))
	}
}

// waiting is what is waited for, and what is known so far.
type waiting struct {
	ids  []string // empty means all
	what string

	all     bool // whether ids was filled in with all there were
	heard   bool // whether anything is known yet
	present map[string]*params.MachineUpdate
}

// begin forgets what an earlier connection said.
func (w *waiting) begin() { w.present = make(map[string]*params.MachineUpdate) }

// apply takes in changes.
func (w *waiting) apply(deltas []params.Delta) {
	for _, d := range deltas {
		m, ok := d.Entity.(*params.MachineUpdate)
		switch {
		case !ok:
		case d.Removed:
			delete(w.present, m.ID)
		default:
			w.present[m.ID] = m
		}
	}
	if !w.heard && len(w.ids) == 0 && w.what == forGone {
		w.ids, w.all = slices.Collect(maps.Keys(w.present)), true
		tag.SortMachines(w.ids)
	}
	w.heard = true
}

// targets returns the machines that are waited for.
func (w *waiting) targets() []string {
	if len(w.ids) > 0 || w.all {
		return w.ids
	}
	ids := slices.Collect(maps.Keys(w.present))
	tag.SortMachines(ids)
	return ids
}

// check reports whether the waiting is over, with an error if it is in vain.
func (w *waiting) check() (bool, error) {
	named := len(w.ids) > 0 && !w.all
	left := false
	for _, id := range w.targets() {
		m, ok := w.present[id]
		switch {
		case w.what == forGone:
			left = left || ok
		case !ok:
			return true, errors.NewNotFound(nil, fmt.Sprintf("machine %s not found, so it will not start", id))
		case m.Life != "" && m.Life != string(life.Alive):
			if named {
				return true, errors.Errorf("machine %s is being removed, so it will not start", id)
			}
		default:
			left = left || m.AgentStatus.Current != string(status.Started)
		}
	}
	return !left, nil
}

// unfinished returns the machines that are still waited for.
func (w *waiting) unfinished() []string {
	var out []string
	for _, id := range w.targets() {
		m, ok := w.present[id]
		if w.what == forGone && ok || w.what == forStarted && ok && m.AgentStatus.Current != string(status.Started) {
			out = append(out, id)
		}
	}
	return out
}

// text is the progress so far.
func (w *waiting) text() string {
	n := len(w.targets())
	return fmt.Sprintf("%d of %d machines %s", n-len(w.unfinished()), n, w.what)
}

// left says what was waited for in vain.
func (w *waiting) left() string {
	if !w.heard {
		return "the controller did not answer"
	}
	ids := w.unfinished()
	var parts []string
	for _, id := range ids[:min(len(ids), maxNamed)] {
		parts = append(parts, fmt.Sprintf("machine %s is %s", id, condition(w.present[id])))
	}
	if more := len(ids) - len(parts); more > 0 {
		parts = append(parts, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(parts, "; ")
}

// condition says how a machine is.
func condition(m *params.MachineUpdate) string {
	text := m.AgentStatus.Current
	if m.Life != "" && m.Life != string(life.Alive) {
		text += ", " + m.Life
	}
	if why := firstOf(m.AgentStatus.Message, m.InstanceStatus.Message); why != "" {
		text += " (" + why + ")"
	}
	return text
}
