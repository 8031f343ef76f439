package state

import (
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"slices"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/core/access"
	"github.com/slipway-project/slipway/core/base"
	"github.com/slipway-project/slipway/core/job"
	"github.com/slipway-project/slipway/core/life"
	"github.com/slipway-project/slipway/core/status"
	"github.com/slipway-project/slipway/store"
)

// InitializeParams says what a new site starts with.
type InitializeParams struct {
	AdminName        string         // the first user; empty means "admin"
	AdminPassword    string         // required
	ControllerConfig map[string]any // beside controller-uuid
	ModelConfig      map[string]any // of both models, beside name and uuid; type is required
	Machine          FirstMachine
	Options          Options
}

// FirstMachine is machine 0 of the controller model, which exists already.
type FirstMachine struct {
	Series   string // empty means base.DefaultSeries
	Nonce    string // required; its agent shows it at login
	Password string // of the agent, of at least MinAgentPassword bytes
}

// Initialize makes the state of a new site in s, and opens it: the controller
// model, a model named default, a superuser who owns both, and machine 0 with the
// manager job in the controller model. It returns an error satisfying
// errors.AlreadyExists if s holds a site already.
func Initialize(ctx context.Context, s store.Store, p InitializeParams) (*Controller, error) {
	c := newController(s, p.Options)
	c.doc = &controllerDoc{Format: format, UUID: newUUID(), ModelUUID: newUUID(), Created: c.now()}
	ops, err := c.firstOps(ctx, p)
	if err != nil {
		return nil, errors.Annotate(err, "cannot initialize state")
	}
	err = s.Apply(ctx, ops)
	if errors.Is(err, store.ErrConflict) {
		return nil, errors.AlreadyExistsf("controller state")
	}
	if err != nil {
		return nil, errors.Annotate(err, "cannot initialize state")
	}
	return Open(ctx, s, p.Options)
}

// firstOps returns the batch that makes a site.
func (c *Controller) firstOps(ctx context.Context, p InitializeParams) ([]store.Op, error) {
	if p.AdminName == "" {
		p.AdminName = "admin"
	}
	if p.AdminPassword == "" {
		return nil, errors.NotValidf("empty admin password")
	}
	site, err := insertOp(controllerKey, c.doc, nil)
	if err != nil {
		return nil, errors.Trace(err)
	}
	settings, err := insertOp(settingsKey, settingsDoc{Attrs: p.ControllerConfig}, nil)
	if err != nil {
		return nil, errors.Trace(err)
	}
	admin, err := c.userOp(ctx, UserSpec{Name: p.AdminName, Password: p.AdminPassword, Access: access.Superuser})
	if err != nil {
		return nil, errors.Trace(err)
	}
	ops := []store.Op{site, settings, admin, store.AssertMissing(MigrationKey())}
	for _, spec := range []ModelSpec{
		{Name: ControllerModelName, uuid: c.doc.ModelUUID},
		{Name: DefaultModelName},
	} {
		spec.Owner, spec.Config = userID(p.AdminName), maps.Clone(p.ModelConfig)
		more, _, err := spec.ops(c.now(), nil)
		if err != nil {
			return nil, errors.Trace(err)
		}
		ops = append(ops, more...)
	}
	first, err := c.firstMachineOps(p.Machine)
	return slices.Concat(ops, first), errors.Trace(err)
}

// firstMachineOps returns the operations that insert machine 0 and the counter
// behind it.
func (c *Controller) firstMachineOps(f FirstMachine) ([]store.Op, error) {
	if f.Series == "" {
		f.Series = base.DefaultSeries()
	}
	if f.Nonce == "" || len(f.Password) < MinAgentPassword {
		return nil, errors.NotValidf("first machine without a nonce or with a short password")
	}
	st := &State{c: c, modelUUID: c.doc.ModelUUID, modelName: ControllerModelName}
	now := c.now()
	d := &machineDoc{
		Life: life.Alive, Created: now, Series: f.Series, Jobs: []job.Job{job.ManageModel},
		Instance:       &instanceDoc{ID: "controller-0", Nonce: f.Nonce},
		Status:         statusDoc{Status: status.Started, Since: now},
		InstanceStatus: statusDoc{Status: status.Running, Since: now},
		PasswordHash:   agentHash(f.Password),
	}
	machine, err := st.machineOp("0", 0, d)
	if err != nil {
		return nil, errors.Trace(err)
	}
	count, err := insertOp(st.key(countersC, machineCounter), counter{Next: 1}, nil)
	return []store.Op{machine, count}, errors.Trace(err)
}

// newUUID returns a random UUID (RFC 9562 section 5.4).
func newUUID() string {
	var b [16]byte
	rand.Read(b[:]) // never fails; see its documentation
	b[6] = b[6]&0x0f | 0x40
	b[8] = b[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
