package pid1

import (
	"context"
	"os"
	"sync"
	"time"

	"github.com/juju/errors"
	"golang.org/x/sys/unix"
)

// defaultWatchdog is the longest silence before the hardware resets the machine.
const defaultWatchdog = 2 * time.Minute

// Dog is an open watchdog.
type Dog interface {
	// Feed keeps it quiet for its time.
	Feed() error
	// Release tells it that its end is meant, and closes it.
	Release() error
}

// OpenDog opens the hardware watchdog of the machine. The error satisfies
// errors.NotFound if there is none.
func OpenDog(path string, timeout time.Duration) (Dog, error) {
	if timeout <= 0 {
		timeout = defaultWatchdog
	}
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return nil, errNoWatchdog
	}
	if err := unix.IoctlSetPointerInt(int(f.Fd()), unix.WDIOC_SETTIMEOUT, int(timeout.Seconds())); err != nil {
		logger.Warningf("watchdog keeps its own time: %v", err)
	}
	return fileDog{f}, nil
}

type fileDog struct{ f *os.File }

func (d fileDog) Feed() error {
	_, err := d.f.Write([]byte{0})
	return errors.Annotate(err, "cannot feed watchdog")
}

// Release implements Dog: a V says that the close is meant (Linux watchdog API).
func (d fileDog) Release() error {
	_, err := d.f.WriteString("V")
	if cerr := d.f.Close(); err == nil {
		err = cerr
	}
	return errors.Annotate(err, "cannot release watchdog")
}

// Guarded feeds a watchdog for as long as the program makes progress: alive is called
// before each feeding and must return true.
type Guarded struct {
	dog  Dog
	stop context.CancelFunc
	wg   sync.WaitGroup
}

// Keep starts feeding dog every time.
func Keep(dog Dog, every time.Duration, alive func() bool) *Guarded {
	ctx, cancel := context.WithCancel(context.Background())
	g := &Guarded{dog: dog, stop: cancel}
	g.wg.Go(func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			if alive() {
				if err := dog.Feed(); err != nil {
					logger.Warningf("%v", err)
				}
			}
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
		}
	})
	return g
}

// Stop ends the feeding. With release the watchdog is told so; without, it will
// reset a machine that does not leave by itself.
func (g *Guarded) Stop(release bool) {
	g.stop()
	g.wg.Wait()
	if release {
		if err := g.dog.Release(); err != nil {
			logger.Warningf("%v", err)
		}
		return
	}
	if err := g.dog.Feed(); err != nil {
		logger.Warningf("%v", err)
	}
}
