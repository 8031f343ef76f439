//go:build linux

// Command guest is the first process of a virtual machine of the power loss tests.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/juju/errors"
	"golang.org/x/sys/unix"
	"modernc.org/sqlite"

	"github.com/slipway-project/slipway/internal/e2e/powerloss"
	"github.com/slipway-project/slipway/internal/e2e/storecrash"
)

const (
	device = "/dev/vda"
	data   = "/data"
	dir    = "/data/store"
)

func main() {
	if os.Getpid() != 1 {
		fmt.Fprintln(os.Stderr, "guest is the first process of a virtual machine, and is of no use elsewhere")
		os.Exit(2)
	}
	_ = unix.Mount("dev", "/dev", "devtmpfs", 0, "") // shows in the next step
	tty, err := os.OpenFile("/dev/ttyS0", os.O_WRONLY|unix.O_NOCTTY, 0)
	if err == nil {
		out := console{tty}
		if err = run(context.Background(), out); err != nil {
			fmt.Fprintf(out, "\n%s%s\n", powerloss.Broken, err)
		}
	}
	_ = unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
	select {}
}

// console is the serial line. What was written has left the machine.
type console struct{ tty *os.File }

// Write waits until the last byte is out.
func (c console) Write(p []byte) (int, error) {
	n, err := c.tty.Write(p)
	if err != nil {
		return n, err
	}
	return n, unix.IoctlSetInt(int(c.tty.Fd()), unix.TCSBRK, 1) // tcdrain(3)
}

// run does what the order says. It returns when something went wrong, or the check
// found a loss.
func run(ctx context.Context, out console) error {
	order, err := powerloss.Decode(os.Getenv(powerloss.Variable))
	if err != nil {
		return errors.Trace(err)
	}
	if err := mount(); err != nil {
		return errors.Trace(err)
	}
	checker := &storecrash.Checker{Dir: dir, Mark: order.Mark}
	if err := checker.Check(ctx, order.Reports); err != nil {
		_, err := fmt.Fprintf(out, "\n%s%s\n", powerloss.Lost, err)
		return errors.Trace(err)
	}
	mark, err := json.Marshal(checker.Mark)
	if err != nil {
		return errors.Trace(err)
	}
	if _, err := fmt.Fprintf(out, "\n%s%s\n", powerloss.Checked, mark); err != nil {
		return errors.Trace(err)
	}
	if order.Unsynced {
		sqlite.RegisterConnectionHook(func(c sqlite.ExecQuerierContext, _ string) error { // after the store's own pragmas
			_, err := c.ExecContext(ctx, "PRAGMA synchronous=OFF", nil)
			return err
		})
	}
	return errors.Trace(storecrash.Write(ctx, dir, out))
}

// mount loads the drivers in the order of their names, and mounts the disk.
func mount() error {
	modules, err := filepath.Glob("/modules/*")
	if err != nil {
		return errors.Trace(err)
	}
	for _, m := range modules {
		if err := load(m); err != nil {
			return errors.Annotatef(err, "cannot load %s", m)
		}
	}
	deadline := time.Now().Add(30 * time.Second)
	for {
		err := unix.Mount(device, data, "ext4", 0, "")
		if err == nil {
			return nil
		}
		if time.Now().After(deadline) || err != unix.ENOENT {
			return errors.Annotatef(err, "cannot mount %s", device)
		}
		time.Sleep(20 * time.Millisecond) // the kernel is still looking for disks
	}
}

// load loads one module.
func load(file string) error {
	f, err := os.Open(file)
	if err != nil {
		return errors.Trace(err)
	}
	defer f.Close()
	flags := 0
	if filepath.Ext(file) != ".ko" {
		flags = unix.MODULE_INIT_COMPRESSED_FILE
	}
	if err := unix.FinitModule(int(f.Fd()), "", flags); err != nil && err != unix.EEXIST {
		return errors.Trace(err)
	}
	return nil
}
