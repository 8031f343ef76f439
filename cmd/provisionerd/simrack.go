package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/juju/errors"
	"github.com/spf13/cobra"

	"github.com/slipway-project/slipway/environs/simulated"
	"github.com/slipway-project/slipway/internal/command"
	"github.com/slipway-project/slipway/internal/patience"
	"github.com/slipway-project/slipway/worker/simulatedhost"
)

// simrackCommand returns the command that is a simulated data centre.
func (a *app) simrackCommand() *cobra.Command {
	var o rackOptions
	c := &cobra.Command{
		Use:   "simrack",
		Short: "Be a simulated data centre",
		Long: `simrack runs simulated machines, whose agents really log in to the controller
that they were started for. What it runs is kept in the data directory and runs
again at the next start.

Models use it with the settings rack-url=http://HOST:PORT and rack-token, which
is in DIR/rack.token. When it serves it prints "ready HOST:PORT".`,
		Example: `  provisionerd simrack --listen 127.0.0.1:17071 --data-dir ./rack
  slipway model-config rack-url=http://127.0.0.1:17071 rack-token=@./rack/rack.token
  provisionerd simrack fault --url http://127.0.0.1:17071 --data-dir ./rack --machine 3 --times 2`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.listen == "" || o.dataDir == "" {
				return command.Usagef("something is missing: give --listen HOST:PORT and --data-dir DIR")
			}
			if err := command.Logging(a.stderr, a.logging); err != nil {
				return err
			}
			return a.simrack(cmd.Context(), o)
		},
	}
	c.Args = cobra.NoArgs
	c.Flags().StringVar(&o.listen, "listen", "", "HOST:PORT to serve on; port 0 takes any (required)")
	c.Flags().StringVar(&o.dataDir, "data-dir", "", "folder that keeps what runs (required)")
	c.Flags().BoolVar(&o.fast, "fast", false, "make every delay zero")
	c.AddCommand(a.faultCommand())
	return c
}

// rackOptions are the flags of simrack.
type rackOptions struct {
	listen, dataDir string
	fast            bool
}

// simrack serves a rack until ctx is done.
func (a *app) simrack(ctx context.Context, o rackOptions) error {
	options := simulated.Options{DataDir: o.dataDir, Agent: simulated.NewAgent(simulated.AgentOptions{Containers: simulatedhost.Run})}
	if o.fast {
		options.Behaviour = &simulated.Behaviour{}
	}
	token, err := simulated.Token(o.dataDir)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", o.listen)
	if err != nil {
		return errors.Annotatef(err, "cannot listen on %s", o.listen)
	}
	defer listener.Close()
	rack, err := simulated.NewRack(options)
	if err != nil {
		return err
	}
	defer rack.Close()
	server := &http.Server{Handler: patience.Usual().Around(simulated.NewServer(rack, token)), ReadHeaderTimeout: 10 * time.Second}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() }) // Serve says how it ended
	defer stop()
	fmt.Fprintf(a.stdout, "ready %s\n", listener.Addr())
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return errors.Annotate(err, "cannot serve")
	}
	return nil
}

// faultCommand returns the command that has a simulated rack fail.
func (a *app) faultCommand() *cobra.Command {
	var url, dataDir string
	f := simulated.MachineFault{}
	var kind string
	c := &cobra.Command{
		Use:     "fault",
		Short:   "Make the next starts of a machine in a simulated rack fail",
		Example: `  provisionerd simrack fault --url http://127.0.0.1:17071 --data-dir ./rack --machine 3 --times 2 --message "power supply is not answering"`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if url == "" || dataDir == "" {
				return command.Usagef("something is missing: give --url URL and --data-dir DIR")
			}
			f.Kind = simulated.FaultKind(kind)
			if err := f.Validate(); err != nil {
				return command.Usagef("%v: give --machine ID and --times N", err)
			}
			token, err := simulated.Token(dataDir)
			if err != nil {
				return err
			}
			rack, err := simulated.Dial(simulated.DialConfig{URL: url, Token: token})
			if err != nil {
				return err
			}
			return rack.AddFault(cmd.Context(), f)
		},
	}
	c.Flags().StringVar(&url, "url", "", "where the rack is (required)")
	c.Flags().StringVar(&dataDir, "data-dir", "", "the rack's data directory, which has its token (required)")
	c.Flags().StringVar(&f.MachineID, "machine", "", "id of the machine (required)")
	c.Flags().StringVar(&f.ModelUUID, "model", "", "UUID of its model; empty means any")
	c.Flags().IntVar(&f.Times, "times", 1, "how many starts fail")
	c.Flags().StringVar(&kind, "kind", "", "busy, transient, permanent, zone-full, hang or answer-lost; empty means transient")
	c.Flags().StringVar(&f.Message, "message", "", "what the failure says")
	return c
}
