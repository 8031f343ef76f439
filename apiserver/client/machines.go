package client

import (
	"context"
	"math"
	"strings"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/apiserver/common"
	"github.com/slipway-project/slipway/core/access"
	"github.com/slipway-project/slipway/core/base"
	"github.com/slipway-project/slipway/core/container"
	"github.com/slipway-project/slipway/core/instance"
	"github.com/slipway-project/slipway/core/job"
	"github.com/slipway-project/slipway/core/life"
	"github.com/slipway-project/slipway/params"
)

// MachineManager is the facade of one connection.
type MachineManager struct{ client *Client }

// AddMachines adds machines. Those that are described well are added though
// others are not.
func (m *MachineManager) AddMachines(ctx context.Context, args params.AddMachines) (params.AddMachinesResults, error) {
	return m.client.add(ctx, args, true)
}

// AddMachines adds machines. Those that are described well are added though
// others are not.
func (c *Client) AddMachines(ctx context.Context, args params.AddMachines) (params.AddMachinesResults, error) {
	return c.add(ctx, args, false)
}

// AddMachinesV2 is AddMachines.
func (c *Client) AddMachinesV2(ctx context.Context, args params.AddMachines) (params.AddMachinesResults, error) {
	return c.add(ctx, args, false)
}

// InjectMachines is AddMachines.
func (c *Client) InjectMachines(ctx context.Context, args params.AddMachines) (params.AddMachinesResults, error) {
	return c.add(ctx, args, false)
}

func (c *Client) add(ctx context.Context, args params.AddMachines, disks bool) (params.AddMachinesResults, error) {
	if err := c.canWrite(); err != nil {
		return params.AddMachinesResults{}, err
	}
	results := make([]params.AddMachinesResult, len(args.Machines))
	info, err := c.backend.Info(ctx)
	if err != nil {
		return params.AddMachinesResults{}, errors.Trace(err)
	}
	settings, err := c.backend.Settings(ctx)
	if err != nil {
		return params.AddMachinesResults{}, errors.Trace(err)
	}
	s := specifier{modelName: info.Name, modelUUID: c.backend.ModelUUID(), base: defaultBase(settings), disks: disks}
	var specs []Spec
	var at []int
	for i, a := range args.Machines {
		spec, err := s.spec(a)
		if err != nil {
			results[i].Error = common.ServerError(err)
			continue
		}
		specs, at = append(specs, spec), append(at, i)
	}
	added, err := c.backend.Add(ctx, specs)
	if err != nil {
		return params.AddMachinesResults{}, errors.Trace(err)
	}
	for j, a := range added {
		results[at[j]].Machine, results[at[j]].Error = a.ID, common.ServerError(a.Err)
	}
	return params.AddMachinesResults{Machines: results}, nil
}

// specifier turns what was asked for into specs.
type specifier struct {
	modelName, modelUUID string
	base                 base.Base // for machines for which nobody says any
	disks                bool      // whether disks are looked at
}

func (s specifier) spec(a params.AddMachineParams) (Spec, error) {
	spec := Spec{Constraints: a.Constraints, Group: a.Group, Parent: a.ParentID, ContainerType: container.Type(a.ContainerType)}
	if s.disks && len(a.Disks) > 0 {
		for _, d := range a.Disks {
			if d.Count == 0 {
				return Spec{}, errors.New("invalid volume params: count not specified")
			}
			spec.Disks = append(spec.Disks, Disks{Pool: d.Pool, Size: d.Size, Count: int(min(d.Count, math.MaxInt32))})
		}
	}
	if a.ParentID != "" && a.ContainerType == "" {
		return Spec{}, errors.New("parent machine specified without container type")
	}
	if a.ContainerType != "" && a.Placement != nil {
		return Spec{}, errors.New("container type and placement are mutually exclusive")
	}
	if err := s.place(&spec, a.Placement); err != nil {
		return Spec{}, err
	}
	if spec.ContainerType != "" {
		if _, err := container.Parse(string(spec.ContainerType)); err != nil {
			return Spec{}, err
		}
	}
	if spec.ContainerType == "" && a.Placement == nil {
		spec.InstanceID, spec.Nonce = instance.ID(a.InstanceID), a.Nonce
		spec.Hardware, spec.Addresses = a.Hardware, a.Addresses
	}
	if err := s.system(&spec, a); err != nil {
		return Spec{}, err
	}
	for _, text := range a.Jobs {
		j, err := job.Parse(text)
		if err != nil {
			return Spec{}, err
		}
		spec.Jobs = append(spec.Jobs, j)
	}
	return spec, nil
}

// place turns a placement into what it means.
func (s specifier) place(spec *Spec, p *params.Placement) error {
	if p == nil {
		return nil
	}
	if t, err := container.Parse(p.Scope); err == nil {
		spec.ContainerType, spec.Parent = t, p.Directive
		return nil
	}
	if p.Scope != s.modelName && p.Scope != s.modelUUID {
		return errors.Errorf("invalid model name %q", p.Scope)
	}
	spec.Placement = p.Directive
	return nil
}

// system fills in the operating system, of which base and series must agree.
func (s specifier) system(spec *Spec, a params.AddMachineParams) error {
	spec.Base, spec.Series = s.base, a.Series
	switch {
	case a.Base != nil:
		b, err := base.Parse(a.Base.Name + "@" + a.Base.Channel)
		if err != nil {
			return err
		}
		spec.Base = b
	case a.Series != "":
		b, err := base.FromSeries(a.Series)
		if err != nil {
			return err
		}
		spec.Base = b
	}
	series, err := spec.Base.Series()
	if err != nil {
		return err
	}
	if a.Series != "" && a.Series != series {
		return errors.NotValidf("series %q with base %q", a.Series, spec.Base)
	}
	spec.Series = series
	return nil
}

// DestroyMachines begins to end machines, given by id. With force, their
// containers end too, and nothing holds them up. The error names all that were
// not destroyed. Force does not heed what is switched off in the model.
func (c *Client) DestroyMachines(ctx context.Context, args params.DestroyMachines) error {
	if err := c.canWrite(); err != nil {
		return err
	}
	if !args.Force {
		if err := c.backend.CheckBlocks(ctx, blockRemove, blockChange); err != nil {
			return err
		}
	}
	machines, err := c.backend.Get(ctx, args.MachineNames)
	if err != nil {
		return errors.Trace(err)
	}
	var failed []string
	for i, m := range machines {
		var err error
		switch {
		case m == nil:
			err = errors.Errorf("machine %s does not exist", args.MachineNames[i])
		case args.Force:
			err = m.ForceDestroy(ctx)
		case m.Life() == life.Alive:
			err = m.Destroy(ctx)
		}
		if err != nil {
			failed = append(failed, err.Error())
		}
	}
	switch len(failed) {
	case 0:
		return nil
	case len(machines):
		return errors.Errorf("no machines were destroyed: %s", strings.Join(failed, "; "))
	}
	return errors.Errorf("some machines were not destroyed: %s", strings.Join(failed, "; "))
}

// newMachineManager returns the facade, or ErrPerm if the caller is no person
// who may change the model.
func newMachineManager(c *Client, err error) (*MachineManager, error) {
	if err != nil {
		return nil, err
	}
	if !c.conn.Auth.ModelAccess().Includes(access.Write) {
		return nil, common.ErrPerm
	}
	return &MachineManager{c}, nil
}
