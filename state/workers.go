package state

import (
	"context"
	"regexp"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/core/base"
	"github.com/slipway-project/slipway/core/instance"
	"github.com/slipway-project/slipway/core/job"
	"github.com/slipway-project/slipway/store"
)

// Workers is the handle on the further identities under which workers of the site
// log in. Each is a machine of the controller model with the manager job, which
// stands for no hardware; it is never dying or dead, only there or not.
type Workers struct{ c *Controller }

// Workers returns the handle on the identities of workers.
func (c *Controller) Workers() *Workers { return &Workers{c} }

// WorkerSpec says what identity to add.
type WorkerSpec struct {
	Name     string // letters, digits and hyphens; unique
	Series   string // of the machine that it runs on; empty means base.DefaultSeries
	Nonce    string // required; shown at login
	Password string // of at least MinAgentPassword bytes
}

var workerName = regexp.MustCompile(`^[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,62}[a-zA-Z0-9])?$`)

func workerClaim(name string) store.Key { return siteKey(claimsC, "worker:"+name) }

// Add adds an identity. It returns an error satisfying errors.AlreadyExists for
// a name in use, and errors.NotValid for a bad name, nonce or password.
func (ws *Workers) Add(ctx context.Context, spec WorkerSpec) (*Machine, error) {
	switch {
	case !workerName.MatchString(spec.Name):
		return nil, errors.NotValidf("worker name %q (letters, digits and hyphens)", spec.Name)
	case spec.Nonce == "" || len(spec.Password) < MinAgentPassword:
		return nil, errors.NotValidf("worker without a nonce or with a short password")
	case spec.Series == "":
		spec.Series = base.DefaultSeries()
	}
	results, err := ws.state().Machines().Add(ctx, []MachineSpec{{
		Series: spec.Series, Jobs: []job.Job{job.ManageModel},
		InstanceID: instance.ID("worker-" + spec.Name), Nonce: spec.Nonce,
		worker: spec.Name, hash: agentHash(spec.Password),
	}})
	if err == nil {
		err = results[0].Err
	}
	if err != nil {
		return nil, errors.Annotatef(err, "cannot add worker %q", spec.Name)
	}
	return results[0].Machine, nil
}

// state returns the controller model's state.
func (ws *Workers) state() *State {
	return &State{c: ws.c, modelUUID: ws.c.doc.ModelUUID, modelName: ControllerModelName}
}

// All returns the identities, in the order in which they were added.
func (ws *Workers) All(ctx context.Context) ([]*Machine, error) {
	all, err := ws.state().Machines().All(ctx)
	if err != nil {
		return nil, errors.Trace(err)
	}
	var found []*Machine
	for _, m := range all {
		if m.Worker() != "" {
			found = append(found, m)
		}
	}
	return found, nil
}

// Remove takes an identity away: nobody can log in with it any more. Its open connections
// are the caller's to end. It returns an error satisfying errors.NotFound for an
// unknown name.
func (ws *Workers) Remove(ctx context.Context, name string) error {
	err := ws.c.run(ctx, func(int) ([]store.Op, error) {
		claimed, err := ws.c.store.Get(ctx, workerClaim(name))
		if errors.Is(err, errors.NotFound) {
			return nil, errors.NotFoundf("worker %q", name)
		}
		if err != nil {
			return nil, errors.Trace(err)
		}
		claim, err := decode[claimDoc](claimed)
		if err != nil {
			return nil, errors.Trace(err)
		}
		ops, err := (&Machine{st: ws.state(), id: claim.Holder}).removeOps(ctx, true)
		return append(ops, store.Remove(claimed.Key, claimed.Rev)), err
	})
	return errors.Annotatef(err, "cannot remove worker %q", name)
}
