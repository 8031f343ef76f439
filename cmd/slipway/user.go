package main

import (
	"context"
	"fmt"

	"github.com/juju/errors"
	"github.com/spf13/cobra"

	"github.com/slipway-project/slipway/api/clientstore"
	"github.com/slipway-project/slipway/api/usermanager"
	"github.com/slipway-project/slipway/params"
)

func (a *app) addUserCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "add-user NAME",
		Short: "Add a user to the controller",
		Long: `Add a user to the controller. The password comes from a file, or you are asked
for it; it is never an argument.`,
		Example: `  slipway add-user bob --display-name "Bob B."
  pwgen 20 1 | slipway add-user bob --password-file -`,
		Args: takes(1, 1),
	}
	display := cmd.Flags().String("display-name", "", "the user's full name")
	file := passwordFlag(cmd)
	cmd.RunE = a.do(func(ctx context.Context, args []string) error {
		name, err := userID(args[0])
		if err != nil {
			return err
		}
		password, err := a.newPassword(*file, name)
		if err != nil {
			return err
		}
		conn, _, err := a.openController(ctx)
		if err != nil {
			return err
		}
		defer conn.Close() // nothing is under way
		_, err = usermanager.New(conn).Add(ctx, params.AddUser{UserName: name, DisplayName: *display, Password: password})
		if err != nil {
			return saying(err, "cannot add user %q", name)
		}
		fmt.Fprintf(a.stdout, "added user %s\n", name)
		return nil
	})
	return cmd
}

func (a *app) changeUserPasswordCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "change-user-password [NAME]",
		Short: "Change your own or another user's password",
		Long: `Change your own password, which is then noted in accounts.yaml, or that of the
named user. It comes from a file, or you are asked for it; it is never an argument.`,
		Example: `  slipway change-user-password
  slipway change-user-password bob --password-file new-password.txt`,
		Args: takes(0, 1),
	}
	file := passwordFlag(cmd)
	cmd.RunE = a.do(func(ctx context.Context, args []string) error {
		s, err := a.site()
		if err != nil {
			return err
		}
		name := s.account.User
		if len(args) > 0 {
			if name, err = userID(args[0]); err != nil {
				return err
			}
		}
		password, err := a.newPassword(*file, name)
		if err != nil {
			return err
		}
		conn, err := a.open(ctx, s, "")
		if err != nil {
			return err
		}
		defer conn.Close() // nothing is under way
		if err := usermanager.New(conn).SetPassword(ctx, "user-"+name, password); err != nil {
			return saying(err, "cannot change the password of %q", name)
		}
		if name == s.account.User {
			if err := a.notePassword(ctx, s, password); err != nil {
				return errors.Annotate(err, "the password is changed, but cannot be noted")
			}
		}
		fmt.Fprintf(a.stdout, "changed the password of %s\n", name)
		return nil
	})
	return cmd
}

// notePassword notes the user's own new password.
func (a *app) notePassword(ctx context.Context, s site, password params.Secret) error {
	return a.store().Update(ctx, func(c *clientstore.Contents) error {
		account := c.Accounts[s.name]
		account.Password = password
		c.Accounts[s.name] = account
		return nil
	})
}
