// Package notify tells the manager of a service, such as systemd, how the service
// is. Without a manager that asks for it, nothing happens. See sd_notify(3).
package notify

import (
	"net"
	"strconv"
	"time"

	"github.com/juju/errors"
)

// The states of a service.
const (
	Ready    = "READY=1"    // it serves
	Stopping = "STOPPING=1" // it is about to end
	Alive    = "WATCHDOG=1" // it has not hung up
)

// Send tells the manager a state. Getenv reads the environment, in which
// NOTIFY_SOCKET names the socket to send to; an empty one means that nobody asks.
func Send(getenv func(string) string, state string) error {
	name := getenv("NOTIFY_SOCKET")
	if name == "" {
		return nil
	}
	if name[0] == '@' {
		name = "\x00" + name[1:] // of the abstract namespace; see unix(7)
	}
	c, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		return errors.Annotate(err, "cannot tell the service manager")
	}
	defer c.Close() // the message is out, or lost
	_, err = c.Write([]byte(state))
	return errors.Annotate(err, "cannot tell the service manager")
}

// Interval returns how often the manager wants to hear that the service is alive:
// half of WATCHDOG_USEC, which is in microseconds, if this process, pid, is the
// one that it watches. Zero means never. See sd_watchdog_enabled(3).
func Interval(getenv func(string) string, pid int) time.Duration {
	if p := getenv("WATCHDOG_PID"); p != "" && p != strconv.Itoa(pid) {
		return 0
	}
	us, err := strconv.ParseInt(getenv("WATCHDOG_USEC"), 10, 64)
	if err != nil || us <= 0 || us > int64(time.Hour/time.Microsecond) {
		return 0
	}
	return time.Duration(us) * time.Microsecond / 2
}
