package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/juju/errors"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/slipway-project/slipway/core/kind"
	"github.com/slipway-project/slipway/internal/buildinfo"
	"github.com/slipway-project/slipway/internal/command"
	"github.com/slipway-project/slipway/internal/printable"
)

// The exit codes.
const (
	exitOK      = 0
	exitFailure = 1
	exitUsage   = 2
	exitTimeout = 3
)

// errUsage is the kind of an error of whoever typed the command.
const errUsage = errors.ConstError("wrong usage")

// errTimeout is the kind of an error of having waited for too long.
const errTimeout = errors.ConstError("timed out")

// usagef returns an error of kind errUsage.
func usagef(format string, args ...any) error {
	return errors.WithType(errors.Errorf(format, args...), errUsage)
}

// saying adds what was being done to an error, unless the server has said so.
func saying(err error, format string, args ...any) error {
	if err == nil || strings.HasPrefix(err.Error(), "cannot ") {
		return errors.Trace(err)
	}
	return errors.Annotatef(err, format, args...)
}

// app is one run of the command.
type app struct {
	stdin  io.Reader
	stdout io.Writer
	stderr io.Writer
	env    func(string) string
	now    func() time.Time

	controller string // flag -c
	model      string // flag -m
	began      bool   // whether a command was called rightly, and has begun
}

// run carries out one command. It prints its error, if it has one, before it
// returns it.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer, env func(string) string) error {
	a := &app{stdin: stdin, stdout: newScreen(stdout), stderr: newScreen(stderr), env: env, now: time.Now}
	root := a.root()
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return nil
	}
	if !a.began {
		err = errors.WithType(err, errUsage) // cobra's own errors are all of this kind
	}
	line := strings.Join(strings.Fields(err.Error()), " ")
	switch {
	case ctx.Err() != nil:
		line = "interrupted"
	case errors.Is(err, kind.ActionBlocked):
		line += ` (see "slipway disabled-commands")`
	case errors.Is(err, errUsage):
		line += fmt.Sprintf(" (see %q)", cmd.CommandPath()+" --help")
	}
	fmt.Fprintln(a.stderr, "error: "+line)
	return err
}

// exitCode returns what the process exits with after run.
func exitCode(err error) int {
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, errUsage):
		return exitUsage
	case errors.Is(err, errTimeout):
		return exitTimeout
	}
	return exitFailure
}

// root returns the whole tree of commands.
func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "slipway",
		Short: "Add machines and see them become running ones",
		Long: `slipway asks a Slipway controller for machines, shows what becomes of them, and
removes them.

What it knows of controllers, accounts and models is in $SLIPWAY_DATA, by
default ~/.local/share/slipway. The controller lays these files down when it is
made: copy its client folder, or let SLIPWAY_DATA point there.`,
		Example: `  slipway add-machine -n 3 --constraints "mem=4G cores=2"
  slipway status --watch
  slipway wait --all --for started --timeout 10m
  slipway remove-machine 2`,
		Version:       buildinfo.Version,
		SilenceUsage:  true,
		SilenceErrors: true,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			text := fmt.Sprintf("unknown command %q", args[0])
			if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
				text += fmt.Sprintf("; did you mean %q?", near[0])
			}
			return usagef("%s", text)
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SuggestionsMinimumDistance = 2
	root.SetIn(a.stdin)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	root.PersistentFlags().StringVarP(&a.controller, "controller", "c", "", "controller to use instead of the current one")
	root.PersistentFlags().StringVarP(&a.model, "model", "m", "", "model to use instead of the current one: [CONTROLLER:][OWNER/]NAME or a UUID")
	root.AddCommand(
		a.statusCommand(), a.machinesCommand(), a.showMachineCommand(), a.showStatusLogCommand(), a.debugLogCommand(),
		a.addMachineCommand(), a.removeMachineCommand(), a.retryProvisioningCommand(), a.waitCommand(),
		a.modelConfigCommand(), a.modelsCommand(), a.addModelCommand(), a.destroyModelCommand(), a.switchCommand(),
		a.addUserCommand(), a.changeUserPasswordCommand(), a.usersCommand(), a.disableUserCommand(), a.enableUserCommand(),
		a.grantCommand(), a.revokeCommand(),
		a.addWorkerCommand(), a.removeWorkerCommand(),
		a.hostsCommand(), a.showHostCommand(), a.addHostCommand(), a.removeHostCommand(), a.hostCommand(),
		a.importHostsCommand(), a.exportHostsCommand(),
		a.addSpaceCommand(), a.addSubnetCommand(), a.spacesCommand(), a.subnetsCommand(),
		a.createStoragePoolCommand(), a.storagePoolsCommand(), a.removeStoragePoolCommand(),
		a.disableCommandCommand(), a.enableCommandCommand(), a.disabledCommandsCommand(),
		a.annotateCommand(), a.annotationsCommand(),
		a.sshKeysCommand(), a.addSSHKeyCommand(), a.removeSSHKeyCommand(),
		a.imageMetadataCommand(), a.uploadAgentCommand(), a.upgradeAgentsCommand(), a.controllerConfigCommand(),
		a.versionCommand(), command.Manual(1, a.env),
	)
	root.InitDefaultCompletionCmd()
	for _, cmd := range root.Commands() {
		if cmd.Name() == "completion" { // cobra's own shows its help for a shell that it does not know
			cmd.RunE = func(cmd *cobra.Command, args []string) error {
				if len(args) > 0 {
					return usagef("unknown shell %q: want bash, zsh, fish or powershell", args[0])
				}
				return cmd.Help()
			}
			cmd.Args = cobra.ArbitraryArgs
		}
	}
	return root
}

// do makes a function into what cobra runs.
func (a *app) do(f func(ctx context.Context, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		a.began = true
		return f(cmd.Context(), args)
	}
}

// takes returns a check of the number of arguments; most of -1 is any number.
func takes(least, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		_, want, _ := strings.Cut(cmd.Use, " ")
		if want == "" {
			want = "no arguments"
		}
		if len(args) < least {
			return usagef("%s is missing something: it takes %s", cmd.Name(), want)
		}
		if most >= 0 && len(args) > most {
			return usagef("%s does not take %q: it takes %s", cmd.Name(), args[most], want)
		}
		return nil
	}
}

// screen is where people read. What others have sent does nothing to it but to be
// read: machines, BMCs and other people choose much of what is shown.
type screen struct {
	*printable.Writer
	bare io.Writer
}

func newScreen(w io.Writer) *screen { return &screen{printable.NewWriter(w), w} }

// bare returns what is behind a screen, for what is to move the cursor.
func bare(w io.Writer) io.Writer {
	if s, ok := w.(*screen); ok {
		return s.bare
	}
	return w
}

// isTerminal reports whether a stream is one.
func isTerminal(stream any) bool {
	if s, ok := stream.(*screen); ok {
		stream = s.bare
	}
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
