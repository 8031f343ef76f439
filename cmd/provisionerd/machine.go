package main

import (
	"context"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/juju/errors"
	"github.com/spf13/cobra"

	"github.com/slipway-project/slipway/api"
	"github.com/slipway-project/slipway/api/agentfile"
	"github.com/slipway-project/slipway/environs/lxd"
	"github.com/slipway-project/slipway/internal/buildinfo"
	"github.com/slipway-project/slipway/internal/command"
	"github.com/slipway-project/slipway/worker"
	"github.com/slipway-project/slipway/worker/containers"
	"github.com/slipway-project/slipway/worker/machineagent"
	"github.com/slipway-project/slipway/worker/upgrader"
)

// machineOptions are the flags of machine.
type machineOptions struct {
	agentFile, agentDir string
	lxdSocket           string
	upgradeDeadline     time.Duration
	trial               time.Duration // zero unless this is a trial
}

// machineCommand returns the command that is the agent of the machine it runs
// on.
func (a *app) machineCommand() *cobra.Command {
	var o machineOptions
	c := &cobra.Command{
		Use:   "machine",
		Short: "Be the agent of this machine",
		Long: `machine logs in to the controller as the machine in the agent file, replaces the
password in there by one of its own, reports the machine's addresses and that it
has started, and goes on until the machine has been removed. A controller that is
away, or refuses it, is waited for. If the machine has an LXD server, containers
in it are provisioned there; they are given this very program as their agent.

If it was started from DIR/agent/current, beside the agent file in DIR, it
replaces itself by another version when the operator says so ("slipway
upgrade-agents"), and goes back if that one does not log in.

It exits with 0 when it is asked to stop, and when the machine's life has ended:
then there is nothing to start it again for.`,
		Example: `  provisionerd machine --agent-file /var/lib/slipway/agent.yaml`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.agentFile == "" {
				return command.Usagef("no agent file named: give --agent-file FILE")
			}
			if o.upgradeDeadline < time.Second {
				return command.Usagef("--upgrade-deadline %v is too short: give 1s or more", o.upgradeDeadline)
			}
			if o.agentDir == "" {
				o.agentDir = filepath.Join(filepath.Dir(o.agentFile), "agent")
			}
			if err := command.Logging(a.stderr, a.logging); err != nil {
				return err
			}
			if o.trial > 0 {
				return tryMachine(cmd.Context(), o)
			}
			return runMachine(cmd.Context(), o)
		},
	}
	c.Flags().StringVar(&o.agentFile, "agent-file", "", "identity to log in with (required)")
	c.Flags().StringVar(&o.agentDir, "agent-dir", "", `folder with the agent's versions; empty means the folder "agent" beside the agent file`)
	c.Flags().StringVar(&o.lxdSocket, "lxd-socket", lxd.DefaultSocket, "socket of this machine's LXD server")
	c.Flags().DurationVar(&o.upgradeDeadline, "upgrade-deadline", upgrader.DefaultDeadline, "how long a new version of the agent may take to log in")
	c.Flags().DurationVar(&o.trial, "trial", 0, "log in once within this time, change nothing, and end")
	_ = c.Flags().MarkHidden("trial") // it is there
	return c
}

// config returns what the agent works with.
func (o machineOptions) config() machineagent.Config {
	return machineagent.Config{AgentFile: o.agentFile, Backoff: worker.Backoff{Min: 250 * time.Millisecond, Max: 30 * time.Second}}
}

// tryMachine logs in once: it is how a version of the agent is tried before it
// takes over.
func tryMachine(ctx context.Context, o machineOptions) error {
	ctx, cancel := context.WithTimeout(ctx, o.trial)
	defer cancel()
	return machineagent.Try(ctx, o.config())
}

// runMachine runs the agent until ctx is done or the machine is dead. If the
// agent is to be another version it replaces this program, and does not return.
func runMachine(ctx context.Context, o machineOptions) error {
	u, err := upgrader.New(upgrader.Config{
		Dir: o.agentDir, AgentFile: o.agentFile, Deadline: o.upgradeDeadline, Version: buildinfo.Version,
		Info: func() (api.Info, error) {
			f, err := agentfile.Read(o.agentFile)
			return f.Info(), err
		},
	})
	if err != nil {
		return errors.Trace(err)
	}
	err = u.Begin()
	if err == nil {
		err = runAgent(ctx, o, u)
	}
	if !errors.Is(err, worker.ErrRestart) || ctx.Err() != nil {
		return errors.Trace(err)
	}
	if err = replace(u.Program()); errors.Is(u.GoBack(err.Error()), worker.ErrRestart) {
		err = replace(u.Program())
	}
	return err
}

// replace has this process run another program with the same arguments. It
// returns only if that fails.
func replace(program string) error {
	args := append([]string{program}, os.Args[1:]...)
	return errors.Annotatef(syscall.Exec(program, args, os.Environ()), "cannot start %s", program)
}

// runAgent runs the agent until ctx is done, the machine is dead, or the agent is
// to be another version.
func runAgent(ctx context.Context, o machineOptions, u *upgrader.Upgrader) error {
	stopLogs, err := sendLogs(ctx, o.agentFile)
	if err != nil {
		return err
	}
	defer stopLogs()
	self, err := os.Executable()
	if err != nil {
		return errors.Annotate(err, "cannot find this program")
	}
	cfg := o.config()
	cfg.Serve = containers.Serve(lxd.Local(o.lxdSocket, self))
	cfg.LoggedIn = u.LoggedIn
	cfg.Upgrade = func(ctx context.Context, c machineagent.Connection, machineID string, tell func(string)) error {
		return u.Serve(ctx, c, machineID, tell)
	}
	agent, err := machineagent.New(cfg)
	if err != nil {
		return errors.Trace(err)
	}
	stop := context.AfterFunc(ctx, agent.Kill)
	defer stop()
	release := u.Guard(agent.Kill)
	defer release()
	err = agent.Wait()
	if back := u.Expired(); back != nil {
		return back
	}
	return errors.Trace(err)
}
