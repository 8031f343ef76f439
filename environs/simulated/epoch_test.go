package simulated_test

import (
	"context"
	"runtime"
	"testing"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/core/kind"
	"github.com/slipway-project/slipway/environs/simulated"
)

// TestLateWorkersAreRefused has a worker come back that was held up while another took
// its place.
func TestLateWorkersAreRefused(t *testing.T) {
	r := newRack(t, instant())
	if err := r.AddFault(t.Context(), simulated.MachineFault{MachineID: "0", Times: 1, Kind: simulated.FaultHang}); err != nil {
		t.Fatal(err)
	}
	late, next := request(t, "0"), request(t, "0")
	late.Epoch, next.Epoch = 1, 2
	next.Agent.Nonce = "another"
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := r.Start(ctx, late)
		done <- err
	}()
	for len(mustList(t, r)) == 0 { // until the start is under way
		runtime.Gosched()
	}
	list := mine
	list.Epoch = 2
	if all, err := r.List(t.Context(), list); err != nil || len(all) != 0 {
		t.Errorf("what the next worker finds: %v, %v, want nothing", all, err)
	}
	i := mustStart(t, r, next)
	cancel()
	if err := <-done; err == nil {
		t.Error("the start of the late worker succeeded")
	}
	if _, err := r.Start(t.Context(), late); !errors.Is(err, kind.LeaseDenied) {
		t.Errorf("late start = %v, want it refused", err)
	}
	q := stop(i.ID)
	q.Epoch = 1
	if _, err := r.Stop(t.Context(), q); !errors.Is(err, kind.LeaseDenied) {
		t.Errorf("late stop = %v, want it refused", err)
	}
	list.Epoch = 1
	if _, err := r.List(t.Context(), list); !errors.Is(err, kind.LeaseDenied) {
		t.Errorf("late list = %v, want it refused", err)
	}
	if all := mustList(t, r); len(all) != 1 || all[0].Nonce != "another" {
		t.Errorf("instances: %v, want that of the next worker", all)
	}
}
