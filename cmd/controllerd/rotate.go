package main

import (
	"fmt"
	"time"

	"github.com/juju/errors"
	"github.com/spf13/cobra"

	"github.com/slipway-project/slipway/internal/command"
	"github.com/slipway-project/slipway/internal/site"
)

// rotateCACommand returns the command that replaces the certificate authority.
func (a *app) rotateCACommand() *cobra.Command {
	var overlap time.Duration
	var finish bool
	c := &cobra.Command{
		Use:   "rotate-ca",
		Short: "Replace the site's certificate authority",
		Long: `rotate-ca makes a new certificate authority. For a time, the overlap, the old one
still signs what the controller proves its name with, and both are to be trusted:
agents, workers and commands are told of the new one when they log in, and note it
in their files. The controller has all that are connected log in anew at once.
After that, the new one signs, and is trusted alone. Whoever was away during the
whole overlap has to be given the new ca.pem by hand.

The controller may run meanwhile, and does all this by itself. --finish ends the
overlap early.`,
		Example: `  controllerd rotate-ca --data-dir /var/lib/slipway --overlap 168h
  controllerd rotate-ca --data-dir /var/lib/slipway --finish`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := a.begin(); err != nil {
				return err
			}
			if overlap < time.Minute {
				return command.Usagef("--overlap %v is too short for agents to hear of the new authority: give 1m or more", overlap)
			}
			dir := site.Dir(a.dataDir)
			if finish {
				if err := dir.FinishCA(); err != nil {
					return err
				}
				fmt.Fprintln(a.stdout, "the new certificate authority signs from now on, and is trusted alone")
				return nil
			}
			ends, err := dir.RotateCA(overlap)
			if errors.Is(err, errors.AlreadyExists) {
				return errors.Annotate(err, "cannot begin another (--finish ends it now)")
			}
			if err != nil {
				return err
			}
			fmt.Fprintf(a.stdout, "both certificate authorities are trusted until %s\n", ends.Format(time.RFC3339))
			return nil
		},
	}
	a.dataDirFlag(c)
	c.Flags().DurationVar(&overlap, "overlap", 7*24*time.Hour, "how long both authorities are trusted")
	c.Flags().BoolVar(&finish, "finish", false, "end the overlap now")
	return c
}
