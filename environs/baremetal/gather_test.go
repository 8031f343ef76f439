package baremetal_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/environs"
	"github.com/slipway-project/slipway/params"
)

// desk holds up calls for hosts, and notes how many machines each is for.
type desk struct {
	pass chan error // lets one call go on, or fail

	mu    sync.Mutex
	calls []int
}

func (d *desk) hold(ctx context.Context, machines []params.AllocateHost) error {
	d.mu.Lock()
	d.calls = append(d.calls, len(machines))
	d.mu.Unlock()
	select {
	case err := <-d.pass:
		return err
	case <-ctx.Done():
		return errors.Trace(ctx.Err())
	}
}

func (d *desk) seen() []int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.calls)
}

// starts starts machines from the first to before the last, each in a goroutine of its
// own, and returns where their errors come. change may be nil.
func starts(ctx context.Context, e environs.Environ, first, last int, change func(*environs.StartInstanceParams)) chan error {
	ended := make(chan error, last-first)
	for i := first; i < last; i++ {
		go func() {
			p := start(fmt.Sprint(i))
			if change != nil {
				change(&p)
			}
			r, err := e.StartInstance(ctx, p)
			if err == nil && r.Instance.Owner.MachineID != p.Owner.MachineID {
				err = errors.Errorf("machine %s got the instance of machine %s", p.Owner.MachineID, r.Instance.Owner.MachineID)
			}
			ended <- err
		}()
	}
	synctest.Wait()
	return ended
}

// opened returns an environ on n hosts whose calls are held up.
func opened(t *testing.T, n int) (environs.Environ, *desk) {
	d := &desk{pass: make(chan error)}
	s := newSite(n)
	s.hold = d.hold
	return open(t, provider(s), nil), d
}

func TestStartsAtATimeShareACall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, d := opened(t, 300)
		first := starts(t.Context(), e, 0, 1, nil)
		if got := d.seen(); !slices.Equal(got, []int{1}) {
			t.Fatalf("calls for %v machines, want the first to go at once", got)
		}
		others := starts(t.Context(), e, 1, 251, nil)
		for range 4 {
			d.pass <- nil
		}
		for i := range 251 {
			from := others
			if i == 0 {
				from = first
			}
			if err := <-from; err != nil {
				t.Error(err)
			}
		}
		if got := d.seen(); !slices.Equal(got, []int{1, 100, 100, 50}) {
			t.Errorf("calls for %v machines", got)
		}
		again := starts(t.Context(), e, 251, 252, nil)
		d.pass <- nil
		if err := <-again; err != nil {
			t.Errorf("a start after all others: %v", err)
		}
	})
}

func TestACallIsNoLongerThanAServerTakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, d := opened(t, 10)
		big := func(p *environs.StartInstanceParams) { p.InstanceConfig.CACert += strings.Repeat("x", 200<<10) }
		ended := starts(t.Context(), e, 0, 1, nil)
		others := starts(t.Context(), e, 1, 6, big)
		for range 4 {
			d.pass <- nil
		}
		for range 5 {
			if err := <-others; err != nil {
				t.Error(err)
			}
		}
		if got := d.seen(); <-ended != nil || !slices.Equal(got, []int{1, 2, 2, 1}) {
			t.Errorf("calls for %v machines, want two of 200 KiB in each", got)
		}
	})
}

func TestAFailedCallIsThatOfAllInIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, d := opened(t, 10)
		first := starts(t.Context(), e, 0, 1, nil)
		others := starts(t.Context(), e, 1, 4, nil)
		d.pass <- nil
		d.pass <- errors.New("boom")
		if err := <-first; err != nil {
			t.Errorf("the call before: %v", err)
		}
		for range 3 {
			if err := <-others; err == nil || !strings.Contains(err.Error(), "boom") {
				t.Errorf("start = %v, want the call's error", err)
			}
		}
	})
}

// Who gives a start up neither waits for the others nor ends theirs.
func TestAStartThatIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, d := opened(t, 10)
		gaveUp := func(ended chan error) {
			t.Helper()
			synctest.Wait()
			select {
			case err := <-ended:
				if !errors.Is(err, context.Canceled) {
					t.Errorf("start = %v, want it cancelled", err)
				}
			default:
				t.Error("a start that was given up goes on")
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		alone := starts(ctx, e, 0, 1, nil)
		inTime, stop := context.WithCancel(t.Context())
		waiting := starts(inTime, e, 1, 2, nil)
		stop()
		gaveUp(waiting) // before it is asked for
		cancel()
		gaveUp(alone) // with its call
		ctx, cancel = context.WithCancel(t.Context())
		first := starts(t.Context(), e, 2, 3, nil)
		shared := starts(ctx, e, 3, 4, nil)
		other := starts(t.Context(), e, 4, 5, nil)
		d.pass <- nil
		synctest.Wait()
		cancel()
		gaveUp(shared) // in a call that goes on
		d.pass <- nil
		if a, b := <-first, <-other; a != nil || b != nil {
			t.Errorf("starts beside those that were given up: %v, %v", a, b)
		}
		if got := d.seen(); !slices.Equal(got, []int{1, 1, 2}) {
			t.Errorf("calls for %v machines, want none for one that was given up in time", got)
		}
		if done := starts(ctx, e, 5, 6, nil); !errors.Is(<-done, context.Canceled) {
			t.Error("a start that was given up before it began goes on")
		}
	})
}
