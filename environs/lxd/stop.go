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

// StopInstances implements environs.InstanceBroker. An id that none of the hosts
// has is gone; while a host does not answer, it is not known to be.
func (e *Environ) StopInstances(ctx context.Context, ids []instance.ID) ([]error, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	_, hosts, err := e.current()
	if err != nil {
		return nil, err
	}
	all, errs := e.list(ctx, hosts)
	results := make([]error, len(ids))
	turns := make(chan struct{}, atOnce)
	var wg sync.WaitGroup
	for i, id := range ids {
		if slices.Index(ids, id) < i {
			continue // named twice: done once
		}
		wg.Go(func() {
			turns <- struct{}{}
			defer func() { <-turns }()
			results[i] = first(errs)
			for _, f := range all {
				if f.instance.Name == string(id) {
					results[i] = remove(ctx, f.host, f.instance)
				}
			}
		})
	}
	wg.Wait()
	for i, id := range ids {
		results[i] = results[slices.Index(ids, id)]
	}
	return results, nil
}

// remove stops and deletes a container. One that is gone is fine.
func remove(ctx context.Context, h *host, i rest.Instance) error {
	err := error(nil)
	if i.Config[autostartKey] == "true" {
		// Should LXD die meanwhile, the next must not try to start what is left.
		if err := h.client.SetConfig(ctx, i.Name, map[string]string{autostartKey: "false"}); err != nil {
			logger.Debugf("cannot keep LXD from starting container %s by itself: %v", i.Name, err)
		}
	}
	if i.Status != rest.Stopped {
		err = h.client.Stop(ctx, i.Name)
		if errors.Is(err, rest.ErrFailed) || errors.Is(err, errors.NotValid) {
			logger.Debugf("container %s does not stop, deleting it all the same: %v", i.Name, err)
			err = nil // it may have stopped by itself: deleting will tell
		}
	}
	if err == nil {
		err = h.client.Delete(ctx, i.Name)
	}
	if errors.Is(err, errors.NotValid) && i.Status == rest.Stopped {
		// It was started since it was listed.
		i.Status = rest.Running
		return remove(ctx, h, i)
	}
	if err == nil || errors.Is(err, errors.NotFound) {
		return nil
	}
	return errors.Annotatef(h.explain(err), "cannot stop container %s", i.Name)
}

// removeQuietly removes what a failed start has made, also if the start's own
// time is up.
func removeQuietly(ctx context.Context, h *host, name string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
	defer cancel()
	i, err := h.client.Instance(ctx, name)
	if err == nil {
		err = remove(ctx, h, i)
	}
	if err != nil && !errors.Is(err, errors.NotFound) {
		logger.Warningf("cannot clean up after a failed start, leaving it to be found by its marks: %v", err)
	}
}

var _ environs.InstanceBroker = (*Environ)(nil)
