package provisioner

import (
	"context"
	"maps"
	"slices"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/core/image"
	"github.com/slipway-project/slipway/core/job"
	"github.com/slipway-project/slipway/core/network"
	"github.com/slipway-project/slipway/core/storage"
	"github.com/slipway-project/slipway/environs/config"
	"github.com/slipway-project/slipway/params"
)

// modelInfo is what the provisioning information of all machines has in common.
// What only some machines need is read when the first of them does.
type modelInfo struct {
	backend    Backend
	settings   *config.Config
	tags       map[string]string
	controller map[string]any

	spaces  []network.Space // read if networks is true
	subnets []network.Subnet

	networks bool
	pools    map[string]storage.Pool // by name; nil until they are read
	images   map[imageKey][]params.CloudImageMetadata
}

// imageKey is what the images for machines depend on.
type imageKey struct{ series, arch string }

func (p *ProvisionerAPI) modelInfo(ctx context.Context) (*modelInfo, error) {
	settings, err := p.backend.Settings(ctx)
	if err != nil {
		return nil, errors.Trace(err)
	}
	controller, err := p.backend.ControllerConfig(ctx)
	if err != nil {
		return nil, errors.Trace(err)
	}
	tags := maps.Clone(settings.ResourceTags())
	if tags == nil {
		tags = make(map[string]string)
	}
	tags[modelUUIDTag] = p.backend.ModelUUID()
	tags[controllerUUIDTag] = p.backend.ControllerUUID()
	return &modelInfo{
		backend: p.backend, settings: settings, tags: tags, controller: controller,
		images: make(map[imageKey][]params.CloudImageMetadata),
	}, nil
}

// of returns the provisioning information of one machine.
func (i *modelInfo) of(ctx context.Context, m wantedMachine) (*params.ProvisioningInfo, error) {
	jobs := m.Jobs()
	info := &params.ProvisioningInfo{
		Constraints:      m.Constraints(),
		Series:           m.Series(),
		Placement:        m.Placement(),
		Jobs:             make([]string, len(jobs)),
		Tags:             i.tags,
		ControllerConfig: i.controller,
	}
	for n, j := range jobs {
		info.Jobs[n] = string(j)
	}
	var err error
	if info.Volumes, err = i.volumes(ctx, m); err != nil {
		return nil, err
	}
	if slices.Contains(jobs, job.ManageModel) {
		info.Tags = maps.Clone(i.tags)
		info.Tags[isControllerTag] = "true"
	}
	if info.SubnetsToZones, err = i.zones(ctx, m); err != nil {
		return nil, errors.Annotate(err, "cannot match subnets to zones")
	}
	if info.ImageMetadata, err = i.imagesFor(ctx, m); err != nil {
		return nil, errors.Annotate(err, "cannot get available image metadata")
	}
	return info, nil
}

// pool returns the storage pool that a volume is to be in. A name that is no
// pool's is a type of storage; none is the provider's own.
func (i *modelInfo) pool(ctx context.Context, name string) (storage.Pool, error) {
	if name == "" {
		return storage.Pool{Provider: i.settings.Type()}, nil
	}
	if i.pools == nil {
		all, err := i.backend.StoragePools(ctx)
		if err != nil {
			return storage.Pool{}, errors.Trace(err)
		}
		i.pools = make(map[string]storage.Pool, len(all))
		for _, p := range all {
			i.pools[p.Name] = p
		}
	}
	if p, ok := i.pools[name]; ok {
		return p, nil
	}
	return storage.Pool{Provider: name}, nil
}

// volumes returns the volumes that have to be made with the machine.
func (i *modelInfo) volumes(ctx context.Context, m wantedMachine) ([]params.VolumeParams, error) {
	var out []params.VolumeParams
	for _, v := range m.WantedVolumes() {
		pool, err := i.pool(ctx, v.Pool)
		if err != nil {
			return nil, errors.Annotatef(err, "getting volume %q parameters", v.ID)
		}
		if storage.IsDynamic(pool.Provider) {
			continue
		}
		name := "volume-" + v.ID
		out = append(out, params.VolumeParams{
			VolumeTag: name, Size: v.Size, Provider: pool.Provider, Attributes: pool.Attrs, Tags: i.tags,
			Attachment: &params.VolumeAttachmentParams{VolumeTag: name, MachineTag: m.Tag().String(), Provider: pool.Provider},
		})
	}
	return out, nil
}

// zones returns in which zones the subnets are of the first space that a machine
// must be in; nil if it need not be in any.
func (i *modelInfo) zones(ctx context.Context, m wantedMachine) (map[string][]string, error) {
	wanted := m.Constraints().IncludedSpaces()
	if len(wanted) == 0 {
		return nil, nil
	}
	if !i.networks {
		var err error
		if i.spaces, i.subnets, err = i.backend.Networks(ctx); err != nil {
			return nil, errors.Trace(err)
		}
		i.networks = true
	}
	name := wanted[0]
	if !slices.ContainsFunc(i.spaces, func(s network.Space) bool { return s.Name == name }) {
		return nil, errors.NotFoundf("space %q", name)
	}
	zones := make(map[string][]string)
	found := false
	for _, s := range i.subnets {
		if s.Space != name {
			continue
		}
		found = true
		if s.ProviderID != "" && len(s.Zones) > 0 {
			zones[s.ProviderID] = []string{s.Zones[0]}
		}
	}
	if !found {
		return nil, errors.Errorf("cannot use space %q as deployment target: no subnets", name)
	}
	return zones, nil
}

// imagesFor returns the images that a machine can be started from; nil if none
// are known.
func (i *modelInfo) imagesFor(ctx context.Context, m wantedMachine) ([]params.CloudImageMetadata, error) {
	key := imageKey{series: m.Series()}
	if arch := m.Constraints().Arch; arch != nil {
		key.arch = *arch
	}
	if list, ok := i.images[key]; ok {
		return list, nil
	}
	filter := image.Filter{Series: []string{key.series}, Stream: i.settings.ImageStream()}
	if filter.Stream == "" {
		filter.Stream = image.DefaultStream
	}
	if key.arch != "" {
		filter.Arches = []string{key.arch}
	}
	found, err := i.backend.FindImages(ctx, filter)
	if err != nil {
		return nil, errors.Trace(err)
	}
	var list []params.CloudImageMetadata
	for _, f := range found {
		list = append(list, params.ImageMetadata(f))
	}
	i.images[key] = list
	return list, nil
}
