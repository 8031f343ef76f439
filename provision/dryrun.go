package provision

import (
	"context"
	"fmt"
	"strings"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/provision/config"
)

// Plan returns what Provision would do, a line for each step with what is known of it
// without touching anything: sysfs is read, nothing is written, run, mounted or fetched.
func (o *Orchestrator) Plan(ctx context.Context) []string {
	var lines []string
	for i, s := range o.provisionSteps() {
		line := fmt.Sprintf("%2d %-24s", i+1, s.Name)
		why := ""
		if s.Skip != nil {
			why = s.Skip()
		}
		switch {
		case why != "":
			line += "left out: " + why
		default:
			line += o.detail(ctx, s.Name)
		}
		lines = append(lines, strings.TrimRight(line, " "))
	}
	return lines
}

// detail says what is known of a step before it runs.
func (o *Orchestrator) detail(ctx context.Context, step string) string {
	switch step {
	case "detect-disk":
		i, err := o.disk.DetectDisk(ctx, o.cfg.RootDevice)
		if err != nil {
			return "would fail: " + err.Error()
		}
		return i.String()
	case "verify-image":
		var urls []string
		for _, u := range o.cfg.Image.URLs {
			urls = append(urls, config.RedactURL(u))
		}
		return strings.Join(urls, " or ")
	case "wipe-disk":
		if o.cfg.Secure {
			return "by the drive's own erase"
		}
		return "both ends of the disk and of each partition"
	case "set-hostname":
		return o.cfg.Hostname
	case "configure-dns":
		return strings.Join(o.cfg.DNS, " ")
	case "configure-grub":
		return strings.Join(append(append([]string(nil), o.cfg.Kernel.Replace...), o.cfg.Kernel.Append...), " ")
	}
	return ""
}

// dryRun prints the plan and reports it.
func (o *Orchestrator) dryRun(ctx context.Context) error {
	lines := o.Plan(ctx)
	for _, l := range lines {
		logger.Infof("plan: %s", l)
	}
	s := config.Status{State: config.StateSuccess, Message: "dry run, nothing was touched:\n" + strings.Join(lines, "\n")}
	var err error
	for _, l := range lines {
		if strings.Contains(l, "would fail: ") {
			err = errors.NewNotValid(nil, "plan: "+strings.TrimSpace(l))
			s.State = config.StateError
		}
	}
	if rerr := o.report(ctx, s); rerr != nil {
		return errors.Annotate(rerr, "cannot report plan")
	}
	return err
}
