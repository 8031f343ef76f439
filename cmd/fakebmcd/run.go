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
}

// parse reads the command line.
func parse(args []string, stderr io.Writer) (settings, error) {
	var (
		s            settings
		vendors      string
		passwordFile string
	)
	f := flag.NewFlagSet("fakebmcd", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.StringVar(&s.listen, "listen", "127.0.0.1:8000", "`address` of the only BMC; port 0 takes a free one")
	f.IntVar(&s.bmcs, "bmcs", 0, "`number` of BMCs, each at its own address from 127.16.0.0 on; 0: one, at the listen address")
	f.IntVar(&s.port, "port", 8000, "`port` of all BMCs when there are several")
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
	f.StringVar(&s.dir, "qemu", "", "`folder` for virtual machines, one folder for each; none: machines in memory")
	f.StringVar(&s.kvm, "kvm", "auto", "`whether` virtual machines use KVM: on, off, or auto, which boots the kernel of --probe-kernel to see")
	f.StringVar(&s.probeKernel, "probe-kernel", "", "`file` with a Linux kernel for --kvm auto; none: no KVM")
	f.StringVar(&s.qemu.Network, "network", "", "what follows \"user,id=n0,\" in QEMU's `option` -netdev; none: no network but DHCP")
	f.StringVar(&s.mediaCA, "media-ca", "", "`file` with the certificate authorities, as PEM, that virtual machines' media are fetched from; none: those of the system")
	f.IntVar(&s.qemu.MemoryMiB, "memory", 1024, "`MiB` of memory of each virtual machine")
	f.Int64Var(&s.qemu.DiskBytes, "disk", 2<<30, "`bytes` of disk of each virtual machine")
	f.StringVar(&s.machines, "machines", "", "`file` of JSON that says how virtual machines differ, by number: {\"1\": {\"disk-device\": \"nvme\"}}; also secure-boot, vars, args, port")
	f.StringVar(&s.logLevel, "log", "INFO", "`level` of the log: TRACE, DEBUG, INFO, WARNING or ERROR")
	if err := f.Parse(args); err != nil {
		return s, errUsage
	}
	s.vendors = append(s.vendors, strings.Split(vendors, ",")...)
	problem := s.problem()
	if f.NArg() > 0 {
		problem = "unexpected argument " + strconv.Quote(f.Arg(0))
	}
	if problem != "" {
		fmt.Fprintln(stderr, "fakebmcd: "+problem)
		return s, errUsage
	}
	if passwordFile != "" {
		data, err := os.ReadFile(passwordFile)
		if err != nil {
			return s, errors.Annotate(err, "cannot read the password")
		}
		s.config.Credentials.Password = strings.TrimRight(string(data), "\r\n")
	} else {
		s.config.Credentials = bmc.Credentials{}
	}
	s.tls = s.tls || s.cert != ""
	return s, nil
}

// problem says in one line what makes no sense; empty: nothing.
func (s settings) problem() string {
	switch {
	case s.bmcs < 0 || s.bmcs > 100_000:
		return "--bmcs is not between 0 and 100000"
	case s.config.Systems < 1 || s.config.Systems > 10_000:
		return "--systems is not between 1 and 10000"
	case (s.cert == "") != (s.key == ""):
		return "--cert and --key go together"
	case s.kvm != "on" && s.kvm != "off" && s.kvm != "auto":
		return "--kvm is none of on, off, auto"
	case s.qemu.MemoryMiB < 64 || s.qemu.DiskBytes < 1<<20:
		return "--memory is less than 64 MiB or --disk less than 1 MiB"
	}
	for _, name := range s.vendors {
		if _, ok := fakebmc.VendorNamed(name); !ok {
			return "unknown vendor " + strconv.Quote(name) + "; want one of " + vendorNames()
		}
	}
	return ""
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
	if err != nil {
		return errors.Trace(err)
	}
	if err := loggo.ConfigureLoggers("<root>=" + s.logLevel); err != nil {
		return errors.Annotate(err, "cannot set the log level")
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
	return &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}}}, nil
}

// serve serves the rack until ctx is done.
func serve(ctx context.Context, s settings, rack fakebmc.Rack, stdout io.Writer) error {
	listeners, err := listen(s)
	if err != nil {
		return errors.Trace(err)
	}
	scheme := "http"
	if s.tls {
		scheme = "https"
	}
	first, last := listeners[0].Addr(), listeners[len(listeners)-1].Addr()
	fmt.Fprintf(stdout, "%d BMCs with %d machines each at %s://%s to %s://%s\n", len(rack), s.config.Systems, scheme, first, scheme, last)
	server := &http.Server{Handler: rack, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 5 * time.Minute}
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

// listen opens the addresses of all BMCs.
func listen(s settings) ([]net.Listener, error) {
	addresses := []string{s.listen}
	if s.bmcs > 0 {
		addresses = addresses[:0]
		for n := range s.bmcs {
			addresses = append(addresses, net.JoinHostPort(fakebmc.AddressOf(n), strconv.Itoa(s.port)))
		}
	}
	var config *tls.Config
	if s.tls {
		c, err := certificate(s)
		if err != nil {
			return nil, errors.Trace(err)
		}
		config = &tls.Config{Certificates: []tls.Certificate{c}, MinVersion: tls.VersionTLS12}
	}
	var all []net.Listener
	for _, a := range addresses {
		l, err := net.Listen("tcp", a)
		if err != nil {
			for _, l := range all {
				_ = l.Close()
			}
			return nil, errors.Annotatef(err, "cannot listen at %s", a)
		}
		if config != nil {
			l = tls.NewListener(l, config)
		}
		all = append(all, l)
	}
	return all, nil
}
