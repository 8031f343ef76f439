package controller_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/juju/errors"
	"go.uber.org/goleak"

	"github.com/slipway-project/slipway/apiserver/common"
	"github.com/slipway-project/slipway/apiserver/facadetest"
	"github.com/slipway-project/slipway/params"
	"github.com/slipway-project/slipway/state"
	"github.com/slipway-project/slipway/state/statetest"
	"github.com/slipway-project/slipway/store/storetest"
)

func TestBlockedModels(t *testing.T) {
	c, site := open(t, facadetest.Superuser)
	if got, err := c.ListBlockedModels(ctx); err != nil || got.Models != nil {
		t.Errorf("ListBlockedModels = %+v, %v, want none", got, err)
	}
	for _, kind := range []string{state.BlockRemove, state.BlockChange} {
		if err := site.Default.Blocks().SwitchOn(ctx, kind, "why"); err != nil {
			t.Fatal(err)
		}
	}
	got, err := c.ListBlockedModels(ctx)
	want := fmt.Sprintf("[{default %s user-admin [BlockChange BlockRemove]}]", site.Default.ModelUUID())
	if err != nil || fmt.Sprint(got.Models) != want {
		t.Errorf("ListBlockedModels = %v, %v, want %v", got.Models, err, want)
	}
	if err := c.RemoveBlocks(ctx, params.RemoveBlocksArgs{}); !errors.Is(err, errors.NotValid) {
		t.Errorf("RemoveBlocks of some = %v, want NotValid", err)
	}
	for range 2 { // none is no error
		if err := c.RemoveBlocks(ctx, params.RemoveBlocksArgs{All: true}); err != nil {
			t.Error(err)
		}
	}
	if got, err := c.ListBlockedModels(ctx); err != nil || got.Models != nil {
		t.Errorf("ListBlockedModels = %+v, %v, want none", got, err)
	}
}

func TestBlockedModelsAreForSuperusers(t *testing.T) {
	c, _ := open(t, facadetest.Writer)
	for name, call := range map[string]func() error{
		"ListBlockedModels": func() error { _, err := c.ListBlockedModels(ctx); return err },
		"RemoveBlocks":      func() error { return c.RemoveBlocks(ctx, params.RemoveBlocksArgs{All: true}) },
		"WatchAllModels":    func() error { _, err := c.WatchAllModels(ctx); return err },
	} {
		if err := call(); !errors.Is(err, errors.Unauthorized) {
			t.Errorf("%s = %v, want it denied", name, err)
		}
	}
}

// text says of deltas what they are about, sorted.
func text(deltas []params.Delta) []string {
	var out []string
	for _, d := range deltas {
		removed := map[bool]string{true: "-"}[d.Removed]
		switch e := d.Entity.(type) {
		case *params.ModelUpdate:
			out = append(out, removed+"model "+e.Name)
		case *params.MachineUpdate:
			out = append(out, removed+"machine "+e.ID)
		}
	}
	slices.Sort(out)
	return out
}

func TestWatchAllModels(t *testing.T) {
	site, _ := statetest.OpenMemory(t) // a store of its own kind has goroutines that come and go
	running := goleak.IgnoreCurrent()
	conn := facadetest.Connect(t, facadetest.Superuser)
	c, err := maker.V3(site.Management, conn)
	if err != nil {
		t.Fatal(err)
	}
	statetest.AddMachine(t, site.Default, state.MachineSpec{})
	got, err := c.WatchAllModels(ctx)
	if err != nil {
		t.Fatal(err)
	}
	w := conn.Resources.Get(got.WatcherID).(common.Deltas)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	next := func() []string {
		t.Helper()
		deltas, err := w.Next(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return text(deltas)
	}
	until := func(wanted ...string) { // each of them is told, before long
		t.Helper()
		for len(wanted) > 0 {
			told := next()
			wanted = slices.DeleteFunc(wanted, func(one string) bool { return slices.Contains(told, one) })
		}
	}
	// The change that has just been made may be told once more.
	if told := slices.Compact(next()); !slices.Equal(told, []string{"machine 0", "model controller", "model default"}) {
		t.Errorf("first told %q, want everything", told)
	}
	statetest.AddMachine(t, site.Default, state.MachineSpec{})
	until("machine 1")
	m, err := site.Models().Add(ctx, state.ModelSpec{Name: "new", Owner: statetest.AdminName, Config: map[string]any{"type": statetest.ProviderType}})
	if err != nil {
		t.Fatal(err)
	}
	until("model new")
	if err := m.Destroy(ctx); err != nil {
		t.Fatal(err)
	}
	until("model new")
	for range 5 {
		if _, err := site.Cleanups().Run(ctx, time.Now().Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	until("-model ") // a removal names the UUID alone

	// Who waits is released.
	done := make(chan error, 1)
	go func() {
		for {
			if _, err := w.Next(ctx); err != nil {
				done <- err
				return
			}
		}
	}()
	if err := conn.Resources.Stop(got.WatcherID); err != nil {
		t.Error(err)
	}
	if err := <-done; !errors.Is(err, common.ErrStopped) {
		t.Errorf("Next of a watcher that was stopped = %v", err)
	}
	conn.Resources.StopAll()
	goleak.VerifyNone(t, running)
}

// A watcher that is stopped while it reads ends as one that waits.
func TestAWatcherIsStoppedWhileItReads(t *testing.T) {
	site, tap := statetest.OpenMemory(t)
	conn := facadetest.Connect(t, facadetest.Superuser)
	c, err := maker.V3(site.Management, conn)
	if err != nil {
		t.Fatal(err)
	}
	reads := make(chan struct{}, 100)
	tap.SetBefore(func(ctx context.Context, c storetest.Call) error {
		if c.Method != "Get" || c.Keys[0].Collection != "models" {
			return nil
		}
		reads <- struct{}{}
		<-ctx.Done()
		return ctx.Err()
	})
	got, err := c.WatchAllModels(ctx)
	if err != nil {
		t.Fatal(err)
	}
	<-reads
	if err := conn.Resources.Stop(got.WatcherID); err != nil {
		t.Errorf("Stop = %v", err)
	}
}
