package state

import (
	"context"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/core/life"
	"github.com/slipway-project/slipway/core/tag"
	"github.com/slipway-project/slipway/store"
	"github.com/slipway-project/slipway/watcher"
)

// Kinds of cleanup, as in the ids of their documents.
const (
	forceMachine = "force-machine" // forceMachine:<machine id>
	destroyModel = "destroy-model"
	release      = "release" // release:<machine id>
	upload       = "upload"  // upload:<blob>
)

// ForceLimit is how long after ForceDestroy a machine's record stays for the
// provisioner to stop the instance. Afterwards the record goes, whether or
// not anyone has answered.
const ForceLimit = 45 * time.Second

// cleanupDoc is work that was asked for and is done later.
type cleanupDoc struct {
	Asked time.Time `json:"asked"`
}

// Cleanups is the handle on work that was asked for and is done later: machines to
// end by force, machines marked for removal, addresses of containers to give back,
// and models to destroy. One
// worker of the site runs it:
//
//	w := c.Cleanups().Watch()
//	for each event of w, and whenever next has come:
//		next, err = c.Cleanups().Run(ctx, time.Now())
//
// Running it twice at once does no harm.
type Cleanups struct{ c *Controller }

// Watch returns a watcher that fires when there may be something to run.
func (cs *Cleanups) Watch() watcher.NotifyWatcher {
	return cs.c.hub.watchTopic(topic{whole: cleanupsC}, topic{whole: removalsC})
}

// Run does all the work that can be done at the time now. It returns when to run again
// although no event comes; zero means never. What fails does not hold up the
// rest: the error tells of the first failure, and the work stays for next, soon
// after.
func (cs *Cleanups) Run(ctx context.Context, now time.Time) (next time.Time, err error) {
	var failed []error
	note := func(what string, err error) {
		if err != nil {
			failed = append(failed, errors.Annotatef(err, "cannot clean up %s", what))
			next = earlier(next, now.Add(cleanupRetry))
		}
	}
	removals, err := cs.list(ctx, removalsC)
	if err != nil {
		return now.Add(cleanupRetry), errors.Trace(err)
	}
	for _, r := range removals {
		note("machine "+r.local, cs.sweep(ctx, r))
	}
	todo, err := cs.list(ctx, cleanupsC)
	if err != nil {
		return now.Add(cleanupRetry), errors.Trace(err)
	}
	cs.c.deadlines.keep(todo)
	for _, job := range todo {
		kind, id, _ := strings.Cut(job.local, ":")
		switch kind {
		case forceMachine:
			again, err := cs.force(ctx, job, id, now)
			next = earlier(next, again)
			note("machine "+id, err)
		case upload:
			again, err := cs.unfinished(ctx, job, id, now)
			next = earlier(next, again)
			note("upload", err)
		case release:
			note("addresses", cs.release(ctx, job))
		case destroyModel:
			note("model "+job.model, cs.destroyModel(ctx, job))
		}
	}
	if len(failed) > 1 {
		return next, errors.Annotatef(failed[0], "%d cleanups failed, the first", len(failed))
	}
	if len(failed) == 1 {
		err = failed[0]
	}
	return next, err
}

// cleanupRetry is how long after a failure Run wants to run again.
const cleanupRetry = 5 * time.Second

// earlier returns the earlier of two times; a zero time is none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// cleanup is a document of the queue.
type cleanup struct {
	store.Doc
	model, local string // the two parts of its id
	asked        time.Time
}

func (cs *Cleanups) list(ctx context.Context, collection string) ([]cleanup, error) {
	var found []cleanup
	err := eachDoc(ctx, cs.c.store, store.Query{Collection: collection}, func(d store.Doc) error {
		doc, err := decode[cleanupDoc](d)
		if err != nil {
			return err
		}
		c := cleanup{Doc: d, asked: doc.Asked}
		c.model, c.local = splitID(d.ID)
		found = append(found, c)
		return nil
	})
	return found, errors.Annotate(err, "cannot list cleanups")
}

// state returns the state of the cleanup's model, for machines only.
func (cs *Cleanups) state(job cleanup) *State {
	return &State{c: cs.c, modelUUID: job.model}
}

// done takes a document off the queue, if it is still there as it was.
func (cs *Cleanups) done(ctx context.Context, job cleanup) error {
	err := cs.c.store.Apply(ctx, []store.Op{store.Remove(job.Key, job.Rev)})
	if errors.Is(err, store.ErrConflict) {
		return nil // someone else did it, or it was asked for anew
	}
	return errors.Trace(err)
}

// sweep removes a machine that was marked for removal. Its instance is gone, and so
// are the containers that were in it.
func (cs *Cleanups) sweep(ctx context.Context, job cleanup) error {
	m, err := cs.state(job).machine(ctx, job.local)
	if errors.Is(err, errors.NotFound) {
		return cs.done(ctx, job)
	}
	if err != nil {
		return errors.Trace(err)
	}
	return m.removeAll(ctx)
}

// removeAll removes the machine with everything that it hosts, whatever
// their lives.
func (m *Machine) removeAll(ctx context.Context) error {
	if err := m.removeContainers(ctx); err != nil {
		return errors.Trace(err)
	}
	return m.run(ctx, func(int) ([]store.Op, error) {
		return m.removeOps(ctx, true)
	})
}

// removeContainers removes everything that the machine hosts, the innermost
// first.
func (m *Machine) removeContainers(ctx context.Context) error {
	containers, err := m.st.Machines().GetAll(ctx, m.doc.Containers)
	if err != nil {
		return errors.Trace(err)
	}
	for _, c := range containers {
		if c == nil {
			continue
		}
		if err := c.removeAll(ctx); err != nil {
			return errors.Trace(err)
		}
	}
	return nil
}

// kill makes the machine dead, and removes what it hosts: that ends with
// the machine's instance.
func (m *Machine) kill(ctx context.Context) error {
	if err := m.removeContainers(ctx); err != nil {
		return errors.Trace(err)
	}
	return m.EnsureDead(ctx)
}

// force ends one machine, and its record too when the time for that has come.
func (cs *Cleanups) force(ctx context.Context, job cleanup, id string, now time.Time) (again time.Time, err error) {
	m, err := cs.state(job).machine(ctx, id)
	if errors.Is(err, errors.NotFound) {
		return again, cs.done(ctx, job)
	}
	if err != nil {
		return again, errors.Trace(err)
	}
	if err := m.kill(ctx); err != nil {
		return again, errors.Trace(err)
	}
	if limit := cs.c.deadlines.of(job, now); now.Before(limit) {
		return limit, nil
	}
	if id, err := m.InstanceId(); err == nil {
		logger.Warningf("%s is removed by force; its instance %s may still run", m.Tag(), id)
	}
	return again, m.removeAll(ctx)
}

// deadlines say until when records are kept of machines that are to end by force.
// Each is found when this controller first sees the request, and then has the
// monotonic clock in it, so that setting the clock moves none of them.
type deadlines struct {
	mu    sync.Mutex
	limit map[store.Key]time.Time
}

// of returns the deadline of a request. A request from the future, by a clock that
// was wrong, counts as made now.
func (d *deadlines) of(job cleanup, now time.Time) time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	if limit, ok := d.limit[job.Key]; ok {
		return limit
	}
	if d.limit == nil {
		d.limit = map[store.Key]time.Time{}
	}
	limit := now.Add(min(ForceLimit, max(0, ForceLimit-now.Sub(job.asked))))
	d.limit[job.Key] = limit
	return limit
}

// keep forgets all requests but these.
func (d *deadlines) keep(todo []cleanup) {
	d.mu.Lock()
	defer d.mu.Unlock()
	there := make(map[store.Key]bool, len(todo))
	for _, job := range todo {
		there[job.Key] = true
	}
	maps.DeleteFunc(d.limit, func(key store.Key, _ time.Time) bool { return !there[key] })
}

// destroyModel ends the machines of a dying model, and the model itself when none is
// left. Instances are the provisioner's to stop: only then do the machines go.
func (cs *Cleanups) destroyModel(ctx context.Context, job cleanup) error {
	st := cs.state(job)
	machines, err := st.Machines().All(ctx)
	if err != nil {
		return errors.Trace(err)
	}
	for _, m := range machines {
		if tag.Parent(m.id) != "" || m.Life() == life.Dead {
			continue
		}
		if err := m.kill(ctx); err != nil {
			return errors.Annotatef(err, "cannot end machine %s", m.id)
		}
	}
	if len(machines) > 0 {
		return nil // their removal brings us back
	}
	m, err := cs.c.Models().Get(ctx, job.model)
	if errors.Is(err, errors.NotFound) {
		return cs.done(ctx, job)
	}
	if err != nil {
		return errors.Trace(err)
	}
	return m.remove(ctx)
}

// remove removes a model without machines and everything that it left behind.
func (m *Model) remove(ctx context.Context) error {
	err := m.update(ctx, func(d *modelDoc) error {
		if d.Life == life.Dead {
			return errNoChange
		}
		d.Life = life.Dead
		return nil
	})
	if err != nil {
		return errors.Trace(err)
	}
	if err := m.c.releaseAll(ctx, m.uuid, func(AddressState) bool { return true }); err != nil {
		return errors.Trace(err)
	}
	for _, collection := range []string{historyC, countersC, loginsC, removalsC, networksC, imagesC, addressC, extrasC} {
		if err := m.removeLeftovers(ctx, collection); err != nil {
			return errors.Trace(err)
		}
	}
	return m.c.run(ctx, func(int) ([]store.Op, error) {
		docs, err := m.c.store.GetAll(ctx, []store.Key{
			siteKey(modelsC, m.uuid), siteKey(claimsC, modelClaim(m.doc.Owner, m.doc.Name)),
			modelKey(configsC, m.uuid, configID), modelKey(cleanupsC, m.uuid, destroyModel),
			siteKey(leasesC, m.uuid), siteKey(renewalsC, m.uuid),
		})
		if err != nil {
			return nil, errors.Trace(err)
		}
		var ops []store.Op
		for _, d := range docs {
			if d.Rev != 0 {
				ops = append(ops, store.Remove(d.Key, d.Rev))
			}
		}
		return ops, nil
	})
}

// removeLeftovers removes all documents of the model in a collection.
func (m *Model) removeLeftovers(ctx context.Context, collection string) error {
	q := store.Query{Collection: collection, Prefix: m.uuid + ":"}
	for {
		page, err := m.c.store.List(ctx, q)
		if err != nil || len(page.Docs) == 0 {
			return errors.Trace(err)
		}
		var ops []store.Op
		for _, d := range page.Docs {
			ops = append(ops, store.Remove(d.Key, d.Rev))
		}
		if err := m.c.store.Apply(ctx, ops); err != nil && !errors.Is(err, store.ErrConflict) {
			return errors.Trace(err)
		}
	}
}
