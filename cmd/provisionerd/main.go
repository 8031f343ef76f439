// Command provisionerd starts and stops machines: it runs the provisioners of
// models, and can be a simulated data centre.
//
// It exits with 0 when all went well, 1 when something failed, and 2 when it was
// called wrongly. Logs go to standard error.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/juju/errors"
	"github.com/juju/loggo"
	"github.com/spf13/cobra"

	"github.com/slipway-project/slipway/core/tag"
	"github.com/slipway-project/slipway/environs/all"
	"github.com/slipway-project/slipway/environs/lxd"
	"github.com/slipway-project/slipway/internal/buildinfo"
	"github.com/slipway-project/slipway/internal/command"
	"github.com/slipway-project/slipway/internal/notify"
	"github.com/slipway-project/slipway/internal/site"
	"github.com/slipway-project/slipway/worker/lease"
)

var logger = loggo.GetLogger("slipway.cmd.provisionerd")

func main() { os.Exit(command.Main(run)) }

// run carries out one command.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	a := &app{stdout: stdout, stderr: stderr}
	return command.Execute(ctx, a.root(), args, stdout, stderr)
}

// app is one run of the command.
type app struct {
	stdout, stderr io.Writer
	logging        string
}

// root returns the whole tree of commands.
func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "provisionerd",
		Short: "Start and stop machines for a controller",
		Example: `  provisionerd model --agent-file machine-0.yaml
  provisionerd machine --agent-file /var/lib/slipway/agent.yaml
  provisionerd simrack --listen 127.0.0.1:17071 --data-dir ./rack`,
	}
	root.PersistentFlags().StringVar(&a.logging, "logging", command.LoggingConfig(os.Getenv), "what to log: NAME=LEVEL;...; by default what $SLIPWAY_LOGGING_CONFIG says")
	root.AddCommand(a.modelCommand(), a.machineCommand(), a.simrackCommand(), command.Manual(8, os.Getenv), &cobra.Command{
		Use: "version", Short: "Show the version",
		RunE: func(*cobra.Command, []string) error {
			fmt.Fprintln(a.stdout, "provisionerd", buildinfo.Version)
			return nil
		},
	})
	return root
}

// minSilence is the shortest time after which an installer counts as silent: the
// controller writes down a heartbeat every 25 s at most, and one may be lost.
const minSilence = time.Minute

// The bounds of what operators may set of hosts.
const (
	minPatience = 10 * time.Second
	maxPatience = 30 * time.Minute
	maxSlots    = 10_000
)

// checkModel returns an error about how the model command was called, or nil.
func checkModel(o site.ModelsOptions, h site.HostsOptions) error {
	if o.AgentFile == "" {
		return command.Usagef("no agent file named: give --agent-file FILE")
	}
	if o.Only != "" && !tag.IsValidUUID(o.Only) {
		return command.Usagef("--model %q is not a model's UUID: see \"slipway models\"", o.Only)
	}
	if o.Lease < time.Second || o.Lease > time.Minute {
		return command.Usagef("--lease %v is out of bounds: give 1s to 1m", o.Lease)
	}
	if h.Silence < minSilence || h.Silence > time.Hour {
		return command.Usagef("--installer-silence %v is out of bounds: give 1m to 1h", h.Silence)
	}
	if h.Boot < minSilence || h.Boot > 4*time.Hour {
		return command.Usagef("--installer-boot %v is out of bounds: give 1m to 4h", h.Boot)
	}
	if h.Patience < minPatience || h.Patience > maxPatience {
		return command.Usagef("--bmc-patience %v is out of bounds: give 10s to 30m", h.Patience)
	}
	if h.Slots < 1 || h.Slots > maxSlots {
		return command.Usagef("--installs-at-once %d is out of bounds: give 1 to 10000", h.Slots)
	}
	return nil
}

// modelCommand returns the command that runs provisioners.
func (a *app) modelCommand() *cobra.Command {
	o := site.ModelsOptions{}
	var lxdSocket, lxdAgent string
	var h site.HostsOptions
	var metal ironicFlags
	c := &cobra.Command{
		Use:   "model",
		Short: "Run the provisioners of all models, or of one",
		Long: `model logs in to the controller with the identity in the agent file, hears of
models and their machines, and starts and stops instances for them; it also cares
for the site's bare-metal hosts, unless it is there for one model. It goes on
until it is stopped; a controller that is away is waited for.

The first identity is DIR/agents/machine-0.yaml of the controller's data
directory; "slipway add-worker NAME --out FILE" makes others. Of several that run
at a time, one cares for each model, and the others stand by.`,
		Example: `  provisionerd model --agent-file /var/lib/slipway/agents/machine-0.yaml
  provisionerd model --agent-file /var/lib/slipway/agents/machine-0.yaml --ironic https://ironic.example.com:6385/v1 \
    --ironic-ca-file /etc/slipway/ironic-ca.pem --ironic-credentials-file /etc/slipway/ironic`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkModel(o, h); err != nil {
				return err
			}
			if err := command.Logging(a.stderr, a.logging); err != nil {
				return err
			}
			var err error
			if h.Ironic, err = metal.read(); err != nil {
				return err
			}
			o.Registry = all.Registry(all.Backends{LXD: lxd.Local(lxdSocket, lxdAgent)})
			h.AgentFile, h.Lease = o.AgentFile, o.Lease
			return runModels(cmd.Context(), o, h)
		},
	}
	c.Flags().StringVar(&o.AgentFile, "agent-file", "", "identity to log in with (required)")
	c.Flags().StringVar(&o.Only, "model", "", "UUID of the only model to care for")
	c.Flags().DurationVar(&o.Lease, "lease", lease.DefaultDuration, "how long after its death another worker takes over, 1s to 1m")
	metal.add(c.Flags())
	c.Flags().DurationVar(&h.Silence, "installer-silence", 2*time.Minute, "how long an installer may be silent before its machine is started again, 1m to 1h")
	c.Flags().DurationVar(&h.Boot, "installer-boot", 30*time.Minute, "how long a machine may take to boot into the installer before it is started again, 1m to 4h")
	c.Flags().DurationVar(&h.Patience, "bmc-patience", 2*time.Minute, "how long a BMC may take for anything, 10s to 30m; a process that dies leaves hosts that it was at work on alone for twice that")
	c.Flags().IntVar(&h.Slots, "installs-at-once", 20, "how many hosts may write images at one time")
	c.Flags().StringVar(&lxdSocket, "lxd-socket", lxd.DefaultSocket, "socket of this machine's LXD server, for models of type lxd that name no servers")
	c.Flags().StringVar(&lxdAgent, "lxd-agent", "", "static provisionerd that is put into LXD containers; empty means that they download theirs")
	return c
}

// tell tells the manager of this service, if there is one, how the service is.
func tell(state string) {
	if err := notify.Send(os.Getenv, state); err != nil {
		logger.Warningf("%v", err)
	}
}

// runModels runs provisioners until ctx is done or the controller refuses, and
// cares for the site's bare-metal hosts unless it is there for one model only.
func runModels(ctx context.Context, o site.ModelsOptions, h site.HostsOptions) error {
	stopLogs, err := sendLogs(ctx, o.AgentFile)
	if err != nil {
		return err
	}
	defer stopLogs()
	w, err := site.StartModels(o)
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() {
		tell(notify.Stopping)
		w.Kill()
	})
	defer stop()
	tell(notify.Ready)
	if o.Only != "" {
		return errors.Trace(w.Wait())
	}
	hosts, err := site.StartHosts(h)
	if err != nil {
		w.Kill()
		_ = w.Wait() // the first failure is told
		return err
	}
	stopHosts := context.AfterFunc(ctx, hosts.Kill)
	defer stopHosts()
	failed := make(chan error, 1)
	go func() { // ends with the host keeper, which is waited for
		err := hosts.Wait()
		w.Kill()
		failed <- err
	}()
	err = w.Wait()
	hosts.Kill()
	if herr := <-failed; err == nil {
		err = herr
	}
	return errors.Trace(err)
}
