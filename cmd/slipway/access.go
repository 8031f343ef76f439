package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/slipway-project/slipway/api"
	"github.com/slipway-project/slipway/api/controller"
	"github.com/slipway-project/slipway/api/modelmanager"
	"github.com/slipway-project/slipway/api/usermanager"
	"github.com/slipway-project/slipway/core/access"
	"github.com/slipway-project/slipway/params"
)

func (a *app) grantCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "grant USER LEVEL [MODEL...]",
		Short: "Let a user do more, in models or on the controller",
		Long: `Let a user do more. With models, LEVEL is read (see), write (add and remove
machines, change settings) or admin (all that, share and remove the model, read
its log). Without, it is add-model or superuser (everything).`,
		Example: `  slipway grant bob read default
  slipway grant bob write default staging
  slipway grant bob superuser`,
		Args: takes(2, -1),
		RunE: a.do(func(ctx context.Context, args []string) error { return a.modifyAccess(ctx, params.GrantAccess, args) }),
	}
}

func (a *app) revokeCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "revoke USER LEVEL [MODEL...]",
		Short: "Let a user do less, in models or on the controller",
		Long: `Let a user do less: afterwards the user has less than LEVEL. With models, revoking
read leaves nothing, write leaves read, admin leaves write. Without, revoking
superuser leaves add-model, and add-model leaves login. The user's connections are
closed.`,
		Example: `  slipway revoke bob write default
  slipway revoke bob superuser`,
		Args: takes(2, -1),
		RunE: a.do(func(ctx context.Context, args []string) error { return a.modifyAccess(ctx, params.RevokeAccess, args) }),
	}
}

// modifyAccess grants or revokes.
func (a *app) modifyAccess(ctx context.Context, action string, args []string) error {
	user, err := userID(args[0])
	if err != nil {
		return err
	}
	level, names := args[1], args[2:]
	if _, err := access.ParseModel(level); err == nil && len(names) == 0 {
		return usagef("%s %s needs the names of models", action, level)
	} else if err != nil {
		if _, err := access.ParseController(level); err != nil || level == string(access.Login) {
			return usagef("%q is no level of access: use read, write or admin with models, or add-model or superuser without", level)
		}
		if len(names) > 0 {
			return usagef("%s is access to the controller: leave the models out", level)
		}
	}
	conn, s, err := a.openController(ctx)
	if err != nil {
		return err
	}
	defer conn.Close() // nothing is under way
	done := map[string]string{params.GrantAccess: "granted %s to %s%s\n", params.RevokeAccess: "revoked %s of %s%s\n"}[action]
	if len(names) == 0 {
		if err := controller.New(conn).ModifyAccess(ctx, "user-"+user, action, level); err != nil {
			return saying(err, "cannot %s %s", action, level)
		}
		fmt.Fprintf(a.stdout, done, level, user, "")
		return nil
	}
	var failure error
	for _, name := range names {
		c, err := a.findModel(ctx, s, name)
		if err != nil {
			return err
		}
		err = api.OneError(modelmanager.New(conn).ModifyAccess(ctx, "user-"+user, action, level, c.uuid))
		if err != nil {
			failure = saying(err, "cannot %s %s in model %q", action, level, c.model)
			continue
		}
		fmt.Fprintf(a.stdout, done, level, user, " in model "+c.model)
	}
	return failure
}

func (a *app) disableUserCommand() *cobra.Command {
	return a.userSwitch("disable-user NAME", "Keep a user from logging in, and end the user's connections", "disabled user %s\n",
		func(ctx context.Context, c *usermanager.Client, tag string) error { return c.Disable(ctx, tag) })
}

func (a *app) enableUserCommand() *cobra.Command {
	return a.userSwitch("enable-user NAME", "Let a user log in again", "enabled user %s\n",
		func(ctx context.Context, c *usermanager.Client, tag string) error { return c.Enable(ctx, tag) })
}

// userSwitch returns a command that does something to one user.
func (a *app) userSwitch(use, short, done string, do func(context.Context, *usermanager.Client, string) error) *cobra.Command {
	verb, _, _ := strings.Cut(use, " ")
	return &cobra.Command{
		Use: use, Short: short, Example: "  slipway " + verb + " bob", Args: takes(1, 1),
		RunE: a.do(func(ctx context.Context, args []string) error {
			name, err := userID(args[0])
			if err != nil {
				return err
			}
			conn, _, err := a.openController(ctx)
			if err != nil {
				return err
			}
			defer conn.Close() // nothing is under way
			if err := do(ctx, usermanager.New(conn), "user-"+name); err != nil {
				return saying(err, "cannot %s %q", strings.ReplaceAll(verb, "-", " "), name)
			}
			fmt.Fprintf(a.stdout, done, name)
			return nil
		}),
	}
}

// userView is a user.
type userView struct {
	Name        string     `json:"user-name"`
	DisplayName string     `json:"display-name"`
	Access      string     `json:"access"`
	Created     *time.Time `json:"date-created,omitempty"`
	LastLogin   *time.Time `json:"last-connection"` // null: never
	Disabled    bool       `json:"disabled"`
}

func (a *app) usersCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "users [MODEL]",
		Short:   "Show the users of the controller, or of a model",
		Aliases: []string{"list-users"},
		Long: `Show the users of the controller, or those who may do something in a model, and
what they may do. Only superusers, and a model's administrators, see others than
themselves.`,
		Example: `  slipway users
  slipway users default --format json`,
		Args:              takes(0, 1),
		ValidArgsFunction: a.completeModels,
	}
	f := formatFlag(cmd)
	cmd.RunE = a.do(func(ctx context.Context, args []string) error {
		conn, s, err := a.openController(ctx)
		if err != nil {
			return err
		}
		defer conn.Close() // nothing is under way
		found, err := usermanager.New(conn).Info(ctx)
		if err != nil {
			return saying(err, "cannot list users")
		}
		var users []userView
		for _, r := range found {
			if r.Err != nil {
				return saying(r.Err, "cannot list users")
			}
			users = append(users, userView{Name: r.Value.UserName, DisplayName: r.Value.DisplayName, Access: r.Value.Access,
				Created: &r.Value.DateCreated, LastLogin: r.Value.LastConnection, Disabled: r.Value.Disabled})
		}
		if len(args) > 0 {
			if users, err = a.modelUsers(ctx, conn, s, args[0], users); err != nil {
				return err
			}
		}
		return show(a.stdout, *f, users, func(w io.Writer) { a.userTable(w, users) })
	})
	return cmd
}

// modelUsers returns the users of a model, with what they may do there.
func (a *app) modelUsers(ctx context.Context, conn *api.Conn, s site, name string, known []userView) ([]userView, error) {
	c, err := a.findModel(ctx, s, name)
	if err != nil {
		return nil, err
	}
	info, err := api.One(modelmanager.New(conn).Info(ctx, c.uuid))
	if err != nil {
		return nil, saying(err, "cannot list the users of model %q", c.model)
	}
	byName := make(map[string]userView)
	for _, u := range known {
		byName[u.Name] = u
	}
	out := make(map[string]userView)
	for _, u := range info.Users {
		v := byName[u.UserName]
		v.Name, v.Access, v.LastLogin = u.UserName, u.Access, u.LastConnection
		out[u.UserName] = v
	}
	users := make([]userView, 0, len(out))
	for _, n := range slices.Sorted(maps.Keys(out)) {
		users = append(users, out[n])
	}
	return users, nil
}

// userTable writes users for people.
func (a *app) userTable(w io.Writer, users []userView) {
	table := [][]string{{"Name", "Display name", "Access", "Created", "Last login"}}
	for _, u := range users {
		last, created := "never", ""
		if text := ago(u.LastLogin, a.now()); text != "" {
			last = text + " ago"
		}
		if text := ago(u.Created, a.now()); text != "" {
			created = text + " ago"
		}
		if u.Disabled {
			last = "(disabled)"
		}
		table = append(table, []string{u.Name, u.DisplayName, u.Access, created, last})
	}
	rows(w, table)
}
