package notify_test

import (
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/slipway-project/slipway/internal/notify"
)

// env is an environment.
type env map[string]string

func (e env) get(name string) string { return e[name] }

func TestSend(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notify")
	for given, listen := range map[string]string{path: path, "@" + path: "\x00" + path} {
		c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: listen, Net: "unixgram"})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if err := notify.Send(env{"NOTIFY_SOCKET": given}.get, notify.Ready); err != nil {
			t.Fatal(err)
		}
		if err := c.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, 100)
		n, err := c.Read(got)
		if err != nil || string(got[:n]) != "READY=1" {
			t.Errorf("on %q came %q, %v", given, got[:n], err)
		}
	}
}

func TestSendToNobody(t *testing.T) {
	if err := notify.Send(env{}.get, notify.Ready); err != nil {
		t.Errorf("Send without a manager = %v", err)
	}
	if err := notify.Send(env{"NOTIFY_SOCKET": filepath.Join(t.TempDir(), "none")}.get, notify.Ready); err == nil {
		t.Error("Send to a socket that is not there succeeds")
	}
}

func TestInterval(t *testing.T) {
	for _, test := range []struct {
		env  env
		want time.Duration
	}{
		{env{}, 0},
		{env{"WATCHDOG_USEC": "60000000"}, 30 * time.Second},
		{env{"WATCHDOG_USEC": "60000000", "WATCHDOG_PID": "7"}, 30 * time.Second},
		{env{"WATCHDOG_USEC": "60000000", "WATCHDOG_PID": "8"}, 0},
		{env{"WATCHDOG_USEC": "-1"}, 0},
		{env{"WATCHDOG_USEC": "soon"}, 0},
		{env{"WATCHDOG_USEC": "9000000000000000000"}, 0},
	} {
		if got := notify.Interval(test.env.get, 7); got != test.want {
			t.Errorf("Interval with %v = %v, want %v", test.env, got, test.want)
		}
	}
}
