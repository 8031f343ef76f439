// Package command is what our commands have in common: how they are run, which
// code they exit with, and how they say in one line what went wrong.
package command

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/juju/errors"
	"github.com/juju/loggo"
	"github.com/spf13/cobra"

	"github.com/slipway-project/slipway/internal/buildinfo"
)

// The exit codes.
const (
	OK      = 0
	Failure = 1
	Usage   = 2 // it was called wrongly
	Timeout = 3 // it has waited for too long
)

// ErrUsage is the kind of an error of whoever typed the command.
const ErrUsage = errors.ConstError("wrong usage")

// ErrTimeout is the kind of an error of having waited for too long.
const ErrTimeout = errors.ConstError("timed out")

// Usagef returns an error of kind ErrUsage.
func Usagef(format string, args ...any) error {
	return errors.WithType(errors.Errorf(format, args...), ErrUsage)
}

// Main runs a command for a process, and returns what that exits with. The
// first SIGINT or SIGTERM ends the context, a second one the process.
func Main(run func(ctx context.Context, args []string, stdout, stderr io.Writer) error) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	return ExitCode(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// ExitCode returns what a process exits with after an error, or without one.
func ExitCode(err error) int {
	switch {
	case err == nil:
		return OK
	case errors.Is(err, ErrUsage):
		return Usage
	case errors.Is(err, ErrTimeout):
		return Timeout
	}
	return Failure
}

// Execute carries out a tree of commands. It prints the error, if there is one,
// in one line, before it returns it. Errors from before a command began are of
// kind ErrUsage.
func Execute(ctx context.Context, root *cobra.Command, args []string, stdout, stderr io.Writer) error {
	began := false
	prepare(root, &began)
	root.SilenceUsage, root.SilenceErrors = true, true
	root.SuggestionsMinimumDistance = 2
	root.Version = cmp.Or(root.Version, buildinfo.Version)
	root.SetVersionTemplate("{{.Name}} {{.Version}}\n")
	root.SetOut(stdout)
	root.SetErr(stderr)
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return nil
	}
	if !began {
		err = errors.WithType(err, ErrUsage) // cobra's own errors are all of this kind
	}
	line := shorten(strings.Join(strings.Fields(err.Error()), " "))
	if errors.Is(err, ErrUsage) {
		line += fmt.Sprintf(" (see %q)", cmd.CommandPath()+" --help")
	}
	fmt.Fprintln(stderr, "error: "+line)
	return err
}

// maxLine is how long the line about an error may be, in bytes, without the hint at its end.
const maxLine = 2000

// shorten takes out the middle of a line that is too long: what is wrong is said in front of
// a value that was repeated, and what would be right behind it.
func shorten(line string) string {
	if len(line) <= maxLine {
		return line
	}
	head, tail := line[:maxLine/2], line[len(line)-maxLine/2:]
	return strings.ToValidUTF8(head, "") + " ... " + strings.ToValidUTF8(tail, "")
}

// prepare has every command note that it began, and refuse arguments that it
// does not take.
func prepare(c *cobra.Command, began *bool) {
	if run := c.RunE; run != nil {
		c.RunE = func(cmd *cobra.Command, args []string) error {
			*began = true
			return run(cmd, args)
		}
	}
	if c.HasSubCommands() && c.RunE == nil && c.Args == nil {
		c.Args = unknown
		c.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	} else if c.Args == nil {
		c.Args = none
	}
	for _, sub := range c.Commands() {
		prepare(sub, began)
	}
}

// unknown refuses the name of a command that is not there.
func unknown(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	text := fmt.Sprintf("unknown command %q", args[0])
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		text += fmt.Sprintf("; did you mean %q?", near[0])
	}
	return Usagef("%s", text)
}

// none refuses arguments.
func none(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return Usagef("%s does not take %q: it takes flags only", cmd.Name(), args[0])
	}
	return nil
}

// LoggingConfig returns what is logged unless a flag says otherwise: what the
// variable SLIPWAY_LOGGING_CONFIG holds in the environment that getenv reads.
func LoggingConfig(getenv func(string) string) string {
	if config := getenv("SLIPWAY_LOGGING_CONFIG"); config != "" {
		return config
	}
	return "<root>=INFO"
}

// Logging has loggo write to stderr, as a configuration such as
// "<root>=INFO;slipway.rpc=TRACE" says.
func Logging(stderr io.Writer, config string) error {
	if _, err := loggo.ParseConfigString(config); err != nil {
		return Usagef("cannot log as %q says: give NAME=LEVEL;..., such as <root>=INFO", config)
	}
	loggo.ResetLogging()
	if err := loggo.RegisterWriter(loggo.DefaultWriterName, loggo.NewSimpleWriter(stderr, loggo.DefaultFormatter)); err != nil {
		return errors.Trace(err)
	}
	return errors.Trace(loggo.ConfigureLoggers(config))
}
