package fakebmc_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/environs/baremetal/fakebmc"
)

// emulator is a stand-in for QEMU: it notes its arguments, and obeys
// system_powerdown by a restart the first time and by ending the second time.
const emulator = `#!/bin/sh
here=$(dirname "$0")
echo "$@" >> "$here/args"
echo '{"QMP": {}}'
while read line; do
	case $line in
	*system_powerdown*)
		if [ -e "$here/asked" ]; then reason=guest-shutdown; else reason=guest-reset; touch "$here/asked"; fi
		echo "{\"event\": \"SHUTDOWN\", \"data\": {\"guest\": true, \"reason\": \"$reason\"}}"
		exit 0;;
	esac
done
`

// virtual returns a BMC whose machine is the stand-in, and its folder.
func virtual(t *testing.T) (*client, string) {
	t.Helper()
	return virtualWith(t, fakebmc.QEMUOptions{})
}

// virtualWith is virtual, of a machine that is special.
func virtualWith(t *testing.T, o fakebmc.QEMUOptions) (*client, string) {
	t.Helper()
	dir := t.TempDir()
	for name, content := range map[string]string{"qemu": emulator, "code": "firmware", "vars": "nvram"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	o.Dir, o.Binary, o.DiskBytes = filepath.Join(dir, "machine"), filepath.Join(dir, "qemu"), 1<<20
	o.Code, o.Vars = filepath.Join(dir, "code"), filepath.Join(dir, "vars")
	q, err := fakebmc.NewQEMU(o)
	if err != nil {
		t.Fatal(err)
	}
	return open(t, fakebmc.Config{Machine: func(int) fakebmc.Machine { return q }}), dir
}

// started waits until the stand-in has been started n times and returns its
// arguments.
func started(t *testing.T, dir string, n int) []string {
	t.Helper()
	var lines []string
	for end := time.Now().Add(time.Minute); time.Now().Before(end); <-time.After(5 * time.Millisecond) {
		text, _ := os.ReadFile(filepath.Join(dir, "args"))
		if lines = strings.Split(strings.TrimSpace(string(text)), "\n"); len(lines) == n && lines[0] != "" {
			return lines
		}
	}
	t.Fatalf("started %d times, want %d", len(lines), n)
	return nil
}

func TestVirtualMachineFollowsItsPowerButton(t *testing.T) {
	c, dir := virtual(t)
	s := c.bmc.System(0)
	reset := func(kind string) {
		t.Helper()
		if err := s.Reset(kind); err != nil {
			t.Fatal(err)
		}
	}
	reset("On")
	args := started(t, dir, 1)[0]
	for _, want := range []string{"mac=" + s.MAC(), "serial=FAKE000000", "-no-reboot", "restrict=on", "disk.img"} {
		if !strings.Contains(args, want) {
			t.Errorf("arguments %s lack %s", args, want)
		}
	}
	reset("GracefulShutdown") // the stand-in restarts instead
	started(t, dir, 2)
	c.power("On")
	reset("GracefulShutdown")
	c.power("Off")
	reset("On")
	started(t, dir, 3)
	reset("ForceRestart")
	started(t, dir, 4)
	reset("ForceOff")
	c.power("Off")
}

func TestASpecialVirtualMachine(t *testing.T) {
	c, dir := virtualWith(t, fakebmc.QEMUOptions{DiskDevice: "nvme", SecureBoot: true, Port: "n7", Args: []string{"-netdev", "socket,id=n7,connect=127.0.0.1:7"}})
	s := c.bmc.System(0)
	if err := s.Reset("On"); err != nil {
		t.Fatal(err)
	}
	args := started(t, dir, 1)[0]
	for _, want := range []string{"-machine q35,smm=on", "property=secure,value=on", "-device nvme,drive=disk,bootindex=1,serial=", "-netdev socket,id=n7,connect=127.0.0.1:7 -device virtio-net-pci,netdev=n7,"} {
		if !strings.Contains(args, want) {
			t.Errorf("arguments %s lack %s", args, want)
		}
	}
	if _, got := c.do("GET", s.Path()+"/SecureBoot", ""); got["SecureBootCurrentBoot"] != "Enabled" {
		t.Errorf("Secure Boot: %v", got)
	}
	if err := s.Reset("ForceOff"); err != nil {
		t.Fatal(err)
	}
	c.power("Off")
}

func TestVirtualMachineFetchesItsMedium(t *testing.T) {
	files := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/a.iso" {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write([]byte("iso"))
	}))
	defer files.Close()
	c, dir := virtual(t)
	s := c.bmc.System(0)
	media := "/redfish/v1/Managers/BMC/VirtualMedia/Cd/Actions/VirtualMedia."
	c.do("POST", media+"InsertMedia", `{"Image":"`+files.URL+`/a.iso"}`)
	if err := s.Reset("On"); err != nil {
		t.Fatal(err)
	}
	if args := started(t, dir, 1)[0]; !strings.Contains(args, "cd.iso") {
		t.Errorf("arguments %s lack the CD", args)
	}
	if got, _ := os.ReadFile(filepath.Join(dir, "machine", "cd.iso")); string(got) != "iso" {
		t.Errorf("the CD holds %q", got)
	}
	if err := s.Reset("ForceOff"); err != nil {
		t.Fatal(err)
	}
	c.do("POST", media+"EjectMedia", `{}`)
	c.do("POST", media+"InsertMedia", `{"Image":"`+files.URL+`/missing.iso"}`)
	if err := s.Reset("On"); err != nil {
		t.Fatal(err)
	}
	c.power("Off") // a machine whose medium cannot be had does not stay on
}

func TestVirtualMachineNeedsItsParts(t *testing.T) {
	for _, o := range []fakebmc.QEMUOptions{{Binary: "/nonexistent/qemu"}, {Binary: "/bin/sh", Code: "/nonexistent/code"}} {
		o.Dir = t.TempDir()
		if _, err := fakebmc.NewQEMU(o); !errors.Is(err, errors.NotFound) {
			t.Errorf("NewQEMU(%+v) = %v, want NotFound", o, err)
		}
	}
}
