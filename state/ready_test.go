package state_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/slipway-project/slipway/environs/config"
	"github.com/slipway-project/slipway/state"
	"github.com/slipway-project/slipway/state/statetest"
	"github.com/slipway-project/slipway/watcher"
)

// reader is a watcher with a way to look for an event.
type reader struct {
	watcher.Waker
	look func() (event, open bool)
}

func readerOf[T any](w watcher.Watcher, changes <-chan T) reader {
	return reader{w.(watcher.Waker), func() (event, open bool) {
		select {
		case _, ok := <-changes:
			return ok, ok
		default:
			return false, true
		}
	}}
}

// woken returns a channel that is closed when the watcher may have something.
func (r reader) woken() <-chan struct{} {
	c := make(chan struct{})
	r.WhenReady(func() { close(c) }) // a second call would panic
	return c
}

func wantWoken(t *testing.T, what string, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(patience):
		t.Fatalf("%s: not woken", what)
	}
}

func TestWatchersWakeTheirReaders(t *testing.T) {
	site, _ := statetest.OpenMemory(t)
	m := statetest.AddMachine(t, site.Default, state.MachineSpec{})
	machines, err := site.Default.Machines().Watch(ctx)
	must(t, err)
	parts, err := m.Watch(ctx)
	must(t, err)
	settings := site.Default.ModelConfig().Watch()
	changes := site.Default.WatchChanges()
	set := func(port int) config.Update {
		return config.Update{Set: map[string]any{"http-proxy": fmt.Sprintf("http://p:%d", port)}}
	}
	tests := []struct {
		name   string
		w      reader
		change func() error
	}{
		{"machines", readerOf(machines, machines.Changes()), func() error {
			statetest.AddMachine(t, site.Default, state.MachineSpec{})
			return nil
		}},
		{"a machine", readerOf(parts, parts.Changes()), func() error { return m.SetHostname(ctx, "a-name") }},
		{"the configuration", readerOf(settings, settings.Changes()), func() error {
			return site.Default.ModelConfig().Update(ctx, set(7))
		}},
		{"everything", readerOf(changes, changes.Changes()), func() error {
			return site.Default.ModelConfig().Update(ctx, set(8))
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			wantWoken(t, "for the first event", test.w.woken())
			for event := true; event; event, _ = test.w.look() {
				flush(t, site) // what the other tests changed has come
			}
			first, second := test.w.woken(), test.w.woken()
			select {
			case <-first:
				t.Fatal("woken for nothing")
			default:
			}
			must(t, test.change())
			wantWoken(t, "for a change", first)
			wantWoken(t, "for a change, as the second reader", second)
			if event, open := test.w.look(); !event || !open {
				t.Errorf("woken without an event (open: %v)", open)
			}
			last := test.w.woken()
			test.w.Kill()
			wantWoken(t, "for the end", last)
			if _, open := test.w.look(); open {
				t.Error("woken for the end, but the channel is open")
			}
			wantWoken(t, "after the end", test.w.woken())
		})
	}
}
