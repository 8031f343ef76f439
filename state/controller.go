package state

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/juju/errors"
	"github.com/juju/loggo"

	"github.com/slipway-project/slipway/core/constraints"
	"github.com/slipway-project/slipway/core/kind"
	"github.com/slipway-project/slipway/environs/config"
	"github.com/slipway-project/slipway/internal/hostkey"
	"github.com/slipway-project/slipway/store"
)

var logger = loggo.GetLogger("slipway.state")

// format is the number of the layout of the documents. It grows with every
// layout that an older version could not read.
const format = 2

// ControllerModelName and DefaultModelName are the models that Initialize
// makes.
const (
	ControllerModelName = "controller"
	DefaultModelName    = "default"
)

// Policy is what a model's provider has to say about new machines and changed
// settings. It is asked before a batch is built, and must not wait for anything slow.
type Policy interface {
	// PrecheckMachine returns why the provider cannot start such a machine.
	PrecheckMachine(ctx context.Context, st *State, spec MachineSpec) error
	// ConstraintsValidator returns what the provider accepts as constraints.
	ConstraintsValidator(ctx context.Context, st *State) (*constraints.Validator, error)
	// CheckConfig returns next as it is to be kept, or why the provider does
	// not accept it in place of old, which is nil for a new model. It works in
	// memory only.
	CheckConfig(next, old *config.Config) (*config.Config, error)
}

// Options says how a controller's state works. The zero value is usable.
type Options struct {
	Policy Policy           // nil accepts everything
	Now    func() time.Time // nil means time.Now

	// HostKeys seal the credentials of hosts; nil means that none can be kept.
	HostKeys *hostkey.Ring
}

var controllerKey = siteKey(siteC, "controller")

// controllerDoc is what never changes about a site.
type controllerDoc struct {
	Format    int       `json:"format"`
	UUID      string    `json:"uuid"`
	ModelUUID string    `json:"model-uuid"`
	Created   time.Time `json:"created"`
}

// Controller is the state of a whole site: its models, users and settings. It
// may be used by many goroutines.
type Controller struct {
	store  store.Store
	doc    *controllerDoc
	policy Policy
	clock  func() time.Time

	hostKeys atomic.Pointer[hostkey.Ring]
	writing  underWay // of the site's documents
	hub      *hub
	cache    docCache
	adding   chan struct{} // holds one value while machines are being added
	hashing  chan struct{} // holds one value for each password being hashed

	deadlines deadlines

	leasesMu sync.Mutex
	leases   map[string]sighting // by name
}

// Open returns the state that s holds. It returns an error satisfying
// errors.NotFound if there is none yet, errors.NotSupported if a newer version wrote
// it, and ErrOldFormat if an older one did. The caller keeps s, and closes it after the Controller.
func Open(ctx context.Context, s store.Store, o Options) (*Controller, error) {
	doc, _, err := readFormat(ctx, s)
	switch {
	case errors.Is(err, errors.NotFound):
		return nil, errors.Trace(err)
	case err != nil:
		return nil, errors.Annotate(err, "cannot open state")
	case doc.Format > format:
		return nil, errors.NotSupportedf("state format %d (this version knows up to %d)", doc.Format, format)
	case doc.Format < format:
		return nil, errors.Annotatef(ErrOldFormat, "cannot open state of format %d (this version's is %d)", doc.Format, format)
	}
	c := newController(s, o)
	c.doc = doc
	if c.hub, err = newHub(ctx, s); err != nil {
		return nil, errors.Annotate(err, "cannot open state")
	}
	return c, nil
}

func newController(s store.Store, o Options) *Controller {
	c := &Controller{store: s, policy: o.Policy, clock: o.Now, hashing: make(chan struct{}, maxHashing),
		adding: make(chan struct{}, 1), leases: map[string]sighting{}}
	c.hostKeys.Store(o.HostKeys)
	if c.clock == nil {
		c.clock = time.Now
	}
	return c
}

// Close ends every watcher with ErrClosed and waits for the controller's
// goroutines. It does not close the store.
func (c *Controller) Close() error {
	return errors.Annotate(c.hub.close(), "cannot close state")
}

// ControllerUUID returns the UUID of the site.
func (c *Controller) ControllerUUID() string { return c.doc.UUID }

// ControllerModelUUID returns the UUID of the model of the controllers' own machines.
func (c *Controller) ControllerModelUUID() string { return c.doc.ModelUUID }

// State returns the state of one model, or an error satisfying
// errors.NotFound. It stays usable when the model is removed: then its things
// are simply not found.
func (c *Controller) State(ctx context.Context, modelUUID string) (*State, error) {
	m, err := c.Models().Get(ctx, modelUUID)
	if err != nil {
		return nil, errors.Trace(err)
	}
	return m.State(), nil
}

// Models returns the handle on the site's models.
func (c *Controller) Models() *Models { return &Models{c} }

// Users returns the handle on the site's users.
func (c *Controller) Users() *Users { return &Users{c} }

// Cleanups returns the handle on the work that is left over.
func (c *Controller) Cleanups() *Cleanups { return &Cleanups{c} }

// now returns the time to record. The store keeps no more than nanoseconds of
// wall time, so the monotonic part is dropped.
func (c *Controller) now() time.Time { return c.clock().UTC().Round(0) }

// run applies what build returns; see store.Run. An error after too many
// conflicts satisfies kind.Contention.
func (c *Controller) run(ctx context.Context, build func(attempt int) ([]store.Op, error)) error {
	err := store.Run(ctx, c.store, build)
	if errors.Is(err, store.ErrContention) {
		return errors.WithType(err, kind.Contention)
	}
	return err
}
