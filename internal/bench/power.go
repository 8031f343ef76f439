package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/api/hosts"
	"github.com/slipway-project/slipway/environs/baremetal/fakebmc"
	metal3v1alpha1 "github.com/slipway-project/slipway/environs/baremetal/metal3/v1alpha1"
)

const (
	// mostPowered is how many hosts' power is read at the most.
	mostPowered = 10000
	// bmcsEach is how many BMCs are in one process, which has a listener and a
	// connection for each and may have 20,000 files open, as many systems have it.
	bmcsEach = 5000
	// sampled is about how many BMCs are asked how many requests they got.
	sampled = 100
)

// power measures what it takes to read the power of hosts every minute, each with a BMC
// of its own that speaks Redfish, in other processes and over connections that are
// kept.
func (b *bench) power(ctx context.Context) error {
	n := min(slices.Max(b.machines), mostPowered)
	s, err := b.newSite(ctx)
	if err != nil {
		return errors.Trace(err)
	}
	defer s.stop()
	endpoints, err := s.startBMCs(ctx, n)
	if err != nil {
		return errors.Trace(err)
	}
	worker, err := s.careForHosts()
	if err != nil {
		return errors.Trace(err)
	}
	conn, err := s.openSite(ctx)
	if err != nil {
		return errors.Trace(err)
	}
	defer conn.Close() // nothing is under way
	c, began := hosts.New(conn), time.Now()
	err = addAll(ctx, c, n, func(i int) metal3v1alpha1.BareMetalHostSpec {
		return metal3v1alpha1.BareMetalHostSpec{
			BMC:            metal3v1alpha1.BMCDetails{Address: "redfish+http://" + endpoints[i] + "/redfish/v1/Systems/1"},
			BootMACAddress: fmt.Sprintf("52:54:00:00:%02x:%02x", i>>8, i&0xff),
		}
	})
	if err != nil {
		return errors.Trace(err)
	}
	if err := awaitReady(ctx, c, n); err != nil {
		return errors.Trace(err)
	}
	registered := time.Since(began)
	sample := everyNth(endpoints, max(1, n/sampled))
	requests, err := awaitReads(ctx, sample)
	if err != nil {
		return errors.Trace(err)
	}
	before, began := [2]time.Duration{s.controller.cpu(), worker.cpu()}, time.Now()
	select {
	case <-time.After(b.refreshing):
	case <-ctx.Done():
		return errors.Trace(ctx.Err())
	}
	elapsed, used, server := time.Since(began), worker.cpu()-before[1], s.controller.cpu()-before[0]
	after, err := requestsOf(ctx, sample)
	if err != nil {
		return errors.Trace(err)
	}
	reads := float64(after-requests) / float64(len(sample))
	b.report(fmt.Sprintf("power/hosts=%d", n), 1,
		figure{100 * used.Seconds() / elapsed.Seconds(), "%-of-a-core-worker"}, figure{100 * server.Seconds() / elapsed.Seconds(), "%-of-a-core-server"},
		figure{reads, "reads/host"}, figure{elapsed.Seconds(), "s"}, per(used, int(reads*float64(n)), "worker-µs/read"),
		figure{worker.memory(), "worker-MiB"}, figure{registered.Seconds(), "s-to-register"})
	return nil
}

// everyNth returns each nth of all.
func everyNth(all []string, n int) []string {
	var some []string
	for i := 0; i < len(all); i += n {
		some = append(some, all[i])
	}
	return some
}

// settled is how long few BMCs are left alone once their hosts are registered and at
// rest; many are never all left alone.
const settled = 10 * time.Second

// awaitReads waits until the reads of a minute begin, and returns how many requests the
// BMCs have got. Of many there are some all the time, and a minute is enough.
func awaitReads(ctx context.Context, some []string) (int64, error) {
	var before int64
	began := time.Now()
	since := began
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		now, err := requestsOf(ctx, some)
		if err != nil {
			return 0, errors.Trace(err)
		}
		if now > before {
			if time.Since(since) > settled || time.Since(began) > time.Minute {
				return now, nil
			}
			before, since = now, time.Now()
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return 0, errors.Annotate(ctx.Err(), "no BMC is asked for its power")
		}
	}
}

// startBMCs starts BMCs and returns their addresses.
func (s *site) startBMCs(ctx context.Context, n int) ([]string, error) {
	var endpoints []string
	for at := 0; at < n; at += bmcsEach {
		part := min(bmcsEach, n-at)
		port, err := freePort()
		if err != nil {
			return nil, errors.Trace(err)
		}
		p, _, err := s.b.until(ctx, fmt.Sprintf("%d BMCs ", part), fmt.Sprintf("bmcs-%d", at), "fakebmcd",
			"--bmcs", fmt.Sprint(part), "--port", port, "--log", "ERROR", "--power-on", "0s", "--power-off", "0s", "--soft-off", "0s")
		if err != nil {
			return nil, errors.Trace(err)
		}
		s.others = append(s.others, p)
		for i := range part {
			endpoints = append(endpoints, net.JoinHostPort(fakebmc.AddressOf(i), port))
		}
	}
	return endpoints, nil
}

// freePort returns a port that is free at the first BMC's address. The others' addresses
// are used by BMCs alone.
func freePort() (string, error) {
	l, err := net.Listen("tcp", net.JoinHostPort(fakebmc.AddressOf(0), "0"))
	if err != nil {
		return "", errors.Trace(err)
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	return port, errors.Trace(err)
}

// awaitReady waits until so many hosts are ready and rest, some after the others.
func awaitReady(ctx context.Context, c *hosts.Client, n int) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	var names []string
	for at := 0; at < n || len(names) > 0; {
		for ; at < n && len(names) < batch; at++ {
			names = append(names, hostName(at))
		}
		list, err := c.List(ctx, names...)
		if err != nil {
			return errors.Trace(err)
		}
		var last string
		names = names[:0]
		for _, r := range list {
			var h metal3v1alpha1.BareMetalHost
			if r.Err != nil {
				return errors.Trace(r.Err)
			}
			if err := json.Unmarshal(r.Value.Record, &h); err != nil {
				return errors.Trace(err)
			}
			if h.Status.Provisioning.State != metal3v1alpha1.StateReady || h.Status.HardwareProfile == "" {
				names, last = append(names, r.Value.Name), r.Value.Progress.Reason
			}
		}
		if len(names) == 0 {
			continue
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return errors.Annotatef(ctx.Err(), "host %s is not ready: %s", names[len(names)-1], last)
		}
	}
	return nil
}

// requestsOf returns how many requests BMCs got altogether.
func requestsOf(ctx context.Context, endpoints []string) (int64, error) {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	var sum int64
	for _, e := range endpoints {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+e+"/fakebmc/stats", nil)
		if err != nil {
			return 0, errors.Trace(err)
		}
		resp, err := client.Do(r)
		if err != nil {
			return 0, errors.Annotate(err, "cannot ask a BMC for its counts")
		}
		var stats fakebmc.Stats
		err = json.NewDecoder(resp.Body).Decode(&stats)
		_ = resp.Body.Close() // it has been read
		if err != nil {
			return 0, errors.Annotate(err, "cannot read a BMC's counts")
		}
		sum += stats.Requests
	}
	return sum, nil
}
