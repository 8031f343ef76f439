package lxd

import (
	"context"
	"slices"
	"sync"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/core/instance"
	"github.com/slipway-project/slipway/environs"
	"github.com/slipway-project/slipway/environs/lxd/rest"
)

// found is a container and where it is.
type found struct {
	host     *host
	instance rest.Instance
}

// list returns the model's containers on all hosts, and one error for each
// host.
func (e *Environ) list(ctx context.Context, hosts hosts) ([]found, []error) {
	all := make([][]found, len(hosts))
	errs := hosts.each(func(i int, h *host) error {
		instances, err := h.client.Instances(ctx)
		if err != nil {
			return h.explain(err)
		}
		for _, inst := range instances {
			if ours(inst, e.owner) {
				all[i] = append(all[i], found{h, inst})
			}
		}
		return nil
	})
	return slices.Concat(all...), errs
}

// AllInstances implements environs.InstanceBroker. If one host does not answer,
// it returns an error: a list with gaps would have instances taken for gone.
func (e *Environ) AllInstances(ctx context.Context) ([]environs.Instance, error) {
	_, hosts, err := e.current()
	if err != nil {
		return nil, err
	}
	all, errs := e.list(ctx, hosts)
	if err := first(errs); err != nil {
		return nil, errors.Annotate(err, "cannot list containers")
	}
	out := make([]environs.Instance, len(all))
	for i, f := range all {
		out[i] = instanceOf(f.host, f.instance)
	}
	return out, nil
}

// Instances implements environs.InstanceBroker.
func (e *Environ) Instances(ctx context.Context, ids []instance.ID) ([]environs.Instance, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	_, hosts, err := e.current()
	if err != nil {
		return nil, err
	}
	all, errs := e.list(ctx, hosts)
	if err := first(errs); err != nil {
		return nil, errors.Annotate(err, "cannot list containers")
	}
	out := make([]environs.Instance, len(ids))
	missing := 0
	for i, id := range ids {
		at := slices.IndexFunc(all, func(f found) bool { return f.instance.Name == string(id) })
		if at < 0 {
			missing++
			continue
		}
		out[i] = instanceOf(all[at].host, all[at].instance)
	}
	if missing == len(ids) {
		return nil, environs.ErrNoInstances
	}
	e.addAddresses(ctx, all, out)
	if missing > 0 {
		return out, environs.ErrPartialInstances
	}
	return out, nil
}

// atOnce is how many containers are asked about or stopped at the same time.
const atOnce = 8

// addAddresses asks each container that runs for its addresses.
func (e *Environ) addAddresses(ctx context.Context, all []found, instances []environs.Instance) {
	turns := make(chan struct{}, atOnce)
	var wg sync.WaitGroup
	for i := range instances {
		inst := &instances[i]
		at := slices.IndexFunc(all, func(f found) bool { return f.instance.Name == string(inst.ID) })
		if at < 0 || all[at].instance.Status != rest.Running {
			continue
		}
		wg.Go(func() {
			turns <- struct{}{}
			defer func() { <-turns }()
			interfaces, err := all[at].host.client.Network(ctx, string(inst.ID))
			if err != nil {
				logger.Debugf("cannot get addresses of %s: %v", inst.ID, err) // it may just have ended
				return
			}
			inst.Addresses = addressesOf(interfaces)
		})
	}
	wg.Wait()
}
