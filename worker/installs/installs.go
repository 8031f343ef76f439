// Package installs is the installer of the redfish back end, as a controller has it: it
// orders there, and follows how far orders are.
//
// The back end asks often how a host's order stands. So what the controller says is kept here,
// and renewed by a watcher: no question goes to the controller. Until the first answer is
// there, and while there is no connection, asking is an error, which the host manager takes for a
// fault that says nothing about the host.
package installs

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/juju/errors"
	"github.com/juju/loggo"
	"gopkg.in/tomb.v2"

	metal3v1alpha1 "github.com/slipway-project/slipway/environs/baremetal/metal3/v1alpha1"
	"github.com/slipway-project/slipway/environs/baremetal/redfish"
	"github.com/slipway-project/slipway/params"
	"github.com/slipway-project/slipway/watcher"
)

var logger = loggo.GetLogger("slipway.worker.installs")

// Client is what the controller is asked; see package api/installs.
type Client interface {
	Reader
	Start(ctx context.Context, o params.InstallOrder) (params.InstallStatus, error)
	Mark(ctx context.Context, host, mark string) error
	Renew(ctx context.Context, r params.InstallRenewal) error
	Cancel(ctx context.Context, host string) error
}

// Reader is what the controller tells.
type Reader interface {
	Watch(ctx context.Context) (watcher.StringsWatcher, error)
	Status(ctx context.Context, hosts []string) ([]params.InstallStatus, error)
}

// ErrAway is returned while there is no connection to a controller.
const ErrAway = errors.ConstError("the controller is away")

// Installer is a redfish.Installer. It is made once, and follows one connection after
// another.
type Installer struct {
	mu     sync.Mutex
	client Client // nil: there is no connection
	known  map[string]redfish.JobStatus
}

var _ redfish.Installer = (*Installer)(nil)

// New returns an installer without a connection.
func New() *Installer { return &Installer{} }

// Follower keeps an installer up to date over one connection. It is a worker: it lives
// until it is killed, or the connection fails.
type Follower struct {
	tomb tomb.Tomb
	i    *Installer
}

// Follow has the installer use a client, until the Follower ends.
func (i *Installer) Follow(c Client) *Follower {
	f := &Follower{i: i}
	f.tomb.Go(func() error {
		err := f.loop(c)
		if !f.tomb.Alive() {
			return tomb.ErrDying // whatever call was cut off by that
		}
		return err
	})
	return f
}

// Kill asks the follower to end.
func (f *Follower) Kill() { f.tomb.Kill(nil) }

// Wait returns when it has: nil after Kill, else why.
func (f *Follower) Wait() error { return f.tomb.Wait() }

// loop takes over what the controller says.
func (f *Follower) loop(c Client) error {
	ctx := f.tomb.Context(nil)
	w, err := c.Watch(ctx)
	if err != nil {
		return errors.Annotate(err, "cannot follow installations")
	}
	defer func() {
		f.i.use(nil)
		w.Kill()
		_ = w.Wait() // its end is told by its channel
	}()
	first := true
	for {
		select {
		case <-f.tomb.Dying():
			return tomb.ErrDying
		case hosts, ok := <-w.Changes():
			if !ok {
				if err := w.Wait(); err != nil {
					return errors.Annotate(err, "cannot follow installations")
				}
				return errors.New("the stream of changes to installations ended")
			}
			if first {
				f.i.use(c)
				first = false
			}
			if err := f.i.refresh(ctx, c, hosts); err != nil {
				return errors.Annotate(err, "cannot follow installations")
			}
			f.i.ready()
		}
	}
}

// use changes the client. What is known is not, until all is read over the new one.
func (i *Installer) use(c Client) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.client, i.known = c, nil
}

// ready says that everything is known.
func (i *Installer) ready() {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.known == nil {
		i.known = make(map[string]redfish.JobStatus)
	}
}

// refresh reads how hosts stand. Those without an order are forgotten.
func (i *Installer) refresh(ctx context.Context, c Client, hosts []string) error {
	if len(hosts) == 0 {
		return nil
	}
	found, err := c.Status(ctx, hosts)
	if err != nil {
		return errors.Trace(err)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.known == nil {
		i.known = make(map[string]redfish.JobStatus)
	}
	have := make(map[string]bool, len(found))
	for _, s := range found {
		have[s.Host] = true
		i.known[s.Host] = merge(i.known[s.Host], toJob(s))
	}
	for _, h := range hosts {
		if !have[h] {
			delete(i.known, h)
		}
	}
	return nil
}

// merge returns the newer of two views of a host. They may be read in one order and come in
// another; within one boot, marks do not go away and reports do not get older.
func merge(old, now redfish.JobStatus) redfish.JobStatus {
	switch {
	case old.Number > now.Number:
		return old
	case old.Number < now.Number:
		return now
	case old.Phase == redfish.PhaseDone || old.Phase == redfish.PhaseFailed:
		if now.Phase != old.Phase {
			return old
		}
	}
	for _, t := range []struct{ to, from *time.Time }{
		{&now.LastReport, &old.LastReport}, {&now.Prepared, &old.Prepared}, {&now.Booted, &old.Booted}, {&now.Ejected, &old.Ejected}, {&now.Restarted, &old.Restarted},
	} {
		if t.to.IsZero() {
			*t.to = *t.from
		}
	}
	return now
}

// toJob returns what the controller says, by our clock.
func toJob(s params.InstallStatus) redfish.JobStatus {
	shift := time.Since(s.Now)
	at := func(t time.Time) time.Time {
		if t.IsZero() {
			return t
		}
		return t.Add(shift)
	}
	j := redfish.JobStatus{
		Purpose: redfish.Purpose(s.Purpose), Image: s.Image, Phase: redfish.Phase(s.Phase), Step: s.Step, Message: s.Message,
		ISO: string(s.ISO), HTTPBoot: string(s.HTTPBoot), Number: s.Number, Tries: s.Tries,
		Started: at(s.Started), LastReport: at(s.Heard), Prepared: at(s.Prepared), Booted: at(s.Booted), Ejected: at(s.Ejected), Restarted: at(s.Restarted),
	}
	if len(s.Details) > 0 {
		var d metal3v1alpha1.HardwareDetails
		if err := json.Unmarshal(s.Details, &d); err != nil {
			logger.Warningf("hardware of host %s cannot be read: %v", s.Host, err)
		} else {
			j.Details = &d
		}
	}
	return j
}

// current returns the client, or ErrAway.
func (i *Installer) current() (Client, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.client == nil {
		return nil, errors.Trace(ErrAway)
	}
	return i.client, nil
}

// Start is described by redfish.Installer.
func (i *Installer) Start(ctx context.Context, job redfish.Job) (redfish.JobStatus, error) {
	c, err := i.current()
	if err != nil {
		return redfish.JobStatus{}, err
	}
	o := params.InstallOrder{
		Purpose: string(job.Purpose), Soft: job.Soft, Host: job.Host, Name: job.Name, BootMAC: job.BootMAC, KeepDisks: job.KeepDisks,
		UserData: params.Secret(job.UserData), NetworkData: params.Secret(job.NetworkData), MetaData: params.Secret(job.MetaData),
	}
	if job.Network != "" {
		if !json.Valid([]byte(job.Network)) {
			return redfish.JobStatus{}, errors.NewNotValid(nil, "the annotation "+metal3v1alpha1.InstallerNetworkAnnotation+" is no JSON")
		}
		o.Network = json.RawMessage(job.Network)
	}
	if o.Image, err = json.Marshal(job.Image); err != nil {
		return redfish.JobStatus{}, errors.Annotate(err, "cannot encode image")
	}
	if job.RootHints != nil {
		if o.RootHints, err = json.Marshal(job.RootHints); err != nil {
			return redfish.JobStatus{}, errors.Annotate(err, "cannot encode root device hints")
		}
	}
	s, err := c.Start(ctx, o)
	if err != nil {
		return redfish.JobStatus{}, errors.Trace(err)
	}
	j := toJob(s)
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.known != nil {
		i.known[job.Host] = merge(i.known[job.Host], j)
	}
	return j, nil
}

// Status is described by redfish.Installer.
func (i *Installer) Status(_ context.Context, host string) (redfish.JobStatus, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.client == nil || i.known == nil {
		return redfish.JobStatus{}, errors.Trace(ErrAway)
	}
	j, ok := i.known[host]
	if !ok {
		return redfish.JobStatus{}, errors.NotFoundf("job of host %s", host)
	}
	return j, nil
}

// Mark is described by redfish.Installer.
func (i *Installer) Mark(ctx context.Context, host string, m redfish.Mark) error {
	return i.do(ctx, host, func(c Client) error { return c.Mark(ctx, host, string(m)) })
}

// Renew is described by redfish.Installer.
func (i *Installer) Renew(ctx context.Context, host string, number int, reason string) error {
	return i.do(ctx, host, func(c Client) error {
		return c.Renew(ctx, params.InstallRenewal{Host: host, Number: number, Reason: reason})
	})
}

// Cancel is described by redfish.Installer.
func (i *Installer) Cancel(ctx context.Context, host string) error {
	return i.do(ctx, host, func(c Client) error { return c.Cancel(ctx, host) })
}

// do makes a change at the controller, and reads what came of it.
func (i *Installer) do(ctx context.Context, host string, change func(Client) error) error {
	c, err := i.current()
	if err != nil {
		return err
	}
	if err := change(c); err != nil {
		return errors.Trace(err)
	}
	return i.refresh(ctx, c, []string{host})
}
