package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/juju/errors"
	"github.com/juju/loggo"
	"gopkg.in/tomb.v2"

	"github.com/slipway-project/slipway/environs/baremetal/bmc"
	"github.com/slipway-project/slipway/environs/baremetal/fakebmc"
	"github.com/slipway-project/slipway/environs/baremetal/fakeinstaller"
	"github.com/slipway-project/slipway/environs/simulated"
	"github.com/slipway-project/slipway/internal/atomicfile"
	"github.com/slipway-project/slipway/internal/patience"
	"github.com/slipway-project/slipway/provision/media"
)

// errUsage is the error of a command line that makes no sense; what is wrong has
// been said.
const errUsage = errors.ConstError("usage")

// isUsage reports whether err is about the command line.
func isUsage(err error) bool { return errors.Is(err, errUsage) }

// settings are the command line.
type settings struct {
	listen   string
	bmcs     int
	port     int
	vendors  []string
	tls      bool
	cert     string
	key      string
	config   fakebmc.Config
	logLevel string

	dir         string // of virtual machines; empty: machines in memory
	kvm         string
	probeKernel string
	qemu        fakebmc.QEMUOptions
	machines    string // file
	mediaCA     string

	installer      bool // machines in memory imitate the installer
	install        fakeinstaller.Options
	writeInstaller string // file to write a stand-in of the installer's program to; empty: serve
	writeHosts     string // file to write documents of the machines to; empty: none
}

// parse reads the command line.
func parse(args []string, stderr io.Writer) (settings, error) {
	var (
		s            settings
		vendors      string
		passwordFile string
	)
	f := flag.NewFlagSet("fakebmcd", flag.ContinueOnError)
	f.SetOutput(io.Discard) // an error is one line; all flags are there for who asks
	f.StringVar(&s.listen, "listen", "127.0.0.1:8000", "`address` of the only BMC; port 0 takes a free one")
	f.IntVar(&s.bmcs, "bmcs", 0, "`number` of BMCs, each at its own address from 127.16.0.0 on; 0: one, at the listen address")
	f.IntVar(&s.port, "port", 8000, "`port` of all BMCs when there are several; 0 takes a free one")
	f.IntVar(&s.config.Systems, "systems", 1, "`number` of machines behind each BMC")
	f.StringVar(&vendors, "vendor", "generic", "comma-separated `names` of vendors, which the BMCs take in turn: "+vendorNames())
	f.StringVar(&s.config.Credentials.Username, "username", "admin", "`name` that the BMCs accept")
	f.StringVar(&passwordFile, "password-file", "", "`file` with the password that they accept; none: any password")
	f.BoolVar(&s.config.NoBasic, "no-basic", false, "refuse basic authentication")
	f.BoolVar(&s.config.NoSessions, "no-sessions", false, "have no sessions")
	f.IntVar(&s.config.MaxSessions, "max-sessions", 16, "`number` of sessions that each BMC can have")
	f.BoolVar(&s.tls, "tls", false, "serve TLS, with a certificate made at start unless one is given")
	f.StringVar(&s.cert, "cert", "", "`file` with the certificate")
	f.StringVar(&s.key, "key", "", "`file` with the certificate's key")
	f.DurationVar(&s.config.Delays.Request, "delay", 0, "`time` that every request takes")
	f.DurationVar(&s.config.Delays.PowerOn, "power-on", time.Second, "`time` from off to on")
	f.DurationVar(&s.config.Delays.PowerOff, "power-off", time.Second, "`time` to power off hard")
	f.DurationVar(&s.config.Delays.SoftOff, "soft-off", 3*time.Second, "`time` to shut down")
	f.DurationVar(&s.config.Delays.Media, "media", 0, "`time` to insert a virtual medium")
	s.machineFlags(f)
	f.StringVar(&s.logLevel, "log", "INFO", "`level` of the log: TRACE, DEBUG, INFO, WARNING or ERROR")
	err := f.Parse(args)
	if errors.Is(err, flag.ErrHelp) {
		f.SetOutput(stderr)
		f.Usage()
		return s, flag.ErrHelp
	}
	s.vendors = append(s.vendors, strings.Split(vendors, ",")...)
	problem := s.problem()
	switch {
	case err != nil:
		problem = err.Error()
	case f.NArg() > 0:
		problem = "unexpected argument " + strconv.Quote(f.Arg(0))
	}
	if problem != "" {
		fmt.Fprintln(stderr, "fakebmcd: "+problem+" (see \"fakebmcd --help\")")
		return s, errUsage
	}
	s.tls = s.tls || s.cert != ""
	return s, s.readPassword(passwordFile)
}

// readPassword reads the password that the BMCs accept; without a file they accept any.
func (s *settings) readPassword(file string) error {
	if file == "" {
		s.config.Credentials = bmc.Credentials{}
		return nil
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return errors.Annotate(err, "cannot read the password")
	}
	s.config.Credentials.Password = strings.TrimRight(string(data), "\r\n")
	if s.config.Credentials.Password == "" {
		return errors.NewNotValid(nil, "--password-file "+file+" has no password in it")
	}
	return nil
}

// machineFlags adds the flags about what is behind the BMCs.
func (s *settings) machineFlags(f *flag.FlagSet) {
	f.StringVar(&s.dir, "qemu", "", "`folder` for virtual machines, one folder for each; none: machines in memory")
	f.StringVar(&s.kvm, "kvm", "auto", "`whether` virtual machines use KVM: on, off, or auto, which boots the kernel of --probe-kernel to see")
	f.StringVar(&s.probeKernel, "probe-kernel", "", "`file` with a Linux kernel for --kvm auto; none: no KVM")
	f.StringVar(&s.qemu.Network, "network", "", "what follows \"user,id=n0,\" in QEMU's `option` -netdev; none: no network but DHCP")
	f.StringVar(&s.mediaCA, "media-ca", "", "`file` with the certificate authorities, as PEM, that media are fetched from; none: those of the system")
	f.BoolVar(&s.installer, "installer", false, "have machines in memory do what the installer does when they boot from its medium, and run an agent when they boot from their disk")
	f.DurationVar(&s.install.Time, "install-time", 5*time.Second, "`time` that such an installation takes beside loading its image")
	f.Float64Var(&s.install.Failures, "install-failures", 0, "`share` of machines, 0 to 1, on which it always fails; --seed says on which")
	f.Uint64Var(&s.install.Seed, "seed", 1, "`number` from which follows on which machines installations fail")
	f.StringVar(&s.writeHosts, "write-hosts", "", "write to a `file` what \"slipway import-hosts\" needs to know of the machines")
	f.StringVar(&s.writeInstaller, "write-installer", "", "write to a `file` what stands in for the installer's program at a controller that serves such machines alone, and end")
	f.IntVar(&s.qemu.MemoryMiB, "memory", 1024, "`MiB` of memory of each virtual machine")
	f.Int64Var(&s.qemu.DiskBytes, "disk", 2<<30, "`bytes` of disk of each virtual machine")
	f.StringVar(&s.machines, "machines", "", "`file` of JSON that says how virtual machines differ, by number: {\"1\": {\"disk-device\": \"nvme\"}}; also secure-boot, vars, args, port")
}

// problem says in one line what makes no sense; empty: nothing.
func (s settings) problem() string {
	_, known := loggo.ParseLevel(s.logLevel)
	delays := s.config.Delays
	switch {
	case s.bmcs < 0 || s.bmcs > 100_000:
		return "--bmcs is not between 0 and 100000"
	case s.config.Systems < 1 || s.config.Systems > 10_000:
		return "--systems is not between 1 and 10000"
	case s.port < 0 || s.port > 65535:
		return "--port is not between 0 and 65535"
	case !isAddress(s.listen):
		return "--listen " + strconv.Quote(s.listen) + " is not HOST:PORT, such as 127.0.0.1:8000"
	case (s.cert == "") != (s.key == ""):
		return "--cert and --key go together"
	case min(delays.Request, delays.PowerOn, delays.PowerOff, delays.SoftOff, delays.Media) < 0:
		return "--delay, --power-on, --power-off, --soft-off or --media is less than 0"
	case s.config.MaxSessions < 1:
		return "--max-sessions is less than 1; --no-sessions has none"
	case !known:
		return "cannot set the log level: --log is none of TRACE, DEBUG, INFO, WARNING, ERROR"
	}
	for _, name := range s.vendors {
		if _, ok := fakebmc.VendorNamed(name); !ok {
			return "unknown vendor " + strconv.Quote(name) + "; want one of " + vendorNames()
		}
	}
	return s.machineProblem()
}

// machineProblem is problem for the flags about what is behind the BMCs.
func (s settings) machineProblem() string {
	switch {
	case s.kvm != "on" && s.kvm != "off" && s.kvm != "auto":
		return "--kvm is none of on, off, auto"
	case s.installer && s.dir != "":
		return "--installer is for machines in memory: virtual ones run the real one"
	case !(s.install.Failures >= 0 && s.install.Failures <= 1): // which holds for what is no number
		return "--install-failures is not between 0 and 1"
	case s.install.Time < 0:
		return "--install-time is less than 0"
	case s.mediaCA != "" && !s.installer && s.dir == "":
		return "--media-ca is for --installer or --qemu: other machines fetch nothing"
	case s.machines != "" && s.dir == "":
		return "--machines is for --qemu: machines in memory are all alike"
	case s.qemu.MemoryMiB < 64 || s.qemu.DiskBytes < 1<<20:
		return "--memory is less than 64 MiB or --disk less than 1 MiB"
	}
	return ""
}

// isAddress reports whether text is a host, or none, and a port by its number.
func isAddress(text string) bool {
	_, port, err := net.SplitHostPort(text)
	if err != nil {
		return false
	}
	_, err = strconv.ParseUint(port, 10, 16)
	return err == nil
}

// vendorNames lists the vendors.
func vendorNames() string {
	var names []string
	for _, v := range fakebmc.Vendors() {
		names = append(names, v.Name)
	}
	return strings.Join(names, ", ")
}

// run is the whole command.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	s, err := parse(args, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return nil
	}
	if err != nil {
		return errors.Trace(err)
	}
	if err := loggo.ConfigureLoggers("<root>=" + s.logLevel); err != nil {
		return errors.Annotate(err, "cannot set the log level")
	}
	if s.writeInstaller != "" {
		return writeInstaller(s.writeInstaller)
	}
	if s.installer {
		if err := imitate(&s); err != nil {
			return errors.Trace(err)
		}
	}
	if s.dir != "" {
		if s.config.Machine, err = virtual(ctx, s); err != nil {
			return errors.Trace(err)
		}
	}
	rack, err := fakebmc.NewRack(max(s.bmcs, 1), s.config, s.vendors...)
	if err != nil {
		return errors.Trace(err)
	}
	err = serve(ctx, s, rack, stdout)
	if cerr := rack.Close(); err == nil {
		err = cerr
	}
	return errors.Trace(err)
}

// writeInstaller writes the stand-in of the installer's program.
func writeInstaller(file string) error {
	program, err := media.StandIn()
	if err != nil {
		return errors.Trace(err)
	}
	return errors.Annotate(atomicfile.Write(file, program, 0o644), "cannot write the stand-in of the installer")
}

// imitate has machines in memory imitate the installer.
func imitate(s *settings) error {
	if s.mediaCA != "" {
		client, err := believing(s.mediaCA)
		if err != nil {
			return errors.Trace(err)
		}
		s.install.Media = client
	}
	s.install.Agent = simulated.NewAgent(simulated.AgentOptions{})
	program := fakeinstaller.New(s.install)
	s.config.Machine = func(int) fakebmc.Machine { return fakebmc.Memory{OnBoot: program.Boot} }
	return nil
}

// virtual returns what makes the virtual machines. All are made at once, so that
// what is missing shows before anything is served.
func virtual(ctx context.Context, s settings) (func(int) fakebmc.Machine, error) {
	if s.mediaCA != "" {
		client, err := believing(s.mediaCA)
		if err != nil {
			return nil, errors.Trace(err)
		}
		s.qemu.Client = client
	}
	s.qemu.KVM = s.kvm == "on" || s.kvm == "auto" && s.probeKernel != "" && fakebmc.ProbeKVM(ctx, s.probeKernel)
	number := max(s.bmcs, 1) * s.config.Systems
	specials, err := readSpecials(s.machines, number)
	if err != nil {
		return nil, errors.Trace(err)
	}
	var machines []fakebmc.Machine
	for n := range number {
		o := s.qemu
		specials[n].apply(&o)
		o.Dir = filepath.Join(s.dir, strconv.Itoa(n))
		m, err := fakebmc.NewQEMU(o)
		if err != nil {
			return nil, errors.Trace(err)
		}
		machines = append(machines, m)
	}
	return func(n int) fakebmc.Machine { return machines[n] }, nil
}

// believing returns a client that trusts the authorities in a file alone.
func believing(file string) (*http.Client, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, errors.Annotate(err, "cannot read --media-ca")
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, errors.NotValidf("--media-ca %s without a certificate", file)
	}
	return &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}, MaxIdleConnsPerHost: 32, IdleConnTimeout: time.Minute,
	}}, nil
}

// serve serves the rack until ctx is done.
func serve(ctx context.Context, s settings, rack fakebmc.Rack, stdout io.Writer) error {
	config, err := serverTLS(s)
	if err != nil {
		return errors.Trace(err)
	}
	listeners, err := listen(s, config)
	if err != nil {
		return errors.Trace(err)
	}
	if s.writeHosts != "" {
		if err := describe(s, rack, listeners, config); err != nil {
			for _, l := range listeners {
				_ = l.Close() // nobody has used it
			}
			return errors.Trace(err)
		}
	}
	scheme := "http"
	if s.tls {
		scheme = "https"
	}
	first, last := listeners[0].Addr(), listeners[len(listeners)-1].Addr()
	fmt.Fprintf(stdout, "%d BMCs with %d machines each at %s://%s to %s://%s\n", len(rack), s.config.Systems, scheme, first, scheme, last)
	server := &http.Server{Handler: patience.Usual().Around(rack), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 5 * time.Minute}
	var t tomb.Tomb
	for _, l := range listeners {
		t.Go(func() error {
			if err := server.Serve(l); err != http.ErrServerClosed {
				return errors.Trace(err)
			}
			return nil
		})
	}
	select {
	case <-ctx.Done():
	case <-t.Dying():
	}
	_ = server.Close()
	return errors.Trace(t.Wait())
}

// serverTLS returns how to serve TLS; nil: not at all.
func serverTLS(s settings) (*tls.Config, error) {
	if !s.tls {
		return nil, nil
	}
	c, err := certificate(s)
	if err != nil {
		return nil, errors.Trace(err)
	}
	return &tls.Config{Certificates: []tls.Certificate{c}, MinVersion: tls.VersionTLS12}, nil
}

// listen opens the addresses of all BMCs.
func listen(s settings, config *tls.Config) ([]net.Listener, error) {
	all, err := open(s)
	if err != nil {
		return nil, err
	}
	for i := range all {
		if config != nil {
			all[i] = tls.NewListener(all[i], config)
		}
	}
	return all, nil
}

// maxTries is how often a port is looked for that is free at all addresses.
const maxTries = 20

// open opens the addresses, all with the same port.
func open(s settings) ([]net.Listener, error) {
	if s.bmcs == 0 {
		l, err := net.Listen("tcp", s.listen)
		return []net.Listener{l}, errors.Annotatef(err, "cannot listen at %s", s.listen)
	}
	for try := 1; ; try++ {
		all, err := openAll(s.bmcs, s.port)
		if err == nil || s.port != 0 || try == maxTries {
			return all, err
		}
	}
}

// openAll opens n addresses with one port; 0: one that is free at the first.
func openAll(n, port int) (all []net.Listener, err error) {
	for i := range n {
		address := net.JoinHostPort(fakebmc.AddressOf(i), strconv.Itoa(port))
		l, err := net.Listen("tcp", address)
		if err != nil {
			for _, l := range all {
				_ = l.Close() // nobody has used it
			}
			return nil, errors.Annotatef(err, "cannot listen at %s", address)
		}
		if a, ok := l.Addr().(*net.TCPAddr); ok {
			port = a.Port
		}
		all = append(all, l)
	}
	return all, nil
}
