package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/slipway-project/slipway/internal/site"
)

// exportJoinCommand returns the command that writes what a further controller
// needs.
func (a *app) exportJoinCommand() *cobra.Command {
	var o site.ExportOptions
	var passphrase string
	c := &cobra.Command{
		Use:   "export-join",
		Short: "Write the file with which a further controller joins",
		Long: `export-join writes the keys that every controller of a site needs and that are
never in the store, the certificate authority's among them. The file is
encrypted with a passphrase. Remove it when the other controller has joined.`,
		Example: `  controllerd export-join --data-dir /var/lib/slipway --out slipway.join --passphrase-file /etc/slipway/passphrase`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := a.begin(); err != nil {
				return err
			}
			err := needs(cmd, "out", "passphrase-file")
			if err != nil {
				return err
			}
			if o.Passphrase, err = readPassphrase(passphrase); err != nil {
				return err
			}
			o.Dir = site.Dir(a.dataDir)
			if err := site.ExportJoin(o); err != nil {
				return err
			}
			fmt.Fprintf(a.stdout, "wrote %s; on the other machine: controllerd join --data-dir DIR --store URL --join-file %s --passphrase-file FILE --listen ADDR\n", o.Out, o.Out)
			return nil
		},
	}
	a.dataDirFlag(c)
	c.Flags().StringVar(&o.Out, "out", "", "file to write (required); it must not be there")
	c.Flags().StringVar(&passphrase, "passphrase-file", "", "file whose first line is the passphrase (required)")
	return c
}

// joinCommand returns the command that prepares a further controller.
func (a *app) joinCommand() *cobra.Command {
	var o site.JoinOptions
	var passphrase string
	c := &cobra.Command{
		Use:   "join",
		Short: "Prepare a data directory for a further controller of a site",
		Long: `join prepares a new or empty data directory for a further controller of a site
whose state is in MongoDB. "controllerd run" then serves it; agents and clients
hear of its addresses from the other controllers.`,
		Example: `  controllerd join --data-dir /var/lib/slipway --store "mongodb://h1,h2,h3/slipway?replicaSet=rs0" \
    --join-file slipway.join --passphrase-file passphrase --listen 0.0.0.0:17070 --advertise rack2.example.com`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := a.begin(); err != nil {
				return err
			}
			err := needs(cmd, "store", "join-file", "passphrase-file", "listen")
			if err != nil {
				return err
			}
			if o.Passphrase, err = readPassphrase(passphrase); err != nil {
				return err
			}
			o.Dir = site.Dir(a.dataDir)
			if err := site.Join(cmd.Context(), o); err != nil {
				return err
			}
			fmt.Fprintf(a.stdout, "joined; serve it with: controllerd run --data-dir %s\n", o.Dir)
			return nil
		},
	}
	a.dataDirFlag(c)
	storeFlags(c, &o.Store)
	c.Flags().StringVar(&o.From, "join-file", "", "what \"controllerd export-join\" wrote (required)")
	c.Flags().StringVar(&passphrase, "passphrase-file", "", "file whose first line is the join file's passphrase (required)")
	c.Flags().StringVar(&o.Listen, "listen", "", "HOST:PORT to serve on (required)")
	c.Flags().StringSliceVar(&o.Advertise, "advertise", nil, "HOST or HOST:PORT at which others reach the server, separated by commas")
	return c
}
