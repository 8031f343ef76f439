package main

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/environs/baremetal/fakebmc"
)

func TestParseCPUCountsUserAndSystemTime(t *testing.T) {
	const stat = "4711 (a (strange) name) S 1 4711 4711 0 -1 4194560 1 2 3 4 150 50 7 8 20 0 9 0 100 1000 1"
	if d, err := parseCPU(stat); err != nil || d != 2*time.Second {
		t.Errorf("parseCPU = %v, %v, want 2s", d, err)
	}
	for _, bad := range []string{"", "1 (x) S 1", "1 (x) S 1 2 3 4 5 6 7 8 9 10 x 12"} {
		if _, err := parseCPU(bad); !errors.Is(err, errors.NotValid) {
			t.Errorf("parseCPU(%q) = %v, want not valid", bad, err)
		}
	}
}

func TestLinesAreThoseOfBenchmarks(t *testing.T) {
	got := line("life/conns=16", 1234, []figure{{41234.5, "calls/s"}, {14.2, "server-µs/op"}, {0.05, "p50-ms"}, {0, "p99-ms"}})
	if want := "BenchmarkSite/life/conns=16\t1234\t41234 calls/s\t14.2 server-µs/op\t0.0500 p50-ms\t0 p99-ms"; got != want {
		t.Errorf("line = %q, want %q", got, want)
	}
}

func TestQuantile(t *testing.T) {
	all := []time.Duration{4, 1, 3, 2}
	for _, test := range []struct {
		share float64
		want  time.Duration
	}{{0, 1}, {.25, 1}, {.5, 2}, {.51, 3}, {.99, 4}, {1, 4}} {
		if got := quantile(slices.Clone(all), test.share); got != test.want {
			t.Errorf("quantile(%v) = %v, want %v", test.share, got, test.want)
		}
	}
	if got := quantile(nil, .5); got != 0 {
		t.Errorf("quantile of nothing = %v", got)
	}
}

func TestChooseNamesWhatIsUnknown(t *testing.T) {
	chosen, err := choose("add,life")
	if err != nil || len(chosen) != 2 || chosen[0].name != "add" || chosen[1].name != "life" {
		t.Errorf("choose = %v, %v", chosen, err)
	}
	if all, err := choose(""); err != nil || len(all) != len(measurements()) {
		t.Errorf("choose of nothing = %d measurements, %v", len(all), err)
	}
	if _, err := choose("life,nothing"); !errors.Is(err, errors.NotFound) || !strings.Contains(err.Error(), `"nothing"`) {
		t.Errorf("choose = %v, want that nothing is unknown", err)
	}
}

func TestTogetherStopsAtTheFirstFailure(t *testing.T) {
	var done atomic.Int64
	if err := together(100, 7, func(int) error { done.Add(1); return nil }); err != nil || done.Load() != 100 {
		t.Errorf("together = %v after %d of 100", err, done.Load())
	}
	done.Store(0)
	failure := errors.New("no")
	err := together(1000, 2, func(i int) error { done.Add(1); return failure })
	if !errors.Is(err, failure) || done.Load() > 2 {
		t.Errorf("together = %v after %d calls", err, done.Load())
	}
}

func TestMoreMachinesMayTakeLonger(t *testing.T) {
	m := measurement{limit: time.Minute, each: time.Millisecond}
	if d := m.within([]int{1000, 9000}); d != time.Minute+10*time.Second {
		t.Errorf("within = %v, want 1m10s", d)
	}
	for _, m := range measurements() {
		if m.each == 0 && slices.Contains([]string{"bulk", "add", "agents"}, m.name) {
			t.Errorf("the limit of %s is the same for any number of machines", m.name)
		}
	}
}

func TestEveryNth(t *testing.T) {
	all := []string{"a", "b", "c", "d", "e"}
	for n, want := range map[int]string{1: "abcde", 2: "ace", 5: "a"} {
		if got := strings.Join(everyNth(all, n), ""); got != want {
			t.Errorf("every %d = %q, want %q", n, got, want)
		}
	}
}

func TestCountsOfBMCs(t *testing.T) {
	var endpoints []string
	for range 2 {
		b, err := fakebmc.New(fakebmc.Config{})
		if err != nil {
			t.Fatal(err)
		}
		server := httptest.NewServer(b)
		t.Cleanup(func() {
			server.Close()
			_ = b.Close() // its machine is in memory
		})
		resp, err := http.Get(server.URL + "/redfish/v1/")
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close() // its status is not the point
		endpoints = append(endpoints, strings.TrimPrefix(server.URL, "http://"))
	}
	if n, err := requestsOf(t.Context(), endpoints); err != nil || n != 2 {
		t.Errorf("requestsOf = %d, %v, want one for each BMC", n, err)
	}
}
