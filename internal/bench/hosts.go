package main

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/api"
	"github.com/slipway-project/slipway/api/hosts"
	metal3v1alpha1 "github.com/slipway-project/slipway/environs/baremetal/metal3/v1alpha1"
	"github.com/slipway-project/slipway/params"
)

// mostHosts is how many hosts are measured at the most.
const mostHosts = 1000

// hosts measures how long simulated bare-metal hosts without delays take from their
// addition, by one call, until all are provisioned. What cares for them is a process
// of its own.
func (b *bench) hosts(ctx context.Context) error {
	n := min(slices.Max(b.machines), mostHosts)
	s, err := b.newSite(ctx)
	if err != nil {
		return errors.Trace(err)
	}
	defer s.stop()
	worker, err := s.careForHosts()
	if err != nil {
		return errors.Trace(err)
	}
	conn, err := s.openSite(ctx)
	if err != nil {
		return errors.Trace(err)
	}
	defer conn.Close() // nothing is under way
	c := hosts.New(conn)
	before := [2]time.Duration{s.controller.cpu(), worker.cpu()}
	began := time.Now()
	if err := addHosts(ctx, c, n); err != nil {
		return errors.Trace(err)
	}
	added := time.Since(began)
	if err := awaitProvisioned(ctx, c, n); err != nil {
		return errors.Trace(err)
	}
	elapsed := time.Since(began)
	b.report(fmt.Sprintf("hosts/hosts=%d", n), 1,
		figure{elapsed.Seconds(), "s"}, figure{added.Seconds(), "s-to-add"}, figure{float64(n) / elapsed.Seconds(), "hosts/s"},
		per(s.controller.cpu()-before[0], n*1000, "server-ms/host"), per(worker.cpu()-before[1], n*1000, "worker-ms/host"))
	return nil
}

// careForHosts starts what cares for the site's hosts.
func (s *site) careForHosts() (*process, error) {
	worker, err := s.b.work("worker", "provisionerd", "model", "--agent-file", filepath.Join(s.dir, "agents", "machine-0.yaml"), "--logging", "<root>=ERROR")
	if err != nil {
		return nil, errors.Trace(err)
	}
	s.others = append(s.others, worker)
	return worker, nil
}

// openSite connects the person to the site, and to no model.
func (s *site) openSite(ctx context.Context) (*api.Conn, error) {
	info := s.person
	info.ModelUUID = ""
	conn, err := api.Open(ctx, info, api.DialOptions{})
	return conn, errors.Trace(err)
}

// addHosts adds simulated hosts that are to get an image.
func addHosts(ctx context.Context, c *hosts.Client, n int) error {
	return addAll(ctx, c, n, func(i int) metal3v1alpha1.BareMetalHostSpec {
		return metal3v1alpha1.BareMetalHostSpec{
			Online: true, BMC: metal3v1alpha1.BMCDetails{Address: "simulated://" + hostName(i)},
			Image: &metal3v1alpha1.Image{URL: "http://images.example.com/a"},
		}
	})
}

func hostName(i int) string { return fmt.Sprintf("host-%d", i) }

// addAll adds hosts, some in each call. None is inspected that has no image to get.
func addAll(ctx context.Context, c *hosts.Client, n int, specOf func(i int) metal3v1alpha1.BareMetalHostSpec) error {
	var add []params.AddHost
	for i := range n {
		spec := specOf(i)
		one := params.AddHost{Name: hostName(i), Credentials: params.HostCredentials{Username: "root", Password: password}}
		if spec.Image == nil {
			one.Annotations = map[string]string{metal3v1alpha1.InspectAnnotation: "disabled"}
		}
		var err error
		if one.Spec, err = json.Marshal(spec); err != nil {
			return errors.Trace(err)
		}
		if add = append(add, one); len(add) < batch && i < n-1 {
			continue
		}
		results, err := c.Add(ctx, add...)
		if err != nil {
			return errors.Trace(err)
		}
		for _, r := range results {
			if r.Err != nil {
				return errors.Trace(r.Err)
			}
		}
		add = add[:0]
	}
	return nil
}

// awaitProvisioned waits until so many hosts are provisioned.
func awaitProvisioned(ctx context.Context, c *hosts.Client, n int) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		list, err := c.List(ctx)
		if err != nil {
			return errors.Trace(err)
		}
		done := 0
		for _, r := range list {
			var h metal3v1alpha1.BareMetalHost
			if err := json.Unmarshal(r.Value.Record, &h); err != nil {
				return errors.Trace(err)
			}
			if h.Status.Provisioning.State == metal3v1alpha1.StateProvisioned {
				done++
			}
		}
		if done == n {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return errors.Annotatef(ctx.Err(), "only %d of %d hosts are provisioned", done, n)
		}
	}
}
