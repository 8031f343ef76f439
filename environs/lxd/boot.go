package lxd

import (
	"bytes"
	"context"
	"os"
	"slices"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/core/status"
	"github.com/slipway-project/slipway/environs"
	"github.com/slipway-project/slipway/environs/lxd/rest"
	"github.com/slipway-project/slipway/environs/userdata"
)

// step is a part of a start, once the container is made.
type step func(context.Context, *host, plan, environs.StartInstanceParams) error

// boot starts a container that has just been made, and writes what it needs to
// its disk.
//
// That is done after the start wherever the boot does not need it: LXD brings what
// was written to its disk in the background, together with all else that is to go
// on that disk, and a start that comes meanwhile waits for a whole second.
func boot(ctx context.Context, h *host, pl plan, p environs.StartInstanceParams) error {
	steps := []step{fill, start}
	if pl.late {
		slices.Reverse(steps)
	}
	return run(ctx, h, pl, p, steps...)
}

// run does steps of a start, and notes that nothing is missing any more.
func run(ctx context.Context, h *host, pl plan, p environs.StartInstanceParams, steps ...step) error {
	for _, do := range steps {
		if err := do(ctx, h, pl, p); err != nil {
			return err
		}
	}
	return h.client.SetConfig(ctx, pl.container.Name, complete)
}

// finish does what is left of boot for a container that is there already. One
// that ran, and does not any more, was stopped by somebody.
func (e *Environ) finish(ctx context.Context, s settings, info hostInfo, f found, p environs.StartInstanceParams) error {
	ran := f.instance.Ran()
	if ran && !(half(f.instance) && f.instance.Status == rest.Running) {
		return nil
	}
	pl, err := e.planFor(ctx, s, info, p)
	if err != nil {
		return err
	}
	switch {
	case !ran:
		return boot(ctx, f.host, pl, p)
	case pl.late:
		return run(ctx, f.host, pl, p, fill) // again: the agent cannot have logged in yet
	}
	return run(ctx, f.host, pl, p) // the disk was written to before the start
}

func start(ctx context.Context, h *host, pl plan, p environs.StartInstanceParams) error {
	p.Report(status.Provisioning, "starting container")
	return h.client.Start(ctx, pl.container.Name)
}

// fill writes to a container's disk.
func fill(ctx context.Context, h *host, pl plan, p environs.StartInstanceParams) error {
	p.Report(status.Provisioning, "writing the agent's files")
	name := pl.container.Name
	if err := keep(ctx, h, pl); err != nil {
		return err
	}
	if pl.agent != "" {
		program, err := os.Open(pl.agent)
		if err != nil {
			return errors.WithType(errors.Annotate(err, "cannot read the static agent"), environs.ErrPermanent)
		}
		defer program.Close()
		if err := h.client.WriteFile(ctx, name, rest.File{Path: userdata.AgentPath, Mode: 0o755, Content: program}); err != nil {
			return err
		}
	}
	for _, f := range pl.files {
		err := h.client.WriteFile(ctx, name, rest.File{Path: f.Path, Mode: f.Mode, Content: bytes.NewReader(f.Content), Link: f.Link})
		if err != nil && !(f.Link != "" && errors.Is(err, errors.AlreadyExists)) {
			return err
		}
	}
	return nil
}

// keep makes the directory that the agent file will be in, for root alone. In a
// container that runs it must be so: LXD gives a file its mode only after its
// content.
func keep(ctx context.Context, h *host, pl plan) error {
	name := pl.container.Name
	if err := h.client.MakeDir(ctx, name, userdata.DataDir, 0o700); err != nil || !pl.late {
		return err
	}
	for mended := false; ; mended = true {
		dir, err := h.client.Directory(ctx, name, userdata.DataDir)
		if err != nil || dir.Mode&0o077 == 0 {
			return err
		}
		if mended {
			return errors.WithType(errors.Errorf("%s in the image is open to others than root, and chmod does not change that: make it with mode 0700", userdata.DataDir), environs.ErrPermanent)
		}
		// It is the image's, or its cloud-init was quicker.
		if err := h.client.Run(ctx, name, "chmod", "0700", userdata.DataDir); err != nil {
			logger.Debugf("cannot change the mode of %s in container %s: %v", userdata.DataDir, name, err)
		}
	}
}
