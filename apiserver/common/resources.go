package common

import (
	"context"
	"fmt"
	"strconv"
	"sync"

	"github.com/juju/errors"
)

// Resource is something that lives as long as a connection: a watcher, mostly.
type Resource interface {
	Kill()
	Wait() error
}

// Resources are the watchers and the like of one connection, each under an id.
// All methods may be called concurrently.
type Resources struct {
	ctx    context.Context
	cancel context.CancelFunc

	mu      sync.Mutex
	byID    map[string]Resource
	order   []string // of registration; may hold ids that are gone
	last    uint64   // the last number given
	stopped bool
}

// NewResources returns the resources of a new connection: none. StopAll must be
// called in the end.
func NewResources() *Resources { return NewResourcesContext(context.Background()) }

// NewResourcesContext is NewResources with a context that Context derives from.
func NewResourcesContext(ctx context.Context) *Resources {
	r := &Resources{byID: make(map[string]Resource)}
	r.ctx, r.cancel = context.WithCancel(ctx)
	return r
}

// Context ends when the connection does. It is for facades whose documented
// methods take none.
func (r *Resources) Context() context.Context { return r.ctx }

// MaxResources is how many resources one connection has at the most.
const MaxResources = 20000

// Room returns an error satisfying errors.NotValid if there are so many resources
// that a client should not be given another.
func (r *Resources) Room() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.byID) >= MaxResources {
		return errors.NewNotValid(nil, fmt.Sprintf("too many watchers on one connection (at most %d): stop some", MaxResources))
	}
	return nil
}

// Register keeps a resource and returns its id, a decimal number that has not
// been used on this connection. A resource that comes after StopAll is stopped
// at once.
func (r *Resources) Register(resource Resource) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last++
	id := strconv.FormatUint(r.last, 10)
	r.add(id, resource)
	return id
}

// RegisterNamed keeps a resource under a name. It returns an error satisfying
// errors.NotValid for a number, and errors.AlreadyExists for a name in use.
func (r *Resources) RegisterNamed(name string, resource Resource) error {
	if _, err := strconv.Atoi(name); err == nil {
		return errors.NotValidf("resource name %q (a number)", name)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.byID[name]; ok {
		return errors.AlreadyExistsf("resource %q", name)
	}
	r.add(name, resource)
	return nil
}

func (r *Resources) add(id string, resource Resource) {
	if r.stopped {
		resource.Kill()
		return
	}
	if len(r.order) > 2*len(r.byID)+16 {
		r.compact()
	}
	r.byID[id] = resource
	r.order = append(r.order, id)
}

// compact drops the ids that are gone from the order.
func (r *Resources) compact() {
	kept := r.order[:0]
	for _, id := range r.order {
		if _, ok := r.byID[id]; ok {
			kept = append(kept, id)
		}
	}
	r.order = kept
}

// Get returns the resource with that id, or nil.
func (r *Resources) Get(id string) Resource {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.byID[id]
}

// Given reports whether id is one that Register has returned, also if the
// resource has been stopped since.
func (r *Resources) Given(id string) bool {
	n, err := strconv.ParseUint(id, 10, 64)
	r.mu.Lock()
	defer r.mu.Unlock()
	return err == nil && n > 0 && n <= r.last && id[0] != '0' && id[0] != '+'
}

// Stop stops a resource, waits for it and forgets it; one that is gone already
// is no error. The error is the resource's own.
func (r *Resources) Stop(id string) error {
	r.mu.Lock()
	resource := r.byID[id]
	delete(r.byID, id)
	r.mu.Unlock()
	if resource == nil {
		return nil
	}
	resource.Kill()
	return resource.Wait()
}

// Release stops every resource, the last one first, and waits for all; what is
// registered from now on is stopped at once. Context goes on.
func (r *Resources) Release() {
	r.mu.Lock()
	var all []Resource
	for i := len(r.order) - 1; i >= 0; i-- {
		if resource, ok := r.byID[r.order[i]]; ok {
			all = append(all, resource)
			delete(r.byID, r.order[i])
		}
	}
	r.order, r.stopped = nil, true
	r.mu.Unlock()
	for _, resource := range all {
		resource.Kill()
		if err := resource.Wait(); err != nil {
			logger.Debugf("stopping a %T: %v", resource, err)
		}
	}
}

// StopAll is Release, and ends Context.
func (r *Resources) StopAll() {
	r.Release()
	r.cancel()
}

// Count returns how many resources there are.
func (r *Resources) Count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.byID)
}
