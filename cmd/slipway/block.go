package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/juju/errors"
	"github.com/spf13/cobra"

	"github.com/slipway-project/slipway/api/block"
	"github.com/slipway-project/slipway/api/controller"
	"github.com/slipway-project/slipway/params"
)

// blockKinds are the sets of commands that can be disabled, in the order in which
// they are shown, and what the controller calls them.
var blockKinds = []struct{ set, kind, what string }{
	{"destroy-model", "BlockDestroy", "destroy-model"},
	{"remove-object", "BlockRemove", "remove-machine"},
	{"all", "BlockChange", "every command that changes the model"},
}

// blockKind returns what the controller calls a set of commands.
func blockKind(set string) (string, error) {
	var sets []string
	for _, k := range blockKinds {
		if k.set == set {
			return k.kind, nil
		}
		sets = append(sets, k.set)
	}
	return "", usagef("%q is no set of commands: use %s", set, strings.Join(sets, ", "))
}

// hasBlock reports whether a block of a kind is among blocks.
func hasBlock(blocks []params.Block, kind string) bool {
	return slices.ContainsFunc(blocks, func(b params.Block) bool { return b.Type == kind })
}

// completeBlocks offers the sets of commands.
func completeBlocks(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	var sets []cobra.Completion
	for _, k := range blockKinds {
		if len(args) == 0 {
			sets = append(sets, cobra.CompletionWithDesc(k.set, k.what))
		}
	}
	return sets, cobra.ShellCompDirectiveNoFileComp
}

func (a *app) disableCommandCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "disable-command SET [MESSAGE...]",
		Short: "Keep people from changing the model, removing its machines, or destroying it",
		Long: `Disable a set of commands in the model, for everybody, until enable-command:

  destroy-model   the model is not destroyed
  remove-object   machines are not removed, unless by force
  all             nothing is changed, unless machines are removed by force

Whoever tries is told the message.`,
		Example: `  slipway disable-command remove-object until the audit is over
  slipway disable-command all`,
		Args:              takes(1, -1),
		ValidArgsFunction: completeBlocks,
		RunE: a.do(func(ctx context.Context, args []string) error {
			kind, err := blockKind(args[0])
			if err != nil {
				return err
			}
			conn, _, err := a.openModel(ctx)
			if err != nil {
				return err
			}
			defer conn.Close() // nothing is under way
			blocks := block.New(conn)
			if err := blocks.SwitchOn(ctx, kind, strings.Join(args[1:], " ")); err != nil {
				if known, lerr := blocks.List(ctx); lerr == nil && hasBlock(known, kind) {
					return errors.Errorf("%s is disabled already: for another message, enable it first", args[0])
				}
				return saying(err, "cannot disable %s", args[0])
			}
			fmt.Fprintf(a.stdout, "disabled %s\n", args[0])
			return nil
		}),
	}
}

func (a *app) enableCommandCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "enable-command SET",
		Short: "Let people do again what disable-command keeps them from",
		Long: `Enable a set of commands in the model again: destroy-model, remove-object or all
(see "slipway disable-command --help").`,
		Example:           `  slipway enable-command all`,
		Args:              takes(1, 1),
		ValidArgsFunction: completeBlocks,
		RunE: a.do(func(ctx context.Context, args []string) error {
			kind, err := blockKind(args[0])
			if err != nil {
				return err
			}
			conn, _, err := a.openModel(ctx)
			if err != nil {
				return err
			}
			defer conn.Close() // nothing is under way
			blocks := block.New(conn)
			if err := blocks.SwitchOff(ctx, kind); err != nil {
				if known, lerr := blocks.List(ctx); lerr == nil && !hasBlock(known, kind) {
					return errors.Errorf("%s is not disabled", args[0])
				}
				return saying(err, "cannot enable %s", args[0])
			}
			fmt.Fprintf(a.stdout, "enabled %s\n", args[0])
			return nil
		}),
	}
}

// blockView is a set of commands that is disabled, as people see it.
type blockView struct {
	Set     string `json:"command-set"`
	Message string `json:"message,omitempty"`
}

func (a *app) disabledCommandsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "disabled-commands", Short: "Show what disable-command keeps people from", Aliases: []string{"list-disabled-commands"},
		Example: `  slipway disabled-commands
  slipway disabled-commands --format json
  slipway disabled-commands --all`,
		Args: takes(0, 0),
	}
	all := cmd.Flags().Bool("all", false, "those of all models, for superusers")
	f := formatFlag(cmd)
	cmd.RunE = a.do(func(ctx context.Context, _ []string) error {
		if *all {
			return a.blockedModels(ctx, *f)
		}
		conn, _, err := a.openModel(ctx)
		if err != nil {
			return err
		}
		defer conn.Close() // nothing is under way
		on, err := block.New(conn).List(ctx)
		if err != nil {
			return saying(err, "cannot list disabled commands")
		}
		view := []blockView{}
		table := [][]string{{"Disabled", "Message"}}
		for _, k := range blockKinds {
			for _, b := range on {
				if b.Type == k.kind {
					view = append(view, blockView{k.set, b.Message})
					table = append(table, []string{k.set, b.Message})
				}
			}
		}
		return show(a.stdout, *f, map[string]any{"disabled-commands": view}, func(w io.Writer) {
			if len(on) == 0 {
				fmt.Fprintln(w, "no commands are disabled")
				return
			}
			rows(w, table)
		})
	})
	return cmd
}

// blockedModelView is a model with what is disabled in it, as people see it.
type blockedModelView struct {
	Name  string   `json:"name"`
	UUID  string   `json:"model-uuid"`
	Owner string   `json:"owner"`
	Sets  []string `json:"disabled-commands"`
}

// blockedModels shows what is disabled in all models.
func (a *app) blockedModels(ctx context.Context, f format) error {
	conn, _, err := a.openController(ctx)
	if err != nil {
		return err
	}
	defer conn.Close() // nothing is under way
	blocked, err := controller.New(conn).BlockedModels(ctx)
	if err != nil {
		return saying(err, "cannot list disabled commands")
	}
	view := []blockedModelView{}
	table := [][]string{{"Model", "UUID", "Owner", "Disabled"}}
	for _, m := range blocked {
		v := blockedModelView{Name: m.Name, UUID: m.UUID, Owner: strings.TrimPrefix(m.OwnerTag, "user-"), Sets: []string{}}
		for _, k := range blockKinds {
			if slices.Contains(m.Blocks, k.kind) {
				v.Sets = append(v.Sets, k.set)
			}
		}
		view = append(view, v)
		table = append(table, []string{v.Name, v.UUID, v.Owner, strings.Join(v.Sets, ", ")})
	}
	return show(a.stdout, f, map[string]any{"models": view}, func(w io.Writer) {
		if len(blocked) == 0 {
			fmt.Fprintln(w, "no commands are disabled in any model")
			return
		}
		rows(w, table)
	})
}
