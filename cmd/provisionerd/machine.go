package main

import (
	"context"
	"os"
	"time"

	"github.com/juju/errors"
	"github.com/spf13/cobra"

	"github.com/slipway-project/slipway/environs/lxd"
	"github.com/slipway-project/slipway/internal/command"
	"github.com/slipway-project/slipway/worker"
	"github.com/slipway-project/slipway/worker/containers"
	"github.com/slipway-project/slipway/worker/machineagent"
)

// machineCommand returns the command that is the agent of the machine it runs
// on.
func (a *app) machineCommand() *cobra.Command {
	var agentFile, lxdSocket string
	c := &cobra.Command{
		Use:   "machine",
		Short: "Be the agent of this machine",
		Long: `machine logs in to the controller as the machine in the agent file, replaces the
password in there by one of its own, reports the machine's addresses and that it
has started, and goes on until the machine has been removed. A controller that is
away, or refuses it, is waited for. If the machine has an LXD server, containers
in it are provisioned there; they are given this very program as their agent.

It exits with 0 when it is asked to stop, and when the machine's life has ended:
then there is nothing to start it again for.`,
		Example: `  provisionerd machine --agent-file /var/lib/slipway/agent.yaml`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if agentFile == "" {
				return command.Usagef("no agent file named: give --agent-file FILE")
			}
			if err := command.Logging(a.stderr, a.logging); err != nil {
				return err
			}
			return runMachine(cmd.Context(), agentFile, lxdSocket)
		},
	}
	c.Flags().StringVar(&agentFile, "agent-file", "", "identity to log in with (required)")
	c.Flags().StringVar(&lxdSocket, "lxd-socket", lxd.DefaultSocket, "socket of this machine's LXD server")
	return c
}

// runMachine runs the agent until ctx is done or the machine is dead.
func runMachine(ctx context.Context, agentFile, lxdSocket string) error {
	stopLogs, err := sendLogs(ctx, agentFile)
	if err != nil {
		return err
	}
	defer stopLogs()
	self, err := os.Executable()
	if err != nil {
		return errors.Annotate(err, "cannot find this program")
	}
	agent, err := machineagent.New(machineagent.Config{
		AgentFile: agentFile,
		Backoff:   worker.Backoff{Min: 250 * time.Millisecond, Max: 30 * time.Second},
		Serve:     containers.Serve(lxd.Local(lxdSocket, self)),
	})
	if err != nil {
		return errors.Trace(err)
	}
	stop := context.AfterFunc(ctx, agent.Kill)
	defer stop()
	return errors.Trace(agent.Wait())
}
