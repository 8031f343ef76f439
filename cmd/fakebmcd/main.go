// Command fakebmcd is a room full of management controllers (BMCs) that speak
// Redfish, with machines in memory or virtual machines behind them, for tests and
// demonstrations.
//
// One BMC with several systems listens on one address:
//
//	fakebmcd --listen 127.0.0.1:8000 --systems 50
//
// Many BMCs listen on the addresses 127.16.0.0, 127.16.0.1 and so on, which are all
// the loopback interface on Linux:
//
//	fakebmcd --bmcs 200 --port 8000
//
// With --qemu DIR each system is a virtual machine with UEFI firmware: its power is a
// process, and its disk, NVRAM and console are files in DIR.
//
// With --installer machines in memory do what the installer does when they boot from
// its medium, and run an agent when they boot from their disk:
//
//	fakebmcd --bmcs 200 --port 8000 --tls --installer --media-ca site/ca.pem
//
// Below /fakebmc/ each BMC has its own control, without a password: GET stats, POST
// faults with a JSON object such as {"kind": "status", "status": 503, "times": 3},
// DELETE faults.
package main

import (
	"context"
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
	case err == nil:
	case isUsage(err):
		os.Exit(2)
	default:
		fmt.Fprintln(os.Stderr, "fakebmcd:", err)
		os.Exit(1)
	}
}
