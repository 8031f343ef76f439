package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"strings"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/store/mongo/mongotest"
)

// errUsage is the error of a command line that makes no sense; what is wrong
// has been said.
const errUsage = errors.ConstError("usage")

// run serves until ctx is done.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	var config mongotest.Config
	f := flag.NewFlagSet("mongodouble", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.StringVar(&config.Listen, "listen", "127.0.0.1:27017", "`address` of the first member; port 0 takes a free one")
	f.IntVar(&config.Members, "members", 1, "`number` of members; those after the first listen on free ports")
	if err := f.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return err
		}
		return errUsage
	}
	if f.NArg() > 0 || config.Members < 1 || config.Members > 50 {
		fmt.Fprintln(stderr, "mongodouble: it takes no arguments, and 1 to 50 members")
		return errUsage
	}
	server, err := mongotest.Start(config)
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "this is no MongoDB: %v\nready %s\n", server, strings.Join(server.Addrs(), ","))
	<-ctx.Done()
	return server.Close()
}
