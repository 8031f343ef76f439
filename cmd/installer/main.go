// Command installer is the first process of the initramfs from which machines are
// installed: it brings the machine up as far as it must, proves to the controller that
// this boot was ordered, runs the provision pipeline, and leaves.
//
// It installs the machine it runs on. So it refuses to run in any other place than
// as process 1 of an initramfs. "installer --version" prints the version anywhere.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/slipway-project/slipway/provision/disk"
	"github.com/slipway-project/slipway/provision/netup"
	"github.com/slipway-project/slipway/provision/pid1"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintf(os.Stderr, "installer: %v\n", err)
		os.Exit(1)
	}
}

// run takes the machine if it may, and returns only if it may not, or if the
// kernel does not let go.
func run(ctx context.Context, args []string, stdout io.Writer) error {
	if len(args) == 1 && args[0] == "--version" {
		_, err := fmt.Fprintln(stdout, "slipway installer", version)
		return err
	}
	kernel, err := pid1.Guard()
	if err != nil {
		return err
	}
	i := &installer{
		root:   "/",
		kernel: kernel,
		loader: kernel,
		links:  netup.Netlink{},
		disks:  disk.HostConfig(),
		reap: func(pid int) {
			var ws unix.WaitStatus
			_, _ = unix.Wait4(pid, &ws, unix.WNOHANG, nil)
		},
		shell: consoleShell,
	}
	return kernel.End(i.install(ctx))
}

// version is what --version prints; the build sets it.
var version = "dev"
