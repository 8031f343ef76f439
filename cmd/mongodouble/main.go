// Command mongodouble is a double of a MongoDB replica set, for demonstrations
// on machines without MongoDB. It keeps everything in memory and forgets it
// when it ends: no site must rely on it.
//
//	mongodouble --listen 127.0.0.1:0 --members 3
//
// Its first line says what it is. Its second one, "ready ADDRESS[,ADDRESS...]",
// names the members; the replica set is called rs0.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	switch {
	case err == nil || errors.Is(err, flag.ErrHelp):
	case errors.Is(err, errUsage):
		os.Exit(2)
	default:
		fmt.Fprintln(os.Stderr, "mongodouble:", err)
		os.Exit(1)
	}
}
