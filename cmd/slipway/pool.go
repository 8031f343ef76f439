package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/slipway-project/slipway/api/storage"
	corestorage "github.com/slipway-project/slipway/core/storage"
	"github.com/slipway-project/slipway/params"
)

func (a *app) createStoragePoolCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "create-storage-pool NAME PROVIDER [KEY=VALUE...]",
		Short: "Give a type of storage with settings a name",
		Long: `Make a storage pool: a type of storage (what the provider of the model calls it)
with settings, under a name. Machines get volumes in it with
add-machine --disks NAME,SIZE, and the provider is told the settings, whose meaning
is its own. KEY=@FILE takes the value from a file.`,
		Example: `  slipway create-storage-pool fast static type=ssd
  slipway add-machine --disks fast,2,100G`,
		Args: takes(2, -1),
		RunE: a.do(func(ctx context.Context, args []string) error {
			attrs, err := a.settings(args[2:])
			if err != nil {
				return err
			}
			pool := params.StoragePool{Name: args[0], Provider: args[1], Attrs: attrs}
			if err := corestorage.Pool(pool).Check(); err != nil {
				return usagef("%v", err)
			}
			conn, _, err := a.openModel(ctx)
			if err != nil {
				return err
			}
			defer conn.Close() // nothing is under way
			if err := storage.New(conn).CreatePool(ctx, pool); err != nil {
				return saying(err, "cannot create storage pool %q", args[0])
			}
			fmt.Fprintf(a.stdout, "created storage pool %s\n", args[0])
			return nil
		}),
	}
}

func (a *app) removeStoragePoolCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "remove-storage-pool NAME",
		Short: "Remove a storage pool that no volume is in",
		Long: `Remove a storage pool. It is refused while a machine of the model has a volume in
it.`,
		Example:           `  slipway remove-storage-pool fast`,
		Args:              takes(1, 1),
		ValidArgsFunction: a.completePools,
		RunE: a.do(func(ctx context.Context, args []string) error {
			conn, _, err := a.openModel(ctx)
			if err != nil {
				return err
			}
			defer conn.Close() // nothing is under way
			if err := storage.New(conn).RemovePool(ctx, args[0]); err != nil {
				return saying(err, "cannot remove storage pool %q", args[0])
			}
			fmt.Fprintf(a.stdout, "removed storage pool %s\n", args[0])
			return nil
		}),
	}
}

// poolView is a storage pool as people see it.
type poolView struct {
	Name     string         `json:"name"`
	Provider string         `json:"provider"`
	Attrs    map[string]any `json:"attrs"`
}

func (a *app) storagePoolsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "storage-pools [NAME...]", Short: "Show the storage pools of the model", Aliases: []string{"list-storage-pools"},
		Example: `  slipway storage-pools
  slipway storage-pools --provider static --format yaml`,
		Args: takes(0, -1), ValidArgsFunction: a.completePools,
	}
	providers := cmd.Flags().StringSlice("provider", nil, "only those of a type of storage; may be repeated")
	f := formatFlag(cmd)
	cmd.RunE = a.do(func(ctx context.Context, args []string) error {
		pools, err := a.pools(ctx, params.StoragePoolFilter{Names: args, Providers: *providers})
		if err != nil {
			return err
		}
		view := make([]poolView, len(pools))
		table := [][]string{{"Name", "Provider", "Settings"}}
		for i, p := range pools {
			view[i] = poolView(p)
			if view[i].Attrs == nil {
				view[i].Attrs = map[string]any{}
			}
			var texts []string
			for _, key := range slices.Sorted(maps.Keys(p.Attrs)) {
				texts = append(texts, fmt.Sprintf("%s=%v", key, p.Attrs[key]))
			}
			table = append(table, []string{p.Name, p.Provider, strings.Join(texts, " ")})
		}
		return show(a.stdout, *f, map[string]any{"storage-pools": view}, func(w io.Writer) { rows(w, table) })
	})
	return cmd
}

// pools asks for storage pools.
func (a *app) pools(ctx context.Context, f params.StoragePoolFilter) ([]params.StoragePool, error) {
	conn, _, err := a.openModel(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Close() // nothing is under way
	pools, err := storage.New(conn).Pools(ctx, f)
	return pools, saying(err, "cannot list storage pools")
}

// completePools offers the names of storage pools.
func (a *app) completePools(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	ctx, cancel := completionContext(cmd)
	defer cancel()
	pools, err := a.pools(ctx, params.StoragePoolFilter{})
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []cobra.Completion
	for _, p := range pools {
		if !slices.Contains(args, p.Name) {
			names = append(names, cobra.CompletionWithDesc(p.Name, p.Provider))
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
