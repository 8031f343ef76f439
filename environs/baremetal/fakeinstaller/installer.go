package fakeinstaller

import (
	"context"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/juju/errors"
	"github.com/juju/loggo"

	"github.com/slipway-project/slipway/environs/baremetal/fakebmc"
	"github.com/slipway-project/slipway/environs/simulated"
	"github.com/slipway-project/slipway/provision/config"
	"github.com/slipway-project/slipway/provision/media"
)

var logger = loggo.GetLogger("slipway.environs.baremetal.fakeinstaller")

// Options say how machines behave. The zero value is usable: all goes well, at once.
type Options struct {
	// Media is what media are fetched with; nil means http.DefaultClient. A BMC believes
	// what its own people told it to, which is not what the medium says.
	Media *http.Client
	// Time is how long an installation or a wipe takes beside what it really does.
	Time time.Duration
	// Failures is the share of machines, 0 to 1, on which an installation fails, every
	// time and in the same step. Which ones follows from Seed; see Fails.
	Failures float64
	Seed     uint64
	// Agent is run by machines that boot from a disk with an agent file; nil means that
	// there is none.
	Agent simulated.AgentFunc
	// Pause is between a failure and the restart of the machine; 0 means 30 seconds.
	Pause time.Duration
}

// Fails says whether an installation fails on the machine of that number in its rack, and in
// which step.
func (o Options) Fails(number int) (step string, fails bool) {
	dice := rand.New(rand.NewPCG(o.Seed, uint64(number)))
	if dice.Float64() >= o.Failures {
		return "", false
	}
	steps := []string{stepHealth, stepDetect, stepStream, stepEntry}
	return steps[dice.IntN(len(steps))], true
}

// Installer is what machines run. Its methods may be called from any goroutine.
type Installer struct {
	o Options

	mu    sync.Mutex
	disks map[*fakebmc.System]config.Secret // user data of what is installed
}

// New returns what machines run.
func New(o Options) *Installer {
	if o.Media == nil {
		o.Media = http.DefaultClient
	}
	if o.Pause == 0 {
		o.Pause = 30 * time.Second
	}
	return &Installer{o: o, disks: map[*fakebmc.System]config.Secret{}}
}

// Boot is what a machine does once it is on, for fakebmc.Memory.
func (i *Installer) Boot(ctx context.Context, s *fakebmc.System, b fakebmc.Boot) fakebmc.End {
	switch b.Source {
	case fakebmc.BootHdd:
		i.mu.Lock()
		data := i.disks[s]
		i.mu.Unlock()
		i.system(ctx, s, data)
		return fakebmc.Stays
	case fakebmc.BootCd, fakebmc.BootHTTP:
		boot, err := i.bootFile(ctx, b)
		if err != nil {
			if ctx.Err() == nil {
				logger.Infof("machine %d does not start from what it was given: %v", s.Number(), err)
			}
			return fakebmc.Stays
		}
		return i.installer(ctx, s, boot)
	}
	return fakebmc.Stays
}

// bootFile reads the boot file of what a machine starts from.
func (i *Installer) bootFile(ctx context.Context, b fakebmc.Boot) (*config.Boot, error) {
	ctx, cancel := context.WithTimeout(ctx, mediumTimeout)
	defer cancel()
	r := &remote{ctx: ctx, client: i.o.Media, url: b.URL}
	if b.Source == fakebmc.BootHTTP {
		return media.ReadProgramBoot(r)
	}
	boot, err := media.ReadBoot(r)
	if r.failed != nil { // what makes no medium of it
		return nil, r.failed
	}
	return boot, err
}

// mediumTimeout bounds how long a medium may take to be read.
const mediumTimeout = 2 * time.Minute

// installer is a machine that has started the installer. It returns how the machine leaves.
func (i *Installer) installer(ctx context.Context, s *fakebmc.System, boot *config.Boot) fakebmc.End {
	client, err := config.NewClient(boot)
	if err != nil {
		logger.Infof("machine %d: %v", s.Number(), err)
		return fakebmc.Stays
	}
	defer client.Close()
	end, err := i.order(ctx, s, boot, client)
	switch {
	case ctx.Err() != nil: // somebody has pressed the button
		return fakebmc.Stays
	case errors.Is(err, config.ErrRefused):
		logger.Infof("machine %d: the controller does not want this boot: %v", s.Number(), err)
		return fakebmc.GoesOff
	case err != nil:
		logger.Infof("machine %d: %v", s.Number(), err)
		if !pause(ctx, i.o.Pause) {
			return fakebmc.Stays
		}
		return fakebmc.Restarts
	}
	return end
}

// pause waits, and reports whether ctx is still alive.
func pause(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
