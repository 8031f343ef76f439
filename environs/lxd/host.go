package lxd

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/environs"
	"github.com/slipway-project/slipway/environs/lxd/rest"
)

// host is one LXD daemon.
type host struct {
	zone   string
	client *rest.Client

	mu   sync.Mutex
	info *hostInfo // nil until it has been asked for
}

// hostInfo is what does not change while a daemon runs.
type hostInfo struct {
	arches []string // our names, the host's own first
	cores  uint64
	memory uint64 // MiB
	pool   string // of root disks, by the profiles; empty if they name none
	nics   []nic  // of the profiles; see describeFor, which alone sets it
}

// arches are LXD's names of architectures, and ours.
var arches = map[string]string{
	"x86_64": "amd64", "i686": "i386", "aarch64": "arm64", "armv7l": "armhf", "ppc64le": "ppc64el", "s390x": "s390x",
}

// describe returns what the host is like.
func (h *host) describe(ctx context.Context, profiles []string) (hostInfo, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.info != nil {
		return *h.info, nil
	}
	server, err := h.client.Server(ctx)
	if err != nil {
		return hostInfo{}, h.explain(err)
	}
	resources, err := h.client.Resources(ctx)
	if err != nil {
		return hostInfo{}, h.explain(err)
	}
	info := hostInfo{cores: resources.CPU.Total, memory: resources.Memory.Total >> 20}
	for _, a := range server.Environment.Architectures {
		if name, ok := arches[a]; ok {
			info.arches = append(info.arches, name)
		}
	}
	for _, name := range profiles {
		profile, err := h.client.Profile(ctx, name)
		if errors.Is(err, errors.NotFound) {
			return hostInfo{}, errors.WithType(errors.Errorf("LXD server %s has no profile %q: make it, or set %s", h.zone, name, ProfilesKey), environs.ErrPermanent)
		}
		if err != nil {
			return hostInfo{}, h.explain(err)
		}
		for _, device := range profile.Devices {
			if device["type"] == "disk" && device["path"] == "/" {
				info.pool = device["pool"]
			}
		}
	}
	h.info = &info
	return info, nil
}

// explain adds to a failed call which server it was, and what to do about it.
func (h *host) explain(err error) error {
	switch {
	case errors.Is(err, rest.ErrUnreachable), errors.Is(err, rest.ErrLost):
		err = errors.WithType(errors.WithType(err, environs.ErrZone), environs.ErrBusy)
	case errors.Is(err, errors.Unauthorized):
		err = errors.WithType(errors.Annotate(err, "it does not trust "+ClientCertKey+" (lxc config trust add)"), environs.ErrZone)
	}
	return errors.Annotatef(err, "LXD server %s", h.zone)
}

// hosts are the daemons of a model, in the order of their zones.
type hosts []*host

func newHosts(s settings) (hosts, error) {
	var out hosts
	for _, zone := range slices.Sorted(maps.Keys(s.hosts)) {
		client, err := rest.New(s.hosts[zone])
		if err != nil {
			return nil, errors.Trace(err)
		}
		out = append(out, &host{zone: zone, client: client})
	}
	return out, nil
}

// zone returns the host of a zone, or nil.
func (hs hosts) zone(name string) *host {
	i := slices.IndexFunc(hs, func(h *host) bool { return h.zone == name })
	if i < 0 {
		return nil
	}
	return hs[i]
}

// each runs f for every host at once, and returns one error for each.
func (hs hosts) each(f func(i int, h *host) error) []error {
	errs := make([]error, len(hs))
	var wg sync.WaitGroup
	for i, h := range hs {
		wg.Go(func() { errs[i] = f(i, h) })
	}
	wg.Wait()
	return errs
}

// first returns the first error there is.
func first(errs []error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
