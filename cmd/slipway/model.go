package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/juju/errors"
	"github.com/spf13/cobra"

	"github.com/slipway-project/slipway/api"
	"github.com/slipway-project/slipway/api/clientstore"
	"github.com/slipway-project/slipway/api/modelmanager"
	"github.com/slipway-project/slipway/core/tag"
)

// modelsView is the models of a controller.
type modelsView struct {
	Models  []modelEntry `json:"models"`
	Current string       `json:"current-model"` // owner/name; empty if there is none
}

// modelEntry is one of them.
type modelEntry struct {
	Name           string     `json:"name"` // owner/name
	ShortName      string     `json:"short-name"`
	UUID           string     `json:"model-uuid"`
	Owner          string     `json:"owner"`
	Controller     string     `json:"controller-name"`
	LastConnection *time.Time `json:"last-connection"` // null: never
}

func (a *app) modelsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "models",
		Short:   "Show the models of the controller",
		Aliases: []string{"list-models"},
		Example: `  slipway models
  slipway models --format json`,
		Args: takes(0, 0),
	}
	f := formatFlag(cmd)
	cmd.RunE = a.do(func(ctx context.Context, _ []string) error {
		conn, s, err := a.openController(ctx)
		if err != nil {
			return err
		}
		defer conn.Close() // nothing is under way
		models, err := a.listModels(ctx, conn, s)
		if err != nil {
			return err
		}
		view := modelsView{Models: []modelEntry{}, Current: s.models.Current}
		for _, m := range models {
			view.Models = append(view.Models, modelEntry{Name: qualified(m.Model), ShortName: m.Model.Name, UUID: m.Model.UUID,
				Owner: strings.TrimPrefix(m.Model.OwnerTag, "user-"), Controller: s.name, LastConnection: m.LastConnection})
		}
		return show(a.stdout, *f, view, func(w io.Writer) { view.table(w, a.now()) })
	})
	return cmd
}

// table writes the models for people; the current one has a star.
func (v modelsView) table(w io.Writer, now time.Time) {
	table := [][]string{{"Model", "UUID", "Last connection"}}
	for _, m := range v.Models {
		name, last := m.Name, "never"
		if m.Name == v.Current {
			name += "*"
		}
		if text := ago(m.LastConnection, now); text != "" {
			last = text + " ago"
		}
		table = append(table, []string{name, m.UUID, last})
	}
	rows(w, table)
}

func (a *app) addModelCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "add-model NAME",
		Short: "Add a model and make it the current one",
		Example: `  slipway add-model staging
  slipway add-model staging --config default-base=ubuntu@22.04 --no-switch`,
		Args: takes(1, 1),
	}
	config := cmd.Flags().StringArray("config", nil, "setting KEY=VALUE of the new model; KEY=@FILE reads it from a file")
	stay := cmd.Flags().Bool("no-switch", false, "keep the current model current")
	cmd.RunE = a.do(func(ctx context.Context, args []string) error {
		if !tag.IsValidModelName(args[0]) {
			return usagef("%q is not a model name: use lower-case letters, digits and hyphens", args[0])
		}
		settings, err := a.settings(*config)
		if err != nil {
			return err
		}
		conn, s, err := a.openController(ctx)
		if err != nil {
			return err
		}
		defer conn.Close() // nothing is under way
		info, err := modelmanager.New(conn).Create(ctx, args[0], s.userTag(), settings)
		if err != nil {
			return saying(err, "cannot add model %q", args[0])
		}
		name := clientstore.QualifiedModel(s.account.User, info.Name)
		err = a.store().Update(ctx, func(c *clientstore.Contents) error {
			known := c.Models[s.name]
			if known.Models == nil {
				known.Models = make(map[string]clientstore.Model)
			}
			known.Models[name] = clientstore.Model{UUID: info.UUID, Type: "iaas"}
			if !*stay {
				known.Current = name
			}
			c.Models[s.name] = known
			return nil
		})
		if err != nil {
			return errors.Annotatef(err, "model %q is added, but cannot be noted", name)
		}
		fmt.Fprintf(a.stdout, "added model %s\n", name)
		return nil
	})
	return cmd
}

func (a *app) destroyModelCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "destroy-model NAME",
		Short: "Remove a model and all its machines",
		Long: `Remove a model and all its machines. On a terminal you are asked whether you
mean it, unless you say --yes.`,
		Example: `  slipway destroy-model staging
  slipway destroy-model staging --yes`,
		Args:              takes(1, 1),
		ValidArgsFunction: a.completeModels,
	}
	yes := cmd.Flags().BoolP("yes", "y", false, "do not ask")
	cmd.Flags().BoolVar(yes, "no-prompt", false, "the same as --yes")
	cmd.RunE = a.do(func(ctx context.Context, args []string) error {
		s, err := a.site()
		if err != nil {
			return err
		}
		c, err := a.findModel(ctx, s, args[0])
		if err != nil {
			return err
		}
		if !*yes {
			if err := a.confirm(fmt.Sprintf("Remove model %s and all its machines?", c.model)); err != nil {
				return err
			}
		}
		conn, err := a.open(ctx, s, "")
		if err != nil {
			return err
		}
		defer conn.Close() // nothing is under way
		if err := api.OneError(modelmanager.New(conn).Destroy(ctx, c.uuid)); err != nil {
			return saying(err, "cannot destroy model %q", c.model)
		}
		a.forget(ctx, c)
		fmt.Fprintf(a.stdout, "removing model %s\n", c.model)
		return nil
	})
	return cmd
}

func (a *app) switchCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "switch [CONTROLLER:][OWNER/]MODEL",
		Short: "Choose the current model",
		Example: `  slipway switch staging
  slipway switch other:admin/default
  slipway switch other:`,
		Args:              takes(1, 1),
		ValidArgsFunction: a.completeModels,
		RunE: a.do(func(ctx context.Context, args []string) error {
			name := args[0]
			if c, m, ok := strings.Cut(name, ":"); ok {
				a.controller, name = c, m
			}
			s, err := a.site()
			if err != nil {
				return err
			}
			current := s.models.Current
			if name != "" {
				c, err := a.findModel(ctx, s, name)
				if err != nil {
					return err
				}
				current = c.model
			}
			err = a.store().Update(ctx, func(c *clientstore.Contents) error {
				c.Current = s.name
				known := c.Models[s.name]
				known.Current = current
				c.Models[s.name] = known
				return nil
			})
			if err != nil {
				return err
			}
			fmt.Fprintf(a.stdout, "%s:%s\n", s.name, current)
			return nil
		}),
	}
}

// userID returns the user's name as the server writes it, or a usage error.
func userID(name string) (string, error) {
	if !tag.IsValidUser(name) {
		return "", usagef("%q is not a user name: use at least two letters, digits, dots or hyphens", name)
	}
	return strings.TrimSuffix(name, "@local"), nil
}
