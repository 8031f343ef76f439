package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/juju/errors"
	"github.com/spf13/cobra"

	"github.com/slipway-project/slipway/api"
	"github.com/slipway-project/slipway/api/hosts"
	"github.com/slipway-project/slipway/api/installs"
	"github.com/slipway-project/slipway/internal/printable"
	"github.com/slipway-project/slipway/params"
)

func (a *app) showHostCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "show-host NAME",
		Short: "Show all that is known of a bare-metal host",
		Long: `Show all that is known of a bare-metal host: its state, what its installer did and
found, and what happened to it.

With --log, show what the installer logged in its newest boot instead, or in the
boot with another number; with --follow too, go on with what comes, until you
interrupt it. The logs of the last boots are kept.`,
		Example: `  slipway show-host rack1-u7 --format yaml
  slipway show-host rack1-u7 --log --follow
  slipway show-host rack1-u7 --log --boot 3`,
		Args: takes(1, 1),
	}
	f := formatFlag(cmd)
	log := cmd.Flags().Bool("log", false, "show the log of the installer")
	follow := cmd.Flags().Bool("follow", false, "with --log: go on with what comes")
	boot := cmd.Flags().Int("boot", 0, "with --log: number of the boot; 0 means the newest")
	cmd.RunE = a.do(func(ctx context.Context, args []string) error {
		switch {
		case !*log && (*follow || *boot != 0):
			return usagef("--follow and --boot go with --log")
		case *boot < 0:
			return usagef("boots have numbers from 1 on")
		}
		return a.withHosts(ctx, func(c *hosts.Client, conn *api.Conn, _ site) error {
			if *log {
				return a.installerLog(ctx, installs.New(conn), params.InstallLogQuery{Name: args[0], Boot: *boot, Wait: *follow})
			}
			views, err := listHosts(ctx, c, args[0])
			if err != nil {
				return err
			}
			report, err := installs.New(conn).Show(ctx, args[0])
			switch {
			case err == nil && len(report.Boots) > 0:
				views[0].Installer = &report
			case err != nil && !errors.Is(err, errors.NotImplemented): // an older controller
				return saying(err, "cannot show the installer of the host")
			}
			return show(a.stdout, *f, views[0], func(w io.Writer) { views[0].table(w) })
		})
	})
	return cmd
}

// installerLog shows the log of an installer, and follows it if the query waits.
func (a *app) installerLog(ctx context.Context, c *installs.Client, q params.InstallLogQuery) error {
	current := q.Boot
	newest := q.Boot == 0
	waits := q.Wait
	q.Wait = false // what there is comes at once
	for first := true; ; first = false {
		l, err := c.Log(ctx, q)
		switch {
		case err != nil && ctx.Err() != nil:
			return nil
		case err != nil:
			return saying(err, "cannot show the log")
		case l.Boot == 0 && first && !waits:
			return errors.Errorf("host %s was never installed", q.Name)
		}
		if l.Boot != current && current != 0 {
			fmt.Fprintf(a.stdout, "--- boot %d ---\n", l.Boot)
			q.After, current = 0, l.Boot
			continue // its lines from the first on
		}
		current = l.Boot
		for _, line := range l.Lines {
			fmt.Fprintln(a.stdout, printable.Line(line))
		}
		q.After = l.Next
		if l.Ended && len(l.Lines) == 0 && l.Message != "" {
			fmt.Fprintf(a.stdout, "--- ended: %s ---\n", printable.Line(l.Message))
		}
		if !waits || l.Ended && len(l.Lines) == 0 && (!newest || l.Boot != 0) {
			return nil
		}
		q.Wait = true
	}
}

// installerLines shows what is known of a host's installer.
func installerLines(line func(name, value string), r params.InstallReport) {
	for _, b := range r.Boots {
		text := fmt.Sprintf("boot %d: %s, %s", b.Number, b.Purpose, b.Phase)
		if b.Message != "" {
			text += ": " + b.Message
		}
		line("installer", text+b.Started.UTC().Format(" (2006-01-02 15:04:05Z)"))
	}
	line("step", r.Step)
	var disk struct{ Serial, WWN, Name string }
	if len(r.Disk) > 0 && json.Unmarshal(r.Disk, &disk) == nil {
		line("disk", strings.TrimSpace(fmt.Sprintf("system on the one with serial %s %s %s", orDash(disk.Serial), disk.WWN, disk.Name)))
	}
	line("health", healthText(r.Health))
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// healthText sums up health checks: how many passed, and what the others said.
func healthText(report json.RawMessage) string {
	var checks []struct{ Name, Status, Message string }
	if len(report) == 0 || json.Unmarshal(report, &checks) != nil || len(checks) == 0 {
		return ""
	}
	counts := map[string]int{}
	var bad []string
	for _, c := range checks {
		counts[c.Status]++
		if c.Status != "pass" && c.Status != "skip" {
			bad = append(bad, c.Name+": "+c.Message)
		}
	}
	var parts []string
	for s, n := range counts {
		parts = append(parts, fmt.Sprintf("%d %s", n, s))
	}
	slices.Sort(parts)
	return strings.Join(append([]string{strings.Join(parts, ", ")}, bad...), "; ")
}
