package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/juju/errors"
	"github.com/spf13/cobra"

	"github.com/slipway-project/slipway/api"
	"github.com/slipway-project/slipway/api/annotations"
)

// ofModel stands for the model itself where annotations are about machines.
const ofModel = "model"

// noted returns the tag of what a person means by a machine's id or "model".
func noted(name, modelUUID string) string {
	if name == ofModel {
		return "model-" + modelUUID
	}
	return api.MachineTag(name)
}

// checkNoted returns an error for the first text that is no machine's id, nor the
// model.
func checkNoted(names []string) error {
	return checkIDs(slices.DeleteFunc(slices.Clone(names), func(n string) bool { return n == ofModel }))
}

func (a *app) annotateCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "annotate ID|model KEY=VALUE...",
		Short: "Note something about a machine or the model",
		Long: `Note something about a machine, or with "model" about the model: KEY=VALUE pairs
that mean something to people, and nothing to Slipway. KEY= removes a note.`,
		Example: `  slipway annotate 3 rack=7 owner="data team"
  slipway annotate model cost-centre=1200
  slipway annotate 3 rack=`,
		Args:              takes(2, -1),
		ValidArgsFunction: a.completeMachines,
		RunE: a.do(func(ctx context.Context, args []string) error {
			if err := checkNoted(args[:1]); err != nil {
				return err
			}
			changes := make(map[string]string, len(args)-1)
			for _, text := range args[1:] {
				key, value, ok := strings.Cut(text, "=")
				if !ok || key == "" {
					return usagef("%q is no note: use KEY=VALUE, or KEY= to remove one", text)
				}
				changes[key] = value
			}
			conn, c, err := a.openModel(ctx)
			if err != nil {
				return err
			}
			defer conn.Close() // nothing is under way
			if err := annotations.New(conn).Set(ctx, noted(args[0], c.uuid), changes); err != nil {
				return saying(err, "cannot annotate %s", args[0])
			}
			return nil
		}),
	}
}

func (a *app) annotationsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "annotations ID|model...", Short: "Show what is noted about machines or the model", Aliases: []string{"list-annotations"},
		Example: `  slipway annotations 3
  slipway annotations model 0 1 --format yaml`,
		Args: takes(1, -1), ValidArgsFunction: a.completeMachines,
	}
	f := formatFlag(cmd)
	cmd.RunE = a.do(func(ctx context.Context, args []string) error {
		if err := checkNoted(args); err != nil {
			return err
		}
		conn, c, err := a.openModel(ctx)
		if err != nil {
			return err
		}
		defer conn.Close() // nothing is under way
		tags := make([]string, len(args))
		for i, name := range args {
			tags[i] = noted(name, c.uuid)
		}
		results, err := annotations.New(conn).Get(ctx, tags...)
		if err != nil {
			return saying(err, "cannot list annotations")
		}
		view := make(map[string]map[string]string, len(args))
		table := [][]string{{"About", "Key", "Value"}}
		for i, name := range args {
			if err := results[i].Err; err != nil {
				return errors.Annotatef(err, "cannot list annotations of %s", name)
			}
			notes := results[i].Value
			if notes == nil {
				notes = map[string]string{}
			}
			view[name] = notes
			for _, key := range slices.Sorted(maps.Keys(notes)) {
				table = append(table, []string{name, key, notes[key]})
			}
		}
		return show(a.stdout, *f, view, func(w io.Writer) {
			if len(table) == 1 {
				fmt.Fprintln(w, "nothing is noted")
				return
			}
			rows(w, table)
		})
	})
	return cmd
}
