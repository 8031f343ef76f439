//go:build e2e

package lxd_test

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/slipway-project/slipway/core/base"
	"github.com/slipway-project/slipway/core/instance"
	"github.com/slipway-project/slipway/environs"
	"github.com/slipway-project/slipway/environs/config"
	"github.com/slipway-project/slipway/environs/lxd"
	"github.com/slipway-project/slipway/environs/providertest"
)

// pairs is how many starts of each kind are compared.
const pairs = 12

// TestOverheadOverLaunch measures how much longer a start by the provider takes
// than "lxc launch" of the same image, with the agent in the image, in pairs one
// after another. Its figures are for people to read: they depend on the machine,
// and only a gross regression fails.
func TestOverheadOverLaunch(t *testing.T) {
	longForm(t)
	project := daemon.project(t)
	provider := lxd.New(lxd.Options{Hosts: map[string]string{"a": daemon.address()}})
	cfg, err := config.New(map[string]any{
		config.Name: "m", config.Type: lxd.Name, config.UUID: providertest.Model,
		lxd.ImageKey: "base", lxd.CloudInitKey: false, lxd.HasAgentKey: true, lxd.ProjectKey: project,
	})
	if err == nil {
		cfg, err = provider.Validate(cfg, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	environ, err := provider.Open(t.Context(), environs.OpenParams{ControllerUUID: providertest.Site, Config: cfg})
	if err != nil {
		t.Fatal(err)
	}
	var ours, theirs []time.Duration
	for i := range pairs {
		ours = append(ours, timed(func() {
			p := providertest.Params(providertest.Site, providertest.Model, fmt.Sprint(i), base.Default())
			r, err := environ.StartInstance(t.Context(), p)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _, _ = environ.StopInstances(context.Background(), []instance.ID{r.Instance.ID}) }) // the project's end sees to it
		}))
		theirs = append(theirs, timed(func() { daemon.must(t, "launch", "base", fmt.Sprint("plain-", i), "--project", project) }))
	}
	differences := make([]time.Duration, pairs)
	for i := range pairs {
		differences[i] = ours[i] - theirs[i]
		t.Logf("pair %2d: provider %v, lxc launch %v", i, ours[i].Round(time.Millisecond), theirs[i].Round(time.Millisecond))
	}
	t.Logf("median: provider %v, lxc launch %v, difference %v", median(ours), median(theirs), median(differences))
	if d := median(differences); d > 5*time.Second {
		t.Errorf("a start takes %v longer than a launch", d)
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
