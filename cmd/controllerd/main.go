// Command controllerd is a site's controller: it keeps the state and serves the
// API.
//
// It exits with 0 when all went well, 1 when something failed, and 2 when it was
// called wrongly. When it serves it prints "ready HOST:PORT" on standard output;
// logs go to standard error.
package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/juju/errors"
	"github.com/juju/loggo"
	"github.com/spf13/cobra"

	"github.com/slipway-project/slipway/api"
	"github.com/slipway-project/slipway/environs/all"
	hostsim "github.com/slipway-project/slipway/environs/baremetal/simulated"
	"github.com/slipway-project/slipway/environs/lxd"
	"github.com/slipway-project/slipway/environs/simulated"
	"github.com/slipway-project/slipway/internal/buildinfo"
	"github.com/slipway-project/slipway/internal/command"
	"github.com/slipway-project/slipway/internal/notify"
	"github.com/slipway-project/slipway/internal/site"
	"github.com/slipway-project/slipway/worker/simulatedhost"
)

var logger = loggo.GetLogger("slipway.cmd.controllerd")

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
	dataDir        string
}

// root returns the whole tree of commands.
func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "controllerd",
		Short: "Keep a site's state and serve its API",
		Example: `  controllerd dev --data-dir ./dev
  controllerd bootstrap --data-dir /var/lib/slipway --listen 0.0.0.0:17070 --advertise rack1.example.com
  controllerd run --data-dir /var/lib/slipway`,
	}
	root.PersistentFlags().StringVar(&a.logging, "logging", command.LoggingConfig(os.Getenv), "what to log: NAME=LEVEL;...; by default what $SLIPWAY_LOGGING_CONFIG says")
	root.AddCommand(a.devCommand(), a.bootstrapCommand(), a.runCommand(), a.rotateCACommand(), a.rotateHostKeyCommand(), a.backupCommand(), a.restoreCommand(), a.exportJoinCommand(), a.joinCommand(), a.migrateCommand(), command.Manual(8, os.Getenv), &cobra.Command{
		Use: "version", Short: "Show the version",
		RunE: func(*cobra.Command, []string) error {
			fmt.Fprintln(a.stdout, "controllerd", buildinfo.Version)
			return nil
		},
	})
	return root
}

// dataDirFlag gives a command the flag --data-dir.
func (a *app) dataDirFlag(c *cobra.Command) {
	c.Flags().StringVar(&a.dataDir, "data-dir", "", "folder that holds the whole site (required)")
}

// begin checks what every command needs.
func (a *app) begin() error {
	if a.dataDir == "" {
		return command.Usagef("no data directory named: give --data-dir DIR")
	}
	return command.Logging(a.stderr, a.logging)
}

// needs returns an error of whoever typed a command without some of its flags.
func needs(c *cobra.Command, flags ...string) error {
	for _, name := range flags {
		if c.Flags().Lookup(name).Value.String() == "" {
			return command.Usagef("%s needs --%s", c.Name(), name)
		}
	}
	return nil
}

// devCommand returns the command that is a whole site in one process.
func (a *app) devCommand() *cobra.Command {
	var o devOptions
	c := &cobra.Command{
		Use:   "dev",
		Short: "Run a whole site in this process: controller, worker and a simulated rack",
		Long: `dev runs a whole site in one process: the controller on its embedded store, the
provisioners of all models, and a simulated rack whose machines' agents really
log in. The first start prepares the data directory; later ones find everything
in it again.

With --provider baremetal machines are put on the site's bare-metal hosts; hosts at
addresses simulated://NAME exist in this process only.`,
		Example: `  controllerd dev --data-dir ./dev
  SLIPWAY_DATA=./dev/client slipway add-machine -n 3
  controllerd dev --data-dir ./dev --provider lxd --lxd-agent ./provisionerd`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := a.begin(); err != nil {
				return err
			}
			if err := checkServe(o.site); err != nil {
				return err
			}
			return a.dev(cmd.Context(), o)
		},
	}
	a.dataDirFlag(c)
	c.Flags().StringVar(&o.listen, "listen", "127.0.0.1:17070", "HOST:PORT to serve on; port 0 takes any")
	c.Flags().StringVar(&o.provider, "provider", simulated.Name, "provider of the first models")
	c.Flags().BoolVar(&o.fast, "fast", false, "make every simulated delay zero")
	c.Flags().StringVar(&o.lxdSocket, "lxd-socket", lxd.DefaultSocket, "socket of this machine's LXD server, for models of type lxd that name no servers")
	c.Flags().StringVar(&o.lxdAgent, "lxd-agent", "", "static provisionerd that is put into LXD containers; empty means that they download theirs")
	c.Flags().StringVar(&o.lxdBridge, "lxd-bridge", "", "network interface, such as lxdbr0, at whose address containers reach the controller over their own network")
	serveFlags(c, &o.site)
	return c
}

// devOptions are the flags of dev.
type devOptions struct {
	listen, provider    string
	fast                bool
	lxdSocket, lxdAgent string
	lxdBridge           string
	site                site.Options
}

// dev runs a whole site until ctx is done.
func (a *app) dev(ctx context.Context, o devOptions) error {
	dir := site.Dir(a.dataDir)
	also, model, err := bridge(o.lxdBridge)
	if err != nil {
		return err
	}
	err = site.Bootstrap(ctx, site.BootstrapOptions{
		Dir: dir, Name: "slipway-dev", Listen: o.listen, Provider: o.provider, Registry: all.Registry(all.Backends{}),
		ModelConfig: model,
	})
	if err != nil && !errors.Is(err, errors.AlreadyExists) {
		return err
	}
	var own ownServer
	agent := simulated.NewAgent(simulated.AgentOptions{Dial: api.DialOptions{NetDial: own.dial}, Containers: simulatedhost.Run})
	rackOptions := simulated.Options{DataDir: dir.Rack(), Agent: agent}
	if o.fast {
		rackOptions.Behaviour = &simulated.Behaviour{}
	}
	rack, err := simulated.NewRack(rackOptions)
	if err != nil {
		return err
	}
	defer rack.Close()
	serve := o.site
	serve.Dir, serve.Listen, serve.ListenAlso, serve.Worker = dir, o.listen, also, true
	if serve.HostAgent = agent; !o.fast {
		serve.HostDelays = hostDelays()
	}
	serve.Registry = all.Registry(all.Backends{Rack: rack, LXD: lxd.Local(o.lxdSocket, o.lxdAgent)})
	// Agents end before the server that they are connected to: they would complain.
	served, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	defer context.AfterFunc(ctx, func() {
		rack.StopAgents()
		stop()
	})()
	return a.serve(served, serve, own.listens)
}

// hostDelays is how long simulated hosts take for things, so that one can watch
// them.
func hostDelays() map[hostsim.Op]time.Duration {
	return map[hostsim.Op]time.Duration{
		hostsim.OpRegister: time.Second, hostsim.OpInspect: 5 * time.Second, hostsim.OpProvision: 30 * time.Second,
		hostsim.OpDeprovision: 10 * time.Second, hostsim.OpPower: time.Second,
	}
}

// bootstrapCommand returns the command that prepares a site.
func (a *app) bootstrapCommand() *cobra.Command {
	var o site.BootstrapOptions
	c := &cobra.Command{
		Use:   "bootstrap",
		Short: "Prepare a data directory without serving it",
		Long: `bootstrap makes a site in an empty or new data directory: its certificates, its
store (or, with --store, what it keeps in MongoDB), the models "controller" and "default", and the user "admin".

It lays down DIR/ca.pem, which clients are to trust; DIR/client, which an
operator's SLIPWAY_DATA may point to; and DIR/agents/machine-0.yaml, with which
the first provisionerd logs in.`,
		Example: `  controllerd bootstrap --data-dir /var/lib/slipway --listen 0.0.0.0:17070 --advertise rack1.example.com
  controllerd bootstrap --data-dir /var/lib/slipway --listen 0.0.0.0:17070 --advertise rack1.example.com \
    --store "mongodb://h1,h2,h3/slipway?replicaSet=rs0" --store-credentials-file /etc/slipway/mongodb`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := a.begin(); err != nil {
				return err
			}
			o.Dir, o.Registry = site.Dir(a.dataDir), all.Registry(all.Backends{})
			if err := site.Bootstrap(cmd.Context(), o); err != nil {
				return err
			}
			fmt.Fprintf(a.stdout, "prepared %s\nserve it with: controllerd run --data-dir %s\noperators use: export SLIPWAY_DATA=%s\n",
				o.Dir, o.Dir, o.Dir.Client())
			return nil
		},
	}
	a.dataDirFlag(c)
	c.Flags().StringVar(&o.Listen, "listen", "", "HOST:PORT to serve on (required)")
	c.Flags().StringSliceVar(&o.Advertise, "advertise", nil, "HOST or HOST:PORT at which others reach the server, separated by commas")
	c.Flags().StringVar(&o.Name, "name", "slipway", "what operators call the controller")
	c.Flags().StringVar(&o.Provider, "provider", simulated.Name, "provider of the first models")
	storeFlags(c, &o.Store)
	return c
}

// storeFlags gives a command the flags that say where the state is kept.
func storeFlags(c *cobra.Command, s *site.StoreSettings) {
	c.Flags().StringVar(&s.URL, "store", "", "URL of a MongoDB replica set that keeps the state; empty means the embedded store")
	storeFileFlags(c, s)
}

// storeFileFlags gives a command the flags that name the files for a store.
func storeFileFlags(c *cobra.Command, s *site.StoreSettings) {
	c.Flags().StringVar(&s.CAFile, "store-ca-file", "", "PEM file of the authorities that the store's servers are trusted by; turns TLS on")
	c.Flags().StringVar(&s.CertificateFile, "store-certificate-file", "", "PEM file of a certificate and its key, to show to the store's servers")
	c.Flags().StringVar(&s.CredentialsFile, "store-credentials-file", "", "file whose first line is USER:PASSWORD for the store")
}

// runCommand returns the command that serves a site.
func (a *app) runCommand() *cobra.Command {
	var o site.Options
	c := &cobra.Command{
		Use:   "run",
		Short: "Serve the site in a data directory",
		Long: `run serves the site in a data directory until it is stopped. GET /health on the
API's address tells without login whether it can work.

SIGHUP has it open its audit log anew, after another program has moved the file
away.`,
		Example: `  controllerd run --data-dir /var/lib/slipway
  controllerd run --data-dir /var/lib/slipway --audit-log /var/log/slipway/audit.log --metrics-listen 127.0.0.1:9090`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := a.begin(); err != nil {
				return err
			}
			if err := checkServe(o); err != nil {
				return err
			}
			o.Dir, o.Registry = site.Dir(a.dataDir), all.Registry(all.Backends{})
			return a.serve(cmd.Context(), o, func(string) {})
		},
	}
	a.dataDirFlag(c)
	c.Flags().StringVar(&o.Listen, "listen", "", "HOST:PORT to serve on, instead of the one that the site was prepared with")
	serveFlags(c, &o)
	return c
}

// serveFlags gives a command the flags of serving.
func serveFlags(c *cobra.Command, o *site.Options) {
	c.Flags().Int64Var(&o.LogsSize, "max-logs-size", 1<<30, "how much of one model's log is kept, in bytes")
	c.Flags().DurationVar(&o.LogsAge, "max-logs-age", 72*time.Hour, "how long log records are kept")
	c.Flags().StringVar(&o.Installer.Image, "installer-image", "", "FILE with the installer's EFI program, as \"make installer-image\" builds it; empty means installer.efi in the data directory, if it is there")
	c.Flags().StringVar(&o.Installer.URL, "installer-url", "", "https URL at which machines that are being installed reach this controller; empty means the first advertised address")
	c.Flags().StringVar(&o.Installer.MediaURL, "installer-media-url", "", "https URL at which BMCs reach this controller; empty means the same")
	c.Flags().StringVar(&o.Installer.Images, "images", "", "folder of images that are served to installers; empty means images in the data directory")
	c.Flags().StringVar(&o.AuditLog, "audit-log", "", "FILE to record every login and every change in, as JSON lines")
	c.Flags().StringVar(&o.MetricsListen, "metrics-listen", "", "HOST:PORT to serve Prometheus metrics on; elsewhere than on the loopback interface with TLS, and for superusers")
}

// checkServe returns an error of whoever typed a flag of serving that makes no sense.
func checkServe(o site.Options) error {
	if o.LogsSize < 1 {
		return command.Usagef("--max-logs-size %d keeps nothing: give bytes, at least 1", o.LogsSize)
	}
	if o.LogsAge <= 0 {
		return command.Usagef("--max-logs-age %v keeps nothing: give a duration such as 72h", o.LogsAge)
	}
	return nil
}

// serve serves a site until ctx is done or a part of it fails. Ready is told
// where, before anyone else is.
func (a *app) serve(ctx context.Context, o site.Options, ready func(addr string)) error {
	s, err := site.Open(ctx, o)
	if err != nil {
		return err
	}
	if err := loggo.RegisterWriter("controller", s.LogWriter()); err != nil {
		logger.Warningf("cannot keep this process's own log: %v", err)
	}
	ready(s.Addr())
	fmt.Fprintf(a.stdout, "ready %s\n", s.Addr())
	tell(notify.Ready)
	alive := time.NewTicker(cmp.Or(notify.Interval(os.Getenv, os.Getpid()), time.Hour))
	defer alive.Stop()
	stop := context.AfterFunc(ctx, func() {
		tell(notify.Stopping)
		s.Kill()
	})
	defer stop()
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	defer signal.Stop(hangups)
	ended := make(chan error, 1)
	go func() { ended <- s.Wait() }()
	for {
		select {
		case err := <-ended:
			return err
		case <-hangups:
			s.Reopen()
		case <-alive.C:
			tell(notify.Alive)
		}
	}
}

// tell tells the manager of this service, if there is one, how the service is.
func tell(state string) {
	if err := notify.Send(os.Getenv, state); err != nil {
		logger.Warningf("%v", err)
	}
}
