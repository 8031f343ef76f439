package main

import (
	"context"
	"io"
	"slices"
	"time"

	"github.com/juju/errors"
	"github.com/spf13/cobra"

	"github.com/slipway-project/slipway/api/statushistory"
	"github.com/slipway-project/slipway/params"
)

// historyEntry is a status that a machine had.
type historyEntry struct {
	Time    *time.Time `json:"time"`
	Type    string     `json:"type"` // agent or instance
	Status  string     `json:"status"`
	Message string     `json:"message"`
}

// historyView is what the statuses of a machine have been, oldest first.
type historyView struct {
	Machine string         `json:"machine"`
	History []historyEntry `json:"history"`
}

// historyKinds are the types of statuses that can be asked for, by name.
func historyKinds(name string) (kinds, types []string, err error) {
	switch name {
	case "all":
		return []string{params.HistoryMachineAgent, params.HistoryMachine}, []string{"agent", "instance"}, nil
	case "agent":
		return []string{params.HistoryMachineAgent}, []string{"agent"}, nil
	case "instance":
		return []string{params.HistoryMachine}, []string{"instance"}, nil
	}
	return nil, nil, usagef("--type %q is none: use agent, instance or all", name)
}

func (a *app) showStatusLogCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "show-status-log ID",
		Short: "Show what the statuses of a machine have been",
		Long: `Show what the statuses of a machine have been, the newest last: those that its
agent reported, and those of its instance. The last 50 of each are kept.`,
		Example: `  slipway show-status-log 3
  slipway show-status-log 3/lxd/0 --type instance --limit 5
  slipway show-status-log 3 --format json`,
		Args:              takes(1, 1),
		ValidArgsFunction: a.completeMachines,
	}
	limit := cmd.Flags().IntP("limit", "n", 20, "how many at most; 0 means all that are kept")
	kind := cmd.Flags().String("type", "all", "agent, instance or all")
	f := formatFlag(cmd)
	cmd.RunE = a.do(func(ctx context.Context, args []string) error {
		if err := checkIDs(args); err != nil {
			return err
		}
		if *limit < 0 {
			return usagef("--limit %d is no number of statuses: use 0 or more", *limit)
		}
		kinds, types, err := historyKinds(*kind)
		if err != nil {
			return err
		}
		conn, c, err := a.openModel(ctx)
		if err != nil {
			return err
		}
		defer conn.Close() // nothing is under way
		found, err := statushistory.New(conn).Of(ctx, args[0], *limit, kinds...)
		if errors.Is(err, errors.NotFound) {
			return missing(args[0], c)
		}
		if err != nil {
			return saying(err, "cannot get the status log of machine %s", args[0])
		}
		view := historyView{Machine: args[0], History: mergeHistory(found, types, *limit)}
		return show(a.stdout, *f, view, view.table)
	})
	return cmd
}

// mergeHistory puts histories together, oldest first, and keeps the newest so
// many; 0 keeps all.
func mergeHistory(found [][]params.DetailedStatus, types []string, limit int) []historyEntry {
	out := []historyEntry{}
	for i, list := range found {
		for _, s := range slices.Backward(list) {
			out = append(out, historyEntry{Time: s.Since, Type: types[i], Status: s.Status, Message: s.Info})
		}
	}
	at := func(e historyEntry) time.Time {
		if e.Time == nil {
			return time.Time{}
		}
		return *e.Time
	}
	slices.SortStableFunc(out, func(a, b historyEntry) int { return at(a).Compare(at(b)) })
	if limit > 0 && len(out) > limit {
		out = out[len(out)-limit:]
	}
	return out
}

// table writes the history for people.
func (v historyView) table(w io.Writer) {
	table := [][]string{{"Time", "Type", "Status", "Message"}}
	for _, e := range v.History {
		when := ""
		if e.Time != nil {
			when = e.Time.Local().Format("2006-01-02 15:04:05")
		}
		table = append(table, []string{when, e.Type, e.Status, e.Message})
	}
	rows(w, table)
}
