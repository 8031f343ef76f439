package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/slipway-project/slipway/internal/command"
	"github.com/slipway-project/slipway/internal/site"
)

// migrateCommand returns the command that moves state to another store.
func (a *app) migrateCommand() *cobra.Command {
	var o site.MigrateOptions
	c := &cobra.Command{
		Use:   "migrate",
		Short: "Move a site's state between the embedded store and MongoDB",
		Long: `migrate copies the state of a site into another store while controllers serve
it. One of --from and --to is the data directory of a controller, and stands for
its embedded store; the other is the URL of a replica set.

When the copy has caught up it says so, and waits until the controllers are
stopped. Then it compares every document, and has the data directory use the new
store. The old store is left as it is. If it is interrupted, nothing has
happened: run it again.`,
		Example: `  controllerd migrate --from /var/lib/slipway --to "mongodb://h1,h2,h3/slipway?replicaSet=rs0" --store-credentials-file /etc/slipway/mongodb
  controllerd migrate --from "mongodb://h1,h2,h3/slipway?replicaSet=rs0" --to /var/lib/slipway`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := command.Logging(a.stderr, a.logging); err != nil {
				return err
			}
			if err := needs(cmd, "from", "to"); err != nil {
				return err
			}
			o.Say = func(text string) { fmt.Fprintln(a.stdout, text) }
			r, err := site.Migrate(cmd.Context(), o)
			if err != nil {
				return err
			}
			fmt.Fprintf(a.stdout, "moved %d documents, each compared; nobody could write for %v; start the controller again\n", r.Documents, r.Fenced.Round(time.Millisecond))
			return nil
		},
	}
	storeFileFlags(c, &o.Store)
	c.Flags().StringVar(&o.From, "from", "", "where the state is: DIR or URL (required)")
	c.Flags().StringVar(&o.To, "to", "", "where it is to be: DIR or URL (required)")
	return c
}
