package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/juju/errors"
	"github.com/spf13/cobra"
	"gopkg.in/yaml.v3"

	"github.com/slipway-project/slipway/internal/printable"
)

// format is the value of a --format flag.
type format string

const (
	tabular    format = "tabular"
	jsonFormat format = "json"
	yamlFormat format = "yaml"
)

// String returns the format's name.
func (f *format) String() string { return string(*f) }

// Type is what help calls the value.
func (f *format) Type() string { return "tabular|json|yaml" }

// Set sets the format by its name.
func (f *format) Set(name string) error {
	switch format(name) {
	case tabular, jsonFormat, yamlFormat:
		*f = format(name)
		return nil
	}
	return errors.New("use tabular, json or yaml")
}

// formatFlag gives a command the flag.
func formatFlag(cmd *cobra.Command) *format {
	f := tabular
	cmd.Flags().Var(&f, "format", "how to show it")
	// Refused only for a flag that does not exist.
	_ = cmd.RegisterFlagCompletionFunc("format", cobra.FixedCompletions([]string{string(tabular), string(jsonFormat), string(yamlFormat)}, cobra.ShellCompDirectiveNoFileComp))
	return &f
}

// show writes value in a format; table writes it as people like it.
func show(w io.Writer, f format, value any, table func(io.Writer)) error {
	switch f {
	case jsonFormat:
		var text bytes.Buffer
		e := json.NewEncoder(&text)
		e.SetIndent("", "  ")
		e.SetEscapeHTML(false)
		if err := e.Encode(value); err != nil {
			return errors.Trace(err)
		}
		_, err := w.Write(printable.JSON(text.Bytes()))
		return errors.Trace(err)
	case yamlFormat:
		return showYAML(w, value)
	}
	table(w)
	return nil
}

// showYAML writes value with the keys and the order that it has in JSON.
func showYAML(w io.Writer, value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return errors.Trace(err)
	}
	var node yaml.Node // JSON is YAML, but for control characters
	if err := yaml.Unmarshal(printable.JSON(text), &node); err != nil {
		return errors.Trace(err)
	}
	plain(&node)
	e := yaml.NewEncoder(w)
	e.SetIndent(2)
	return errors.Trace(e.Encode(&node))
}

// plain takes the marks of JSON's spelling off a node. Text that would read as
// something else, such as "2", keeps its quotes.
func plain(n *yaml.Node) {
	n.Style = 0
	if len(n.Content) == 0 && n.Kind != yaml.ScalarNode {
		n.Style = yaml.FlowStyle // {} and []
	}
	for _, child := range n.Content {
		plain(child)
	}
}

// entry is one member of an ordered object.
type entry[T any] struct {
	key   string
	value T
}

// ordered is an object whose members keep their order.
type ordered[T any] []entry[T]

// MarshalJSON writes an object.
func (o ordered[T]) MarshalJSON() ([]byte, error) {
	var out bytes.Buffer
	out.WriteByte('{')
	for i, e := range o {
		if i > 0 {
			out.WriteByte(',')
		}
		key, err := json.Marshal(e.key)
		if err != nil {
			return nil, err
		}
		value, err := json.Marshal(e.value)
		if err != nil {
			return nil, err
		}
		out.Write(key)
		out.WriteByte(':')
		out.Write(value)
	}
	out.WriteByte('}')
	return out.Bytes(), nil
}

// rows writes a table: a row of headings, then the others. Cells that are empty
// at the end of a row leave no blanks. A cell is one line, whatever is in it.
func rows(w io.Writer, table [][]string) {
	var text strings.Builder
	tw := tabwriter.NewWriter(&text, 0, 8, 2, ' ', 0)
	for _, row := range table {
		for i, cell := range row {
			if i > 0 {
				_, _ = io.WriteString(tw, "\t") // a Builder takes everything
			}
			_, _ = io.WriteString(tw, printable.Line(cell))
		}
		fmt.Fprintln(tw)
	}
	_ = tw.Flush() // a Builder takes everything
	for line := range strings.Lines(text.String()) {
		fmt.Fprintln(w, strings.TrimRight(line, " \n"))
	}
}
