package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/juju/errors"
	"github.com/spf13/cobra"

	"github.com/slipway-project/slipway/api/keymanager"
)

func (a *app) sshKeysCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "ssh-keys", Short: "Show the SSH keys that may log in to the model's machines", Aliases: []string{"list-ssh-keys"},
		Long: `Show the SSH keys that machines of the model let in: their fingerprints, or with
--full all of each. Machines learn the keys when they are started.`,
		Example: `  slipway ssh-keys
  slipway ssh-keys --full`,
		Args: takes(0, 0),
	}
	full := cmd.Flags().Bool("full", false, "show the keys, not their fingerprints")
	f := formatFlag(cmd)
	cmd.RunE = a.do(func(ctx context.Context, _ []string) error {
		conn, c, err := a.openModel(ctx)
		if err != nil {
			return err
		}
		defer conn.Close() // nothing is under way
		keys, err := keymanager.New(conn).List(ctx, c.account.User, *full)
		if err != nil {
			return saying(err, "cannot list SSH keys")
		}
		if keys == nil {
			keys = []string{}
		}
		return show(a.stdout, *f, map[string]any{"ssh-keys": keys}, func(w io.Writer) {
			if len(keys) == 0 {
				fmt.Fprintln(w, "no SSH keys; add one with \"slipway add-ssh-key\"")
			}
			for _, k := range keys {
				fmt.Fprintln(w, k)
			}
		})
	})
	return cmd
}

func (a *app) addSSHKeyCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "add-ssh-key KEY|@FILE...",
		Short: "Let an SSH key log in to the model's machines",
		Long: `Add SSH keys: each a line as in authorized_keys, or @FILE for the lines of a file
(@- is the standard input). Machines that are started from now on let them in.`,
		Example: `  slipway add-ssh-key @$HOME/.ssh/id_ed25519.pub
  slipway add-ssh-key "ssh-ed25519 AAAA... bob@example"`,
		Args: takes(1, -1),
		RunE: a.do(func(ctx context.Context, args []string) error {
			var keys []string
			for _, arg := range args {
				text, err := a.readSetting(arg)
				if err != nil {
					return errors.Annotate(err, "cannot read SSH keys")
				}
				if strings.Contains(text, "PRIVATE KEY-----") {
					return usagef("%.100q is a private key, which nobody else should have: give the public one, such as @%s.pub", arg, strings.TrimPrefix(arg, "@"))
				}
				for line := range strings.Lines(text) {
					if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
						keys = append(keys, line)
					}
				}
			}
			if len(keys) == 0 {
				return usagef("there is no SSH key in %s", strings.Join(args, ", "))
			}
			return a.changeKeys(ctx, "add", keys, (*keymanager.Client).Add)
		}),
	}
}

func (a *app) removeSSHKeyCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "remove-ssh-key FINGERPRINT|COMMENT...",
		Short: "Keep an SSH key out of machines that are started from now on",
		Long: `Remove SSH keys, given by their fingerprint or comment as ssh-keys shows them.
Machines that are running keep the keys that they were started with.`,
		Example:           `  slipway remove-ssh-key bob@example`,
		Args:              takes(1, -1),
		ValidArgsFunction: a.completeKeys,
		RunE: a.do(func(ctx context.Context, args []string) error {
			return a.changeKeys(ctx, "remove", args, (*keymanager.Client).Delete)
		}),
	}
}

// changeKeys adds or removes keys, and says what came of each.
func (a *app) changeKeys(ctx context.Context, verb string, keys []string, change func(*keymanager.Client, context.Context, string, ...string) ([]error, error)) error {
	conn, c, err := a.openModel(ctx)
	if err != nil {
		return err
	}
	defer conn.Close() // nothing is under way
	errs, err := change(keymanager.New(conn), ctx, c.account.User, keys...)
	if err != nil {
		return saying(err, "cannot %s SSH keys", verb)
	}
	done := 0
	var failed error
	for _, err := range errs {
		if err == nil {
			done++
		} else if failed == nil {
			failed = err
		}
	}
	if failed != nil {
		return errors.Annotatef(failed, "cannot %s %d of %d SSH keys", verb, len(keys)-done, len(keys))
	}
	what := fmt.Sprintf("%d SSH keys", done)
	if done == 1 {
		what = "1 SSH key"
	}
	fmt.Fprintf(a.stdout, "%s %s\n", map[string]string{"add": "added", "remove": "removed"}[verb], what)
	return nil
}

// completeKeys offers the comments of keys.
func (a *app) completeKeys(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	ctx, cancel := completionContext(cmd)
	defer cancel()
	conn, c, err := a.openModel(ctx)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	defer conn.Close()                                               // nothing is under way
	keys, _ := keymanager.New(conn).List(ctx, c.account.User, false) // nothing to offer is fine
	var out []cobra.Completion
	for _, k := range keys {
		print, comment, _ := strings.Cut(k, " (")
		if comment = strings.TrimSuffix(comment, ")"); comment != "" {
			out = append(out, cobra.CompletionWithDesc(comment, print))
		}
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}
