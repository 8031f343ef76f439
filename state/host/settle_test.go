package host_test

import (
	"context"
	"testing"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/environs/baremetal/bmc"
	"github.com/slipway-project/slipway/internal/hostkey"
	"github.com/slipway-project/slipway/state"
	"github.com/slipway-project/slipway/state/host"
	"github.com/slipway-project/slipway/state/statetest"
	"github.com/slipway-project/slipway/store/storetest"
)

// What was sealed with a key, and is only about to be written when the key is replaced, is sealed
// anew before the key is dropped.
func TestAKeyIsNeededUntilWhatItSealedIsWritten(t *testing.T) {
	held, release := make(chan struct{}, 10), make(chan struct{}) // it is written again later
	tap := storetest.NewTap(storetest.New(t, state.Collections()))
	tap.SetBefore(func(_ context.Context, c storetest.Call) error {
		for _, op := range c.Ops {
			if op.Key.Collection == state.HostsCollection && op.Key.ID == "_:late" {
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
	go func() {
		s := host.Spec{Name: "late", Credentials: bmc.Credentials{Username: "root", Password: "calvin"}}
		s.Spec.BMC.Address = "simulated://late"
		_, err := hosts.Add(ctx, s)
		added <- err
	}()
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
	if n, err := hosts.Reseal(ctx); n != 1 || err != nil {
		t.Errorf("Reseal = %d, %v", n, err)
	}
	kept, _ := keys.Kept()
	must(t, hosts.CheckKeys(ctx, kept))
}
