package redfish_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/slipway-project/slipway/environs/baremetal/fakebmc"
	metal3v1alpha1 "github.com/slipway-project/slipway/environs/baremetal/metal3/v1alpha1"
	"github.com/slipway-project/slipway/environs/baremetal/redfish"
)

// rackVariable makes this test binary a rack of BMCs, in a process of its own; its
// value is how many.
const rackVariable = "REDFISH_BENCH_RACK"

func TestMain(m *testing.M) {
	if n := os.Getenv(rackVariable); n != "" {
		serveRack(n)
		return
	}
	os.Exit(m.Run())
}

// serveRack serves a rack until its standard input ends.
func serveRack(number string) {
	var n int
	_, _ = fmt.Sscan(number, &n)
	rack, err := fakebmc.NewRack(n, fakebmc.Config{Credentials: good})
	if err != nil {
		panic(err)
	}
	// One listener on all of the loopback network would need the wildcard address,
	// which others can reach: each BMC has its own.
	server := httptest.NewUnstartedServer(rack)
	port := 0
	for i := range n {
		l, err := net.Listen("tcp", fmt.Sprintf("%s:%d", fakebmc.AddressOf(i), port))
		if err != nil {
			panic(err)
		}
		port = l.Addr().(*net.TCPAddr).Port
		go func() { _ = server.Config.Serve(l) }()
	}
	fmt.Println(port)
	_, _ = os.Stdin.Read(make([]byte, 1))
	_ = server.Config.Shutdown(context.Background())
}

// processorTime returns how much processor time this process has used.
func processorTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkPowerRefresh reads the power state of 2,000 hosts, each with a BMC of its
// own in another process. cpu-us/host is this process' time alone: 1,500 would be a
// quarter of a core for 10,000 hosts a minute.
func BenchmarkPowerRefresh(b *testing.B) {
	const hosts = 2000
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), fmt.Sprintf("%s=%d", rackVariable, hosts))
	stdin, err := child.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := child.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := child.Start(); err != nil {
		b.Fatal(err)
	}
	defer func() {
		_ = stdin.Close()
		_ = child.Wait()
	}()
	port, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		b.Fatal(err)
	}
	backend := redfish.New(redfish.Options{})
	defer backend.Close(context.Background())
	factory := backend.Factory(context.Background())
	all := make([]*metal3v1alpha1.BareMetalHost, hosts)
	each := func(f func(h *metal3v1alpha1.BareMetalHost) error) {
		var wg sync.WaitGroup
		work := make(chan *metal3v1alpha1.BareMetalHost)
		for range 64 {
			wg.Go(func() {
				for h := range work {
					if err := f(h); err != nil {
						b.Error(err)
					}
				}
			})
		}
		for _, h := range all {
			work <- h
		}
		close(work)
		wg.Wait()
	}
	for n := range all {
		all[n] = new(metal3v1alpha1.BareMetalHost)
		all[n].Spec.BMC.Address = fmt.Sprintf("redfish+http://%s:%s/redfish/v1/Systems/1", fakebmc.AddressOf(n), strings.TrimSpace(port))
	}
	look := func(h *metal3v1alpha1.BareMetalHost) error {
		p, err := factory(h, good, func(string, string) {})
		if err != nil {
			return err
		}
		if r, err := p.ValidateManagementAccess(false); err != nil || r.ErrorMessage != "" {
			return fmt.Errorf("%+v, %v", r, err)
		}
		_, err = p.UpdateHardwareState()
		return err
	}
	each(look) // logs in and fills what is remembered
	begin, refreshed := processorTime(), 0
	for b.Loop() {
		each(look)
		refreshed += hosts
	}
	b.ReportMetric(float64((processorTime()-begin).Microseconds())/float64(refreshed), "cpu-us/host")
}

var _ http.Handler = fakebmc.Rack(nil)
