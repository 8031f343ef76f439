//go:build e2e

package lxd_test

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/slipway-project/slipway/environs/lxd"
)

// TestOverheadOverLaunch measures how much longer a start by the provider takes
// than "lxc launch" of the same image with the same devices, until the container
// runs, in pairs one after another: 100 containers, which all stay. Its figures are
// for people to read: they depend on the machine, and only a gross regression
// fails.
func TestOverheadOverLaunch(t *testing.T) {
	longForm(t)
	for _, c := range []struct {
		name  string
		pairs int
		attrs map[string]any
		api   string // where the API is
		proxy bool   // whether LXD carries the API to the container
	}{
		{"over the containers' own network", 50, map[string]any{lxd.BridgeKey: true}, "198.51.100.1:17070", false},
		{"with a proxy device", 10, nil, "127.0.0.1:17070", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			attrs := map[string]any{lxd.ProjectKey: daemon.project(t)}
			maps.Copy(attrs, c.attrs)
			e := open(t, map[string]string{"a": daemon.address()}, attrs)
			launch := []string{"launch", "base", "--project", attrs[lxd.ProjectKey].(string), "--profile", "default"}
			if c.proxy {
				daemon.must(t, "profile", "create", "proxied")
				t.Cleanup(func() { daemon.must(t, "profile", "delete", "proxied") })
				daemon.must(t, "profile", "device", "add", "proxied", "api", "proxy", "bind=instance", "listen=tcp:127.0.0.1:17070", "connect=tcp:127.0.0.1:17070")
				launch = append(launch, "--profile", "proxied")
			}
			var ours, theirs, differences []time.Duration
			for i := range c.pairs {
				p := params(i)
				p.InstanceConfig.APIAddresses = []string{c.api}
				ours = append(ours, timed(func() {
					if _, err := e.StartInstance(t.Context(), p); err != nil {
						t.Fatal(err)
					}
				}))
				name := fmt.Sprint("plain-", i)
				theirs = append(theirs, timed(func() { daemon.must(t, append(launch, name)...) }))
				if c.proxy {
					t.Cleanup(func() { daemon.must(t, "delete", "--force", "--project", attrs[lxd.ProjectKey].(string), name) })
				}
				differences = append(differences, ours[i]-theirs[i])
				t.Logf("pair %2d: provider %4d ms, lxc launch %4d ms", i, ours[i].Milliseconds(), theirs[i].Milliseconds())
			}
			t.Logf("median of %d pairs: provider %v, lxc launch %v, difference %v", c.pairs, median(ours), median(theirs), median(differences))
			if d := median(differences); d > 2*time.Second {
				t.Errorf("a start takes %v longer than a launch", d)
			}
		})
	}
}

func timed(f func()) time.Duration {
	began := time.Now()
	f()
	return time.Since(began)
}

// median returns the middle one, to the millisecond.
func median(all []time.Duration) time.Duration {
	sorted := slices.Clone(all)
	slices.SortFunc(sorted, cmp.Compare)
	return sorted[len(sorted)/2].Round(time.Millisecond)
}
