// Package instancepoller tells the controller what becomes of a model's instances
// once they run: that one was stopped, or that its addresses are others. A provider
// does not call when that happens, so it is asked now and then: by one call for all
// instances of the model, and the controller hears only of what has changed.
package instancepoller

import (
	"context"
	"slices"
	"time"

	"github.com/juju/errors"
	"github.com/juju/loggo"
	"gopkg.in/tomb.v2"

	"github.com/slipway-project/slipway/api"
	apipoller "github.com/slipway-project/slipway/api/instancepoller"
	"github.com/slipway-project/slipway/core/instance"
	"github.com/slipway-project/slipway/core/network"
	"github.com/slipway-project/slipway/core/status"
	"github.com/slipway-project/slipway/environs"
)

var logger = loggo.GetLogger("slipway.worker.instancepoller")

// DefaultEvery is how often a provider is asked, unless Config says otherwise.
const DefaultEvery = time.Minute

// The bounds of single calls.
const (
	bulk        = 500 // machines in one call of the controller
	listTimeout = 2 * time.Minute
	callTimeout = time.Minute
)

// gone is what is told of an instance that the provider no longer lists.
const gone = "the provider no longer has the instance"

// API is what the worker needs of its controller; *apipoller.Client satisfies it.
type API interface {
	InstanceIDs(ctx context.Context, ids ...string) ([]api.Result[instance.ID], error)
	InstanceStatus(ctx context.Context, ids ...string) ([]api.Result[status.Info], error)
	ProviderAddresses(ctx context.Context, ids ...string) ([]api.Result[[]network.Address], error)
	SetInstanceStatus(ctx context.Context, seen ...apipoller.Seen) ([]error, error)
	SetProviderAddresses(ctx context.Context, seen ...apipoller.Seen) ([]error, error)
}

var _ API = (*apipoller.Client)(nil)

// Lister lists instances; every environs.InstanceBroker does.
type Lister interface {
	AllInstances(ctx context.Context) ([]environs.Instance, error)
}

// Config is what the worker works with. All but Every is required.
type Config struct {
	API    API            // logged in to the model, as its manager
	Lister Lister         // of the model's instances
	Owner  environs.Owner // of the instances that it looks at; MachineID is not
	Every  time.Duration  // 0 means DefaultEvery
}

// Validate returns an error satisfying errors.NotValid if something is missing.
func (c Config) Validate() error {
	switch {
	case c.API == nil:
		return errors.NotValidf("missing API")
	case c.Lister == nil:
		return errors.NotValidf("missing Lister")
	case c.Owner.ModelUUID == "" || c.Owner.ControllerUUID == "":
		return errors.NotValidf("missing UUID")
	}
	return nil
}

// Worker asks and tells until it is killed. What fails is logged, and tried again
// the next time.
type Worker struct {
	tomb tomb.Tomb
	cfg  Config
	told map[string]known // by machine: what the controller has been told, or knew
}

// known is what the controller knows of a machine's instance.
type known struct {
	id        instance.ID
	status    status.Status
	addresses []string // sorted
	missed    int      // how many listings in a row lacked the instance
}

// New starts a worker.
func New(cfg Config) (*Worker, error) {
	if err := cfg.Validate(); err != nil {
		return nil, errors.Trace(err)
	}
	if cfg.Every == 0 {
		cfg.Every = DefaultEvery
	}
	w := &Worker{cfg: cfg, told: make(map[string]known)}
	w.tomb.Go(w.loop)
	return w, nil
}

// Kill asks the worker to stop.
func (w *Worker) Kill() { w.tomb.Kill(nil) }

// Wait returns when the worker has stopped, always nil.
func (w *Worker) Wait() error { return w.tomb.Wait() }

func (w *Worker) loop() error {
	ctx := w.tomb.Context(nil)
	tick := time.NewTicker(w.cfg.Every)
	defer tick.Stop()
	for {
		select {
		case <-w.tomb.Dying():
			return tomb.ErrDying
		case <-tick.C:
			if err := w.look(ctx); err != nil && w.tomb.Alive() {
				logger.Warningf("cannot tell what became of the instances of model %s, trying again: %v", w.cfg.Owner.ModelUUID, err)
			}
		}
	}
}

// look asks the provider once, and tells what has changed.
func (w *Worker) look(ctx context.Context) error {
	listing, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	all, err := w.cfg.Lister.AllInstances(listing)
	if err != nil {
		return errors.Annotate(err, "cannot list the provider's instances")
	}
	listed := make(map[string]bool, len(all))
	var changed []environs.Instance
	for _, i := range all {
		id := i.Owner.MachineID
		if !i.Owner.SameModel(w.cfg.Owner) || id == "" {
			continue
		}
		listed[id] = true
		if i.Status == status.Allocating || i.Status == status.Pending {
			continue // whoever starts it tells
		}
		if k, ok := w.told[id]; !ok || k.id != i.ID || k.status != i.Status || !slices.Equal(k.addresses, texts(i.Addresses)) {
			changed = append(changed, i)
		} else if k.missed > 0 {
			k.missed = 0
			w.told[id] = k
		}
	}
	for id, k := range w.told {
		if listed[id] {
			continue
		}
		// A listing may lack an instance for a moment.
		if k.missed++; k.missed == 2 {
			changed = append(changed, environs.Instance{
				ID: k.id, Owner: environs.Owner{MachineID: id}, Status: status.Stopped, Message: gone,
			})
		}
		w.told[id] = k
	}
	for part := range slices.Chunk(changed, bulk) {
		if err := w.update(ctx, part); err != nil {
			return err
		}
	}
	return nil
}

// update tells of instances of which something may have changed: those that are
// recorded for their machines, and only what the controller does not know.
func (w *Worker) update(ctx context.Context, batch []environs.Instance) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	ids := make([]string, len(batch))
	for n, i := range batch {
		ids[n] = i.Owner.MachineID
	}
	recorded, err := w.cfg.API.InstanceIDs(ctx, ids...)
	if err != nil {
		return errors.Trace(err)
	}
	statuses, err := w.cfg.API.InstanceStatus(ctx, ids...)
	if err != nil {
		return errors.Trace(err)
	}
	addresses, err := w.cfg.API.ProviderAddresses(ctx, ids...)
	if err != nil {
		return errors.Trace(err)
	}
	var otherStatus, otherAddresses []apipoller.Seen
	for n, i := range batch {
		if recorded[n].Err != nil || statuses[n].Err != nil || addresses[n].Err != nil || recorded[n].Value != i.ID {
			delete(w.told, ids[n]) // not recorded yet, or gone: looked at again if it is listed
			continue
		}
		seen := apipoller.Seen{ID: ids[n], Status: i.Status, Message: i.Message, Addresses: i.Addresses}
		if statuses[n].Value.Status != i.Status {
			otherStatus = append(otherStatus, seen)
		}
		now := texts(i.Addresses)
		if len(now) > 0 && !slices.Equal(now, texts(addresses[n].Value)) {
			otherAddresses = append(otherAddresses, seen)
		}
		w.told[ids[n]] = known{id: i.ID, status: i.Status, addresses: now, missed: w.told[ids[n]].missed}
	}
	if err := w.tell(ctx, otherStatus, "instance status", w.cfg.API.SetInstanceStatus); err != nil {
		return err
	}
	return w.tell(ctx, otherAddresses, "addresses", w.cfg.API.SetProviderAddresses)
}

// tell makes one call that tells, if there is anything to tell. What could not be
// told is compared anew the next time.
func (w *Worker) tell(ctx context.Context, seen []apipoller.Seen, what string, call func(context.Context, ...apipoller.Seen) ([]error, error)) error {
	if len(seen) == 0 {
		return nil
	}
	errs, err := call(ctx, seen...)
	for n, s := range seen {
		failure := err
		if failure == nil {
			failure = errs[n]
		}
		if failure == nil {
			continue
		}
		delete(w.told, s.ID)
		if err == nil && !errors.Is(failure, errors.NotFound) {
			logger.Debugf("cannot set %s of machine %s: %v", what, s.ID, failure)
		}
	}
	return errors.Trace(err)
}

// texts returns addresses as they are compared.
func texts(addresses []network.Address) []string {
	out := make([]string, len(addresses))
	for i, a := range addresses {
		out[i] = a.Value
	}
	slices.Sort(out)
	return out
}
