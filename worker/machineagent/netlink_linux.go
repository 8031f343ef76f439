package machineagent

import (
	"context"
	"os"

	"github.com/juju/errors"
	"golang.org/x/sys/unix"
)

// Changes implements System: the kernel tells of addresses that come and go. See
// rtnetlink(7).
func (ThisMachine) Changes(ctx context.Context) <-chan struct{} {
	out := make(chan struct{}, 1)
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.NETLINK_ROUTE)
	if err == nil {
		err = unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: unix.RTMGRP_IPV4_IFADDR | unix.RTMGRP_IPV6_IFADDR})
		if err != nil {
			_ = unix.Close(fd) // it is of no use
		}
	}
	if err != nil {
		logger.Warningf("later changes of this machine's addresses will not be reported: %v", err)
		close(out)
		return out
	}
	socket := os.NewFile(uintptr(fd), "netlink")
	stop := context.AfterFunc(ctx, func() { _ = socket.Close() }) // ends the read below
	go func() {                                                   // ends when ctx does, and then closes the channel
		defer close(out)
		defer stop()
		for buffer := make([]byte, 1<<16); ; {
			// ENOBUFS says that there was too much at once to be kept: there
			// are changes.
			if _, err := socket.Read(buffer); err != nil && !errors.Is(err, unix.ENOBUFS) {
				if ctx.Err() == nil {
					logger.Warningf("later changes of this machine's addresses will not be reported: %v", err)
				}
				return
			}
			select {
			case out <- struct{}{}:
			default: // a look is due already
			}
		}
	}()
	return out
}
