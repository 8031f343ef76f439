package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/slipway-project/slipway/api/controller"
)

// featuresKey is the setting of a site that lists what is switched on.
const featuresKey = "features"

func (a *app) controllerConfigCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "controller-config [features=NAME,...]",
		Short: "Show the settings of the whole site, or switch features on and off",
		Long: `Show the settings of the whole site, or switch features on and off, which takes a
superuser. The features that are named are on, and all others are off:

  address-allocation   containers are given addresses from the ranges of subnets`,
		Example: `  slipway controller-config
  slipway controller-config features=address-allocation
  slipway controller-config features=`,
		Args: takes(0, 1),
	}
	f := formatFlag(cmd)
	cmd.RunE = a.do(func(ctx context.Context, args []string) error {
		list := []any{}
		if len(args) > 0 {
			key, value, found := strings.Cut(args[0], "=")
			if !found || key != featuresKey {
				return usagef("%q is none of the settings that can be changed: use %s=NAME,...", args[0], featuresKey)
			}
			for _, name := range strings.Split(value, ",") {
				if name != "" {
					list = append(list, name)
				}
			}
		}
		conn, _, err := a.openController(ctx)
		if err != nil {
			return err
		}
		defer conn.Close() // nothing is under way
		if len(args) > 0 {
			return saying(controller.New(conn).SetConfig(ctx, map[string]any{featuresKey: list}), "cannot change the site's settings")
		}
		settings, err := controller.New(conn).Config(ctx)
		if err != nil {
			return saying(err, "cannot get the site's settings")
		}
		table := [][]string{{"Setting", "Value"}}
		for _, key := range slices.Sorted(maps.Keys(settings)) {
			text := strings.TrimSpace(fmt.Sprint(settings[key]))
			if first, _, more := strings.Cut(text, "\n"); more {
				text = first + " ..."
			}
			table = append(table, []string{key, text})
		}
		return show(a.stdout, *f, settings, func(w io.Writer) { rows(w, table) })
	})
	return cmd
}
