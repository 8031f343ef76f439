package host_test

import (
	"context"
	"testing"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/internal/hostkey"
	"github.com/slipway-project/slipway/state"
	"github.com/slipway-project/slipway/state/host"
	"github.com/slipway-project/slipway/state/statetest"
	"github.com/slipway-project/slipway/store/storetest"
)

// What was sealed with a key, and is only about to be written when the key is replaced, is sealed
// anew before the key is dropped: the credentials of a host that is being added, and the
// data of a machine that is being given one.
func TestAKeyIsNeededUntilWhatItSealedIsWritten(t *testing.T) {
	t.Run("credentials", func(t *testing.T) {
		checkSettle(t, state.HostsCollection, 1, func(_ *statetest.Site, hosts *host.Hosts) error {
			_, err := hosts.Add(ctx, spec("late", ""))
			return err
		})
	})
	t.Run("data", func(t *testing.T) {
		checkSettle(t, state.HostDataCollection, 2, func(site *statetest.Site, hosts *host.Hosts) error {
			rack(t, site, manager(t, site, "m"), "/late")
			q := host.Request{Data: host.Data{UserData: "hush"}}
			_, _, err := allocate(hosts, site.Default, statetest.AddMachine(t, site.Default, state.MachineSpec{}), q)
			return err
		})
	})
}

// checkSettle replaces the key while write writes a document of a collection, after which
// so many are sealed.
func checkSettle(t *testing.T, collection string, sealed int, write func(*statetest.Site, *host.Hosts) error) {
	held, release := make(chan struct{}, 10), make(chan struct{}) // it is written again later
	tap := storetest.NewTap(storetest.New(t, state.Collections()))
	tap.SetBefore(func(_ context.Context, c storetest.Call) error {
		for _, op := range c.Ops {
			if op.Key.Collection == collection && op.Key.ID == "_:late" {
				held <- struct{}{}
				<-release
			}
		}
		return nil
	})
	old := hostkey.New()
	site := statetest.OpenWith(t, statetest.Config{Store: tap, Options: state.Options{HostKeys: old}})
	docs := site.SiteDocs()
	hosts := host.New(docs)
	added := make(chan error, 1)
	go func() { added <- write(site, hosts) }()
	select {
	case <-held:
	case <-time.After(time.Minute):
		t.Fatal("nothing was written")
	}
	keys := old.WithNew().Retiring()
	docs.SetKeys(keys)
	for range 2 { // a wait that is broken off, and begun anew, still waits for it
		soon, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
		if err := docs.Settle(soon); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Settle = %v although a write is under way", err)
		}
		cancel()
	}
	close(release)
	must(t, <-added)
	must(t, docs.Settle(ctx))
	if n, err := hosts.Reseal(ctx); n != sealed || err != nil {
		t.Errorf("Reseal = %d, %v", n, err)
	}
	kept, _ := keys.Kept()
	must(t, hosts.CheckKeys(ctx, kept))
}
