// Command slipway is the operator's tool: it adds machines, shows what becomes
// of them and removes them, over a controller's API.
//
// It exits with 0 when all went well, 1 when something failed, 2 when it was
// called wrongly, and 3 when "slipway wait" has waited for too long.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/juju/loggo"
)

func main() { os.Exit(mainCode()) }

// mainCode is main up to the exit.
func mainCode() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := loggo.ConfigureLoggers("<root>=CRITICAL;" + os.Getenv("SLIPWAY_LOGGING")); err != nil {
		_, _ = os.Stderr.WriteString("error: SLIPWAY_LOGGING: " + err.Error() + "\n")
		return exitUsage
	}
	return exitCode(run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.Getenv))
}
