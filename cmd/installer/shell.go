package main

import (
	"context"
	"os"
	"os/exec"

	"github.com/juju/errors"
)

// consoleShell runs a shell on the console until it is left or ctx ends.
func consoleShell(ctx context.Context) error {
	console, err := os.OpenFile("/dev/console", os.O_RDWR, 0)
	if err != nil {
		return errors.Annotate(err, "cannot open console")
	}
	defer func() { _ = console.Close() }()
	cmd := exec.CommandContext(ctx, "setsid", "cttyhack", "/bin/sh")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = console, console, console
	err = cmd.Run()
	if ctx.Err() != nil {
		return errors.Timeoutf("rescue shell")
	}
	return errors.Annotate(err, "cannot run shell")
}
