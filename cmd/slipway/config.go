package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/juju/errors"
	"github.com/spf13/cobra"

	"github.com/slipway-project/slipway/api/modelconfig"
	"github.com/slipway-project/slipway/params"
)

func (a *app) modelConfigCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "model-config [KEY | KEY=VALUE...]",
		Short: "Show or change the settings of the model",
		Long: `Show or change the settings of the model. Secrets are set, but never shown.

KEY=@FILE takes the value from a file, and KEY=@- from the standard input, so
that a secret is no argument; KEY=@@... sets a value that begins with one @.`,
		Example: `  slipway model-config
  slipway model-config provisioner-harvest-mode
  slipway model-config http-proxy=http://proxy:3128 num-provision-workers=8
  slipway model-config authorized-keys=@$HOME/.ssh/id_ed25519.pub
  slipway model-config --reset http-proxy,apt-mirror`,
		Args: takes(0, -1),
	}
	f := formatFlag(cmd)
	reset := cmd.Flags().StringSlice("reset", nil, "settings that get their defaults back")
	cmd.RunE = a.do(func(ctx context.Context, args []string) error {
		if len(*reset) > 0 || len(args) > 0 && strings.Contains(args[0], "=") {
			return a.changeModelConfig(ctx, args, *reset)
		}
		if len(args) > 1 {
			return usagef("model-config shows all settings or one: it does not take %q", args[1])
		}
		return a.showModelConfig(ctx, *f, args)
	})
	return cmd
}

// maxSetting bounds what is read of a setting's file, in bytes.
const maxSetting = 1 << 20

// settings reads KEY=VALUE texts, each key once. A value that begins with @ is
// the name of a file that holds the value, so that a secret need not be an
// argument; @- is the standard input, and @@ begins a value with one @.
func (a *app) settings(texts []string) (map[string]any, error) {
	out := make(map[string]any, len(texts))
	for _, text := range texts {
		key, value, ok := strings.Cut(text, "=")
		if !ok || key == "" {
			return nil, usagef("%q is not a setting: use KEY=VALUE", text)
		}
		if _, ok := out[key]; ok {
			return nil, usagef("setting %q is given twice", key)
		}
		value, err := a.readSetting(value)
		if err != nil {
			return nil, errors.Annotatef(err, "cannot read setting %q", key)
		}
		out[key] = value
	}
	return out, nil
}

// readSetting returns the value that was typed, or that of the file which was,
// without the last line's end.
func (a *app) readSetting(typed string) (string, error) {
	file, isFile := strings.CutPrefix(typed, "@")
	if !isFile || strings.HasPrefix(file, "@") {
		return file, nil
	}
	from := a.stdin
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return "", errors.Trace(err)
		}
		defer f.Close() // only read
		from = f
	}
	text, err := io.ReadAll(io.LimitReader(from, maxSetting+1))
	if err != nil {
		return "", errors.Trace(err)
	}
	if len(text) > maxSetting {
		return "", errors.Errorf("%s is longer than %d bytes", file, maxSetting)
	}
	return strings.TrimRight(string(text), "\r\n"), nil
}

// changeModelConfig sets and resets settings.
func (a *app) changeModelConfig(ctx context.Context, args, reset []string) error {
	settings, err := a.settings(args)
	if err != nil {
		return err
	}
	for _, key := range reset {
		if _, ok := settings[key]; ok {
			return usagef("setting %q is both set and reset", key)
		}
	}
	conn, _, err := a.openModel(ctx)
	if err != nil {
		return err
	}
	defer conn.Close() // nothing is under way
	client := modelconfig.New(conn)
	if len(settings) > 0 {
		if err := client.Set(ctx, settings); err != nil {
			return saying(err, "cannot change settings")
		}
	}
	if len(reset) > 0 {
		if err := client.Unset(ctx, reset...); err != nil {
			return saying(err, "cannot reset settings")
		}
	}
	return nil
}

// showModelConfig shows all settings, or the one that is named.
func (a *app) showModelConfig(ctx context.Context, f format, args []string) error {
	conn, _, err := a.openModel(ctx)
	if err != nil {
		return err
	}
	defer conn.Close() // nothing is under way
	config, err := modelconfig.New(conn).Get(ctx)
	if err != nil {
		return saying(err, "cannot get settings")
	}
	if len(args) == 0 {
		return show(a.stdout, f, config, func(w io.Writer) { configTable(w, config) })
	}
	value, ok := config[args[0]]
	if !ok {
		return errors.NewNotFound(nil, fmt.Sprintf("setting %q is not there, or is a secret and never shown: \"slipway model-config\" shows the others", args[0]))
	}
	return show(a.stdout, f, value.Value, func(w io.Writer) { fmt.Fprintln(w, textOf(value.Value)) })
}

// configTable writes settings for people.
func configTable(w io.Writer, config map[string]params.ConfigValue) {
	table := [][]string{{"Setting", "From", "Value"}}
	for _, key := range slices.Sorted(maps.Keys(config)) {
		table = append(table, []string{key, config[key].Source, textOf(config[key].Value)})
	}
	rows(w, table)
}

// textOf returns a setting as one would type it. Line breaks are spelled out.
func textOf(value any) string {
	switch v := value.(type) {
	case nil:
		return ""
	case string:
		return strings.ReplaceAll(v, "\n", `\n`)
	}
	text, err := json.Marshal(value)
	if err != nil {
		return fmt.Sprint(value) // not reached: it came as JSON
	}
	return string(text)
}
