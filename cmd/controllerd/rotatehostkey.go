package main

import (
	"fmt"

	"github.com/juju/errors"
	"github.com/spf13/cobra"

	"github.com/slipway-project/slipway/internal/command"
	"github.com/slipway-project/slipway/internal/site"
)

// rotateHostKeyCommand returns the command that replaces the key of hosts' secrets.
func (a *app) rotateHostKeyCommand() *cobra.Command {
	var add, seal bool
	c := &cobra.Command{
		Use:   "rotate-host-key",
		Short: "Replace the key that seals the secrets of bare-metal hosts",
		Long: `rotate-host-key makes a new key for the BMC credentials of hosts and for what
machines on them are configured with. Everything is sealed anew with it, and then the
old key is dropped from DIR/hosts.key. The controller may run meanwhile: it does all this by
itself within a few seconds, or at its next start. Every moment all secrets can be read.

With several controllers, each has to know the new key before the first one uses it:
1. on one, --add, then copy its hosts.key to the data directories of the others;
2. on each, --seal; after the last of them,
3. on each, without a flag.`,
		Example: `  controllerd rotate-host-key --data-dir /var/lib/slipway
  controllerd rotate-host-key --data-dir /var/lib/slipway --add`,
		RunE: func(*cobra.Command, []string) error {
			if err := a.begin(); err != nil {
				return err
			}
			step, said := site.KeyFinish, "the new key seals from now on; the old one is dropped when nothing needs it any more"
			switch {
			case add && seal:
				return command.Usagef("give --add or --seal, one at a time")
			case add:
				step, said = site.KeyAdd, "a new key opens from now on; copy hosts.key to the other controllers, then give --seal on each"
			case seal:
				step, said = site.KeySeal, "the new key seals from now on; when it does on each controller, run this without a flag on each"
			}
			err := site.Dir(a.dataDir).RotateHostKey(step)
			if errors.Is(err, errors.AlreadyExists) {
				return errors.Annotate(err, "cannot begin another replacement")
			}
			if err != nil {
				return err
			}
			fmt.Fprintln(a.stdout, said)
			return nil
		},
	}
	a.dataDirFlag(c)
	c.Flags().BoolVar(&add, "add", false, "only add a new key")
	c.Flags().BoolVar(&seal, "seal", false, "seal with the newest key, and keep the others")
	return c
}
