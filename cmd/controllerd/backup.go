package main

import (
	"bytes"
	"fmt"
	"os"
	"time"

	"github.com/juju/errors"
	"github.com/spf13/cobra"

	"github.com/slipway-project/slipway/environs/all"
	"github.com/slipway-project/slipway/internal/command"
	"github.com/slipway-project/slipway/internal/site"
)

// backupCommand returns the command that backs a site up.
func (a *app) backupCommand() *cobra.Command {
	var o site.BackupOptions
	var passphrase string
	c := &cobra.Command{
		Use:   "backup",
		Short: "Write a backup of a site on its embedded store",
		Long: `backup writes everything that a site is to one file, as it is at one moment. The
controller may run and be busy meanwhile.

Password hashes, secret settings, the authority's key and the identities of the
first user and worker are in it only with --with-secrets, encrypted with a
passphrase. A backup without them is good for looking at, and for a site whose
users and agents can all be given new passwords.`,
		Example: `  controllerd backup --data-dir /var/lib/slipway --out slipway.backup --with-secrets --passphrase-file /etc/slipway/passphrase`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := a.begin(); err != nil {
				return err
			}
			err := needs(cmd, "out")
			if err == nil && o.Secrets && passphrase == "" {
				err = command.Usagef("secrets are kept under a passphrase only: give --passphrase-file FILE")
			} else if err == nil && !o.Secrets && passphrase != "" {
				err = command.Usagef("a backup without secrets has no passphrase: give --with-secrets, or no --passphrase-file")
			}
			if err != nil {
				return err
			}
			if o.Passphrase, err = readPassphrase(passphrase); err != nil {
				return err
			}
			o.Dir, o.Registry = site.Dir(a.dataDir), all.Registry(all.Backends{})
			if err := site.Backup(cmd.Context(), o); err != nil {
				return err
			}
			fmt.Fprintf(a.stdout, "backed up %s to %s\n", o.Dir, o.Out)
			return nil
		},
	}
	a.dataDirFlag(c)
	c.Flags().StringVar(&o.Out, "out", "", "file to write (required); it must not be there")
	c.Flags().BoolVar(&o.Secrets, "with-secrets", false, "include password hashes, keys and identities")
	c.Flags().StringVar(&passphrase, "passphrase-file", "", "file whose first line is the passphrase of a backup with secrets")
	return c
}

// restoreCommand returns the command that makes a site of a backup.
func (a *app) restoreCommand() *cobra.Command {
	var o site.RestoreOptions
	var passphrase string
	c := &cobra.Command{
		Use:   "restore",
		Short: "Make a new data directory of a backup",
		Long: `restore makes a data directory of a backup. The directory must be new or empty.

After a backup with secrets, everyone can log in as before. After one without,
the site has a new authority, which clients have to be told of, and the first
user and the first worker have new passwords, in DIR/client and DIR/agents.`,
		Example: `  controllerd restore --data-dir /var/lib/slipway --from slipway.backup --passphrase-file /etc/slipway/passphrase`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := a.begin(); err != nil {
				return err
			}
			err := needs(cmd, "from")
			if err != nil {
				return err
			}
			if o.Passphrase, err = readPassphrase(passphrase); err != nil {
				return err
			}
			o.Dir = site.Dir(a.dataDir)
			m, err := site.Restore(cmd.Context(), o)
			if err != nil {
				return err
			}
			fmt.Fprintf(a.stdout, "restored controller %s as of %s; serve it with: controllerd run --data-dir %s\n", m.Name, m.Created.Format(time.RFC3339), o.Dir)
			if !m.Secrets {
				fmt.Fprintf(a.stdout, "the backup had no secrets: give users and agents new passwords, set secret settings again, and hand out %s\n", o.Dir.CAFile())
			}
			return nil
		},
	}
	a.dataDirFlag(c)
	c.Flags().StringVar(&o.From, "from", "", "backup to restore (required)")
	c.Flags().StringVar(&passphrase, "passphrase-file", "", "file whose first line is the backup's passphrase")
	return c
}

// readPassphrase reads the first line of a file; nil if none is named.
func readPassphrase(path string) ([]byte, error) {
	if path == "" {
		return nil, nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, errors.Annotate(err, "cannot read the passphrase")
	}
	line, _, _ := bytes.Cut(text, []byte("\n"))
	if line = bytes.TrimRight(line, "\r"); len(line) == 0 {
		return nil, errors.NewNotValid(nil, path+" has no passphrase in its first line")
	}
	return bytes.Clone(line), nil
}
