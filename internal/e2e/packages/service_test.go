//go:build e2e

package packages_test

import (
	"net"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/slipway-project/slipway/internal/e2e/harness"
	"github.com/slipway-project/slipway/internal/testport"
)

// service is a program that is run as its unit says, by a test in systemd's place:
// with the user, the settings and the command line of the unit, its log folder,
// without any privilege, and with a socket to tell how it is.
type service struct {
	socket *net.UnixConn
	proc   *harness.Process
}

// service returns a service of the root that does not run yet.
func (r root) service(t *testing.T, name string) *service {
	t.Helper()
	unit := r.read(t, "usr/lib/systemd/system/"+name+".service")
	get := func(key string) string {
		m := regexp.MustCompile(`(?m)^` + key + `=-?(.*)$`).FindStringSubmatch(unit)
		if m == nil {
			return ""
		}
		return m[1]
	}
	user, env, command := get("User"), map[string]string{}, get("ExecStart")
	if get("Type") != "notify" || user == "" || command == "" {
		t.Fatalf("%s is not a service that tells how it is:\n%s", name, unit)
	}
	for line := range strings.Lines(r.read(t, get("EnvironmentFile"))) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && !strings.HasPrefix(key, "#") {
			env[key] = value
			command = strings.ReplaceAll(command, "$"+key, value)
		}
	}
	if logs := get("LogsDirectory"); logs != "" {
		r.run(t, "install", "-d", "-m", get("LogsDirectoryMode"), "-o", user, "-g", user, "/var/log/"+logs)
	}
	inside := r.inside()
	for key, value := range env {
		inside = append(inside, key+"="+value)
	}
	address := "/run/" + name + ".sock"
	if err := os.RemoveAll(r.path(address)); err != nil {
		t.Fatal(err)
	}
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: r.path(address), Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if err := os.Chmod(r.path(address), 0o777); err != nil {
		t.Fatal(err)
	}
	args := append([]string{"--reuid", user, "--regid", user, "--clear-groups", "--no-new-privs", "--bounding-set=-all", "--pdeathsig", "KILL", "--"}, strings.Fields(command)...)
	return &service{socket: c, proc: harness.New(t, harness.Config{
		Name: name, Inside: append(inside, "NOTIFY_SOCKET="+address), Program: "setpriv", Args: func() []string { return args },
	})}
}

// told waits until the service tells something.
func (s *service) told(t *testing.T, want string) {
	t.Helper()
	if err := s.socket.SetReadDeadline(time.Now().Add(harness.Patience)); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 4096)
	n, err := s.socket.Read(buf)
	if err != nil || string(buf[:n]) != want {
		t.Fatalf("%s tells %q, %v, want %q\n%s", s.proc.Name(), buf[:n], err, want, s.proc.Printed())
	}
}

func (s *service) start(t *testing.T) {
	t.Helper()
	s.proc.Start()
	s.told(t, "READY=1")
}

func (s *service) stop(t *testing.T) {
	t.Helper()
	s.proc.End()
	s.told(t, "STOPPING=1")
}

// serve sets a site up as the operator's guide says, and runs both services.
func serve(t *testing.T, r root) {
	address := testport.Free(t, 1)[0]
	r.run(t, "runuser", "-u", "slipway", "--", "controllerd", "bootstrap", "--data-dir", "/var/lib/slipway", "--listen", address)
	controller := r.service(t, "slipway-controller")
	controller.start(t)
	r.run(t, "install", "-o", "slipway-provisioner", "-g", "slipway-provisioner", "-m", "600", "/var/lib/slipway/agents/machine-0.yaml", "/var/lib/slipway-provisioner/agent.yaml")
	provisioner := r.service(t, "slipway-provisioner")
	provisioner.start(t)
	if out := r.run(t, "env", "SLIPWAY_DATA=/var/lib/slipway/client", "slipway", "models"); !strings.Contains(out, "controller") {
		t.Errorf("slipway models:\n%s", out)
	}
	provisioner.stop(t)
	controller.stop(t)
	if got := r.run(t, "stat", "-c", "%U %a", "/var/log/slipway/audit.log", "/var/lib/slipway/controller.yaml"); got != "slipway 600\nslipway 600\n" {
		t.Errorf("audit log and settings are of %s", got)
	}
}
