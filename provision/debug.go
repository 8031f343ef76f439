package provision

import (
	"context"
	"strings"
	"time"

	"github.com/slipway-project/slipway/provision/config"
	"github.com/slipway-project/slipway/provision/disk"
)

// generalDump is looked at after every failure.
var generalDump = []string{
	"cat /proc/cmdline", "cat /proc/mounts", "cat /proc/meminfo", "cat /proc/partitions", "cat /proc/mdstat",
	"lsblk -a", "df", "lvm pvs", "lvm lvs", "ip addr", "ip -s link", "ip route", "ip -6 route", "ps", "dmesg",
}

const (
	dumpTimeout = 10 * time.Second // of one command
	dumpLines   = 200              // of one command, the last
)

// DumpDebugState logs system state useful for diagnosing failures: what helps with
// failedStep, then what helps with any. An installer runs as PID 1 in an initramfs, where
// nothing is left after a reboot; the log is shipped to the controller, so the state is there.
// It reads only. Lines are redacted, and none of the environment is shown.
func DumpDebugState(failedStep string) {
	o := &Orchestrator{cfg: &config.MachineConfig{}}
	var extra []string
	for _, list := range [][]plannedStep{o.provisionSteps(), o.hardSteps(), o.softSteps()} {
		for _, s := range list {
			if s.Name == failedStep {
				extra = s.Dump
			}
		}
	}
	dumper{disk.ExecCommander{}}.dump(context.Background(), failedStep, extra)
}

// dumper logs the output of commands.
type dumper struct{ commander disk.Commander }

// dump logs one block of lines for a failed step.
func (d dumper) dump(ctx context.Context, step string, extra []string) {
	logger.Warningf("debug state after step %s begins", step)
	seen := map[string]bool{}
	for _, command := range append(append([]string(nil), extra...), generalDump...) {
		if !seen[command] {
			seen[command] = true
			d.command(ctx, command)
		}
	}
	logger.Warningf("debug state after step %s ends", step)
}

// command logs what one command prints.
func (d dumper) command(ctx context.Context, command string) {
	ctx, cancel := context.WithTimeout(ctx, dumpTimeout)
	defer cancel()
	w := strings.Fields(command)
	out, err := d.commander.Run(ctx, w[0], w[1:]...)
	if err != nil {
		logger.Debugf("%s: %v", command, err)
	}
	lines := strings.Split(strings.TrimRight(string(out), "\n"), "\n")
	if len(lines) > dumpLines {
		lines = lines[len(lines)-dumpLines:]
	}
	for _, l := range lines {
		if l != "" {
			logger.Warningf("%s: %s", command, config.Redact(l))
		}
	}
}
