package command

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/juju/errors"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/slipway-project/slipway/internal/buildinfo"
)

// Manual returns the hidden command that writes the manual pages of a program,
// one for each of its commands, into a folder. They are of section 1, for people,
// or 8, for administrators, and bear the date that SOURCE_DATE_EPOCH says in the
// environment that getenv reads.
func Manual(section int, getenv func(string) string) *cobra.Command {
	return &cobra.Command{
		Use: "manual DIR", Short: "Write the manual pages of this program", Hidden: true, Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			seconds, err := strconv.ParseInt(getenv("SOURCE_DATE_EPOCH"), 10, 64)
			if err != nil {
				return Usagef("SOURCE_DATE_EPOCH is not set: give the pages' date, in seconds since 1970")
			}
			return writeManual(cmd.Root(), section, time.Unix(seconds, 0).UTC(), args[0])
		},
	}
}

// writeManual writes the page of a command, and those of the ones below it.
func writeManual(c *cobra.Command, section int, date time.Time, dir string) error {
	c.InitDefaultHelpFlag()
	if !c.HasParent() {
		c.InitDefaultHelpCmd()
		c.InitDefaultCompletionCmd()
	}
	path := filepath.Join(dir, fmt.Sprintf("%s.%d", pageName(c), section))
	if err := os.WriteFile(path, page(c, section, date), 0o644); err != nil {
		return errors.Annotate(err, "cannot write manual page")
	}
	for _, sub := range c.Commands() {
		if !sub.IsAvailableCommand() || sub.Name() == "help" {
			continue
		}
		if err := writeManual(sub, section, date, dir); err != nil {
			return err
		}
	}
	return nil
}

func pageName(c *cobra.Command) string { return strings.ReplaceAll(c.CommandPath(), " ", "-") }

// page returns a page in the language of man(7).
func page(c *cobra.Command, section int, date time.Time) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, ".TH %s %d %s \"Slipway %s\" \"Slipway manual\"\n",
		strings.ToUpper(roff(pageName(c))), section, date.Format(time.DateOnly), buildinfo.Version)
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n", roff(pageName(c)), roff(c.Short))
	fmt.Fprintf(&b, ".SH SYNOPSIS\n.B %s\n", roff(c.UseLine()))
	b.WriteString(".SH DESCRIPTION\n")
	paragraphs(&b, firstText(c.Long, c.Short+"."))
	options(&b, "OPTIONS", c.NonInheritedFlags())
	options(&b, "GLOBAL OPTIONS", c.InheritedFlags())
	if c.Example != "" {
		fmt.Fprintf(&b, ".SH EXAMPLES\n.nf\n%s\n.fi\n", roff(c.Example))
	}
	seeAlso(&b, c, section)
	return b.Bytes()
}

func firstText(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// paragraphs writes text whose paragraphs are parted by empty lines.
func paragraphs(b *bytes.Buffer, text string) {
	for i, p := range strings.Split(strings.TrimSpace(text), "\n\n") {
		if i > 0 {
			b.WriteString(".PP\n")
		}
		if strings.HasPrefix(p, "  ") || strings.HasPrefix(p, "\t") { // set as it is
			fmt.Fprintf(b, ".nf\n%s\n.fi\n", roff(p))
			continue
		}
		b.WriteString(roff(p) + "\n")
	}
}

// options writes flags, if there are any to see.
func options(b *bytes.Buffer, title string, flags *pflag.FlagSet) {
	if !flags.HasAvailableFlags() {
		return
	}
	b.WriteString(".SH " + title + "\n")
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		name := "--" + f.Name
		if f.Shorthand != "" {
			name = "-" + f.Shorthand + ", " + name
		}
		kind, usage := pflag.UnquoteUsage(f)
		if kind != "" {
			kind = ` \fI` + roff(kind) + `\fR`
		}
		if f.DefValue != "" && f.DefValue != "false" && f.DefValue != "0" && f.DefValue != "[]" && f.DefValue != "0s" {
			usage += " (default " + f.DefValue + ")"
		}
		fmt.Fprintf(b, ".TP\n\\fB%s\\fR%s\n%s\n", roff(name), kind, roff(usage))
	})
}

// seeAlso names the pages above and below.
func seeAlso(b *bytes.Buffer, c *cobra.Command, section int) {
	var names []string
	if c.HasParent() {
		names = append(names, pageName(c.Parent()))
	}
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() && sub.Name() != "help" {
			names = append(names, pageName(sub))
		}
	}
	if len(names) == 0 {
		return
	}
	b.WriteString(".SH SEE ALSO\n")
	for i, name := range names {
		comma := ","
		if i == len(names)-1 {
			comma = ""
		}
		fmt.Fprintf(b, ".BR %s (%d)%s\n", roff(name), section, comma)
	}
}

// roff returns text that stands for itself. See groff_char(7).
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, `-`, `\-`, "\t", "    ").Replace(strings.TrimRight(text, "\n"))
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			lines[i] = `\&` + line
		}
	}
	return strings.Join(lines, "\n")
}
