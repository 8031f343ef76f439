package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/juju/errors"
	"github.com/juju/loggo"
	"github.com/spf13/cobra"

	"github.com/slipway-project/slipway/api"
	"github.com/slipway-project/slipway/api/logs"
	"github.com/slipway-project/slipway/core/tag"
	"github.com/slipway-project/slipway/internal/printable"
)

func (a *app) debugLogCommand() *cobra.Command {
	var q logs.Query
	var include, exclude []string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "debug-log",
		Short: "Show the log of the model, and follow it",
		Long: `Show the last messages in the log of the model, and those that come, until you
interrupt it. The log has what the model's agents send; that of the model
"controller" has what controllers and provisioners do, and is for superusers.

Entities are machines by id, or tags, with a star at the end for anything.
Modules are given with dots, and stand for all below them.`,
		Example: `  slipway debug-log
  slipway debug-log --replay --no-tail --level WARNING
  slipway debug-log -m controller --include-module slipway.worker.provisioner
  slipway debug-log --include 3 --include 'machine-4-lxd-*' -n 50`,
		Args: takes(0, 0),
	}
	cmd.Flags().BoolVar(&q.Replay, "replay", false, "begin with the oldest message that is kept")
	cmd.Flags().BoolVar(&q.NoTail, "no-tail", false, "show what there is, and end")
	cmd.Flags().IntVarP(&q.Backlog, "lines", "n", 10, "without --replay: begin with so many messages that are there already")
	cmd.Flags().IntVar(&q.MaxLines, "limit", 0, "end after so many messages; 0 means never")
	cmd.Flags().StringVarP(&q.Level, "level", "l", "", "least level to show: TRACE, DEBUG, INFO, WARNING or ERROR")
	cmd.Flags().StringArrayVarP(&include, "include", "i", nil, "show only this entity")
	cmd.Flags().StringArrayVarP(&exclude, "exclude", "x", nil, "do not show this entity")
	cmd.Flags().StringArrayVar(&q.IncludeModule, "include-module", nil, "show only this module")
	cmd.Flags().StringArrayVar(&q.ExcludeModule, "exclude-module", nil, "do not show this module")
	cmd.Flags().BoolVar(&asJSON, "json", false, "show each message as a JSON object, whole")
	cmd.RunE = a.do(func(ctx context.Context, _ []string) error {
		if q.Backlog < 0 || q.MaxLines < 0 {
			return usagef("numbers of messages are 0 or more")
		}
		q.Level = strings.ToUpper(q.Level)
		if _, ok := loggo.ParseLevel(q.Level); q.Level != "" && !ok {
			return usagef("unknown level %q: want TRACE, DEBUG, INFO, WARNING or ERROR", q.Level)
		}
		q.IncludeEntity, q.ExcludeEntity = entityTags(include), entityTags(exclude)
		return a.debugLog(ctx, q, asJSON)
	})
	return cmd
}

// entityTags turns machine ids into tags, and leaves all else as it is.
func entityTags(names []string) []string {
	var out []string
	for _, n := range names {
		if tag.IsValidMachine(n) {
			n = api.MachineTag(n)
		}
		out = append(out, n)
	}
	return out
}

// debugLog shows messages until ctx is done or the query has its end.
func (a *app) debugLog(ctx context.Context, q logs.Query, asJSON bool) error {
	conn, c, err := a.openModel(ctx) // finds the model, and where the controller is now
	if err != nil {
		return err
	}
	info := a.info(c.site, c.uuid)
	info.Addrs = conn.Addrs()
	_ = conn.Close() // done with
	err = logs.Read(ctx, info, api.DialOptions{}, q, func(r logs.Record) error {
		if asJSON {
			text, err := json.Marshal(r)
			if err != nil {
				return errors.Trace(err)
			}
			_, err = a.stdout.Write(append(printable.JSON(text), '\n'))
			return errors.Trace(err)
		}
		return showRecord(a.stdout, r)
	})
	switch {
	case ctx.Err() != nil:
		return nil // which is how following ends
	case errors.Is(err, errors.Unauthorized):
		return errors.Annotatef(err, "cannot read the log of model %q, which is for its administrators", c.model)
	}
	return saying(err, "cannot read the log of model %q", c.model)
}

// showRecord writes a message for people. What agents send is not to move the
// cursor.
func showRecord(w io.Writer, r logs.Record) error {
	message := strings.ReplaceAll(printable.Text(strings.TrimRight(r.Message, "\n")), "\n", "\n\t")
	_, err := fmt.Fprintf(w, "%s: %s %s %s %s %s\n", printable.Line(r.Entity), r.Time.Local().Format("2006-01-02 15:04:05"),
		printable.Line(r.Level), printable.Line(r.Module), printable.Line(r.Location), message)
	return errors.Trace(err)
}
