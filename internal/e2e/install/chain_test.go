//go:build e2e

package install_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// imageAddress is where machines see the test's own server of images.
const imageAddress = "10.0.2.101"

// program is a process of the site.
type program struct {
	cmd  *exec.Cmd
	mu   sync.Mutex
	out  bytes.Buffer
	done chan struct{}
}

func (p *program) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.Write(b)
}

func (p *program) text() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.String()
}

// rack is what there is in a site, and how patient its worker is.
type rack struct {
	hosts    []string       // the virtual machines behind the one BMC
	machines map[string]any // how some of them differ, by number; see fakebmcd --machines
	disks    map[int]string // files that become disks of machines
	worker   []string       // further arguments of the worker
}

// chain is a whole site with a rack of virtual machines.
type chain struct {
	rack
	t      *testing.T
	bin    string
	dir    string
	bmc    string // address of the BMCs
	raw    []byte // image of a system with an agent
	image  []byte // the same, packed
	images *images
	proxy  *proxy
	site   *program // controllerd
	agent  *program // provisionerd

	programs []*program
}

// binaries builds the programs of a site, static: one of them goes into the image.
func binaries(t *testing.T) string {
	t.Helper()
	bin := t.TempDir()
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", bin, "./cmd/controllerd", "./cmd/provisionerd", "./cmd/slipway", "./cmd/fakebmcd", "./internal/e2e/install/tinycloud")
	cmd.Dir = "../../.."
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return bin
}

// start starts a program and waits until its output matches ready, of which the first
// group is returned.
func (c *chain) start(ready string, name string, args ...string) (*program, string) {
	c.t.Helper()
	p := &program{cmd: exec.Command(filepath.Join(c.bin, name), args...), done: make(chan struct{})}
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = c.dir, p, p
	p.cmd.WaitDelay = time.Minute // what it has started may hold its output open
	if err := p.cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	c.programs = append(c.programs, p)
	go func() {
		_ = p.cmd.Wait() // the test sees to its end
		close(p.done)
	}()
	pattern := regexp.MustCompile(ready)
	var found string
	c.until(3*time.Minute, name+" is ready", func() bool {
		m := pattern.FindStringSubmatch(p.text())
		if m != nil {
			found = m[len(m)-1]
		}
		return m != nil
	})
	return p, found
}

// end has a program end by itself, since fake BMCs have to switch their virtual
// machines off, and kills one that does not.
func (p *program) end() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	select {
	case <-p.done:
	case <-time.After(time.Minute):
		_ = p.cmd.Process.Kill()
		<-p.done
	}
}

// until waits for something, and shows all there is to see if it does not come.
func (c *chain) until(limit time.Duration, what string, ok func() bool) {
	c.t.Helper()
	begin := time.Now()
	tick := time.NewTicker(300 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		if time.Since(begin) > limit {
			c.t.Fatalf("%s: not within %v\n%s", what, limit, c.evidence())
		}
		<-tick.C
	}
	c.t.Logf("%s after %v", what, time.Since(begin).Round(100*time.Millisecond))
}

// evidence is what the programs and the machines said.
func (c *chain) evidence() string {
	var b strings.Builder
	for _, p := range c.programs {
		fmt.Fprintf(&b, "== %s\n%s\n", filepath.Base(p.cmd.Path), tail(p.text(), 6000))
	}
	for n, h := range c.hosts {
		text, _ := os.ReadFile(c.file(n, "console.log"))
		out, _ := c.try("show-host", h)
		fmt.Fprintf(&b, "== %s\n%s\n== console\n%s\n", h, out, tail(strings.ReplaceAll(string(text), "\r", ""), 4000))
	}
	return b.String()
}

func tail(s string, n int) string { return s[max(0, len(s)-n):] }

// file returns a file of a host's virtual machine.
func (c *chain) file(n int, name string) string {
	return filepath.Join(c.dir, "machines", fmt.Sprint(n), name)
}

// try runs the operator's command.
func (c *chain) try(args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(c.bin, "slipway"), args...)
	cmd.Dir = c.dir
	cmd.Env = append(os.Environ(), "SLIPWAY_DATA="+filepath.Join(c.dir, "site", "client"))
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (c *chain) slipway(args ...string) string {
	c.t.Helper()
	out, err := c.try(args...)
	if err != nil {
		c.t.Fatalf("slipway %s: %v\n%s\n%s", strings.Join(args, " "), err, out, c.evidence())
	}
	return out
}

// shows waits until a command of the operator prints a text.
func (c *chain) shows(limit time.Duration, text string, args ...string) {
	c.t.Helper()
	c.until(limit, fmt.Sprintf("slipway %s shows %q", strings.Join(args, " "), text), func() bool {
		out, _ := c.try(args...)
		return strings.Contains(out, text)
	})
}

// proxy passes connections of machines on to the controller, wherever that is now.
type proxy struct {
	l  net.Listener
	mu sync.Mutex
	to string
}

func newProxy(t *testing.T) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{l: l}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go p.pass(conn)
		}
	}()
	return p
}

func (p *proxy) set(to string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.to = to
}

func (p *proxy) pass(in net.Conn) {
	defer in.Close()
	p.mu.Lock()
	to := p.to
	p.mu.Unlock()
	out, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	go func() {
		_, _ = io.Copy(out, in)
		_ = out.Close()
	}()
	_, _ = io.Copy(in, out)
}

// images is a server that stops in the middle of an image, once for each of its names.
type images struct {
	*httptest.Server
	image []byte
	mu    sync.Mutex
	seen  map[string]bool
	held  chan string // names of images in the middle of which it stopped
}

func newImages(t *testing.T, image []byte) *images {
	i := &images{image: image, seen: map[string]bool{}, held: make(chan string, 10)}
	i.Server = httptest.NewServer(i)
	t.Cleanup(func() {
		i.CloseClientConnections()
		i.Close()
	})
	return i
}

func (i *images) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("ETag", `"v1"`)
	i.mu.Lock()
	stop := !i.seen[r.URL.Path] && r.Method == http.MethodGet && !strings.HasPrefix(r.Header.Get("Range"), "bytes=0-")
	i.seen[r.URL.Path] = i.seen[r.URL.Path] || stop
	i.mu.Unlock()
	if !stop {
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(i.image))
		return
	}
	w.Header().Set("Content-Length", fmt.Sprint(len(i.image)))
	_, _ = w.Write(i.image[:len(i.image)/2])
	w.(http.Flusher).Flush()
	i.held <- r.URL.Path
	<-r.Context().Done()
}

// system is the tiny system with an agent.
func (c *chain) system() system {
	return system{init: agentInit, programs: map[string]string{
		"bin/tinycloud": filepath.Join(c.bin, "tinycloud"), "var/lib/slipway/agent/current/provisionerd": filepath.Join(c.bin, "provisionerd"),
	}}
}

// newChain starts a site: controller, worker, and a BMC with virtual machines.
func newChain(t *testing.T, l *lab, k rack) *chain {
	t.Helper()
	c := &chain{rack: k, t: t, bin: binaries(t), dir: t.TempDir(), proxy: newProxy(t)}
	t.Cleanup(func() {
		for i := len(c.programs) - 1; i >= 0; i-- {
			c.programs[i].end()
		}
	})
	c.raw = buildImage(t, l.kernel, ramdisk(t, l.kernel), c.system())
	c.image = compress(t, c.raw)
	c.images = newImages(t, c.image)
	tool(t, c.dir, filepath.Join(c.bin, "controllerd"), "bootstrap", "--data-dir", "site", "--listen", "127.0.0.1:0", "--advertise", address+":443", "--provider", "baremetal")
	if err := os.MkdirAll(filepath.Join(c.dir, "site", "images"), 0o755); err != nil {
		t.Fatal(err)
	}
	special, err := json.Marshal(c.machines)
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{"site/images/tiny.zst": c.image, "bmc.yaml": []byte("username: admin\npassword: calvin\n"), "machines.json": special} {
		if err := os.WriteFile(filepath.Join(c.dir, name), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for n, file := range c.disks {
		if err := os.MkdirAll(filepath.Dir(c.file(n, "disk.img")), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(file, c.file(n, "disk.img")); err != nil {
			t.Fatal(err)
		}
	}
	c.serve(l)
	c.start("BMCs with [0-9]+ machines each at http://([0-9.:]+) ", "fakebmcd", "--listen", "127.0.0.1:0", "--systems", fmt.Sprint(len(c.hosts)), "--qemu", "machines", "--disk", fmt.Sprint(gib),
		"--machines", "machines.json", "--media-ca", "site/ca.pem", "--network", fmt.Sprintf("restrict=on,ipv6=off,guestfwd=tcp:%s:443-cmd:/bin/busybox nc 127.0.0.1 %s,guestfwd=tcp:%s:80-cmd:/bin/busybox nc 127.0.0.1 %s",
			address, port(c.proxy.l.Addr().String()), imageAddress, port(c.images.Listener.Addr().String())))
	m := regexp.MustCompile("http://([0-9.:]+) to").FindStringSubmatch(c.programs[len(c.programs)-1].text())
	c.bmc = m[1]
	return c
}

// serve starts the controller, at another port than before, and the worker.
func (c *chain) serve(l *lab) {
	c.t.Helper()
	// BMCs are on a network of their own: they reach the controller by the proxy's address.
	p, at := c.start("ready ([0-9.:]+)\n", "controllerd", "run", "--data-dir", "site", "--listen", "127.0.0.1:0", "--installer-image", l.installer.EFI,
		"--installer-url", "https://"+address, "--installer-media-url", "https://"+c.proxy.l.Addr().String())
	c.site = p
	c.proxy.set(at)
	c.agent, _ = c.start("", "provisionerd", append([]string{"model", "--agent-file", filepath.Join("site", "agents", "machine-0.yaml"), "--installer-silence", "75s"}, c.worker...)...)
}

func port(addr string) string {
	_, p, err := net.SplitHostPort(addr)
	if err != nil {
		return err.Error()
	}
	return p
}

// disk reports whether the first and the last MiB of a host's disk are empty.
func (c *chain) emptyDisk(n int) bool {
	c.t.Helper()
	m := &machine{t: c.t, disk: c.file(n, "disk.img")}
	return len(bytes.Trim(m.ends(), "\x00")) == 0
}

// model sets where the model's image is, and what sum it is said to have.
func (c *chain) model(url string, of []byte) {
	c.t.Helper()
	c.slipway("model-config", "baremetal-image="+url, fmt.Sprintf("baremetal-image-checksum=%x", sha256.Sum256(of)), "baremetal-image-has-agent=true")
}

// TestChain is the whole way of machines: from add-machine over the environ, the host
// manager, Redfish, the installer and the disk to an agent that has started, and back.
func TestChain(t *testing.T) {
	l := newLab(t)
	c := newChain(t, l, rack{hosts: []string{"h1", "h2", "h3", "h4"}})
	for n, h := range c.hosts {
		scheme := "redfish-virtualmedia"
		if h == "h4" {
			scheme = "redfish-uefihttp"
		}
		c.slipway("add-host", h, "--bmc", fmt.Sprintf("%s+http://%s/redfish/v1/Systems/%d", scheme, c.bmc, n+1), "--mac", fmt.Sprintf("52:54:00:00:00:0%d", n+1), "--credentials-file", "bmc.yaml")
	}
	for _, h := range c.hosts {
		c.shows(3*time.Minute, "ready", "show-host", h)
	}
	c.life()
	c.troubles()
	if os.Getenv("SOAK") != "" { // the long form
		c.restart(l)
	}
}

// restart ends the controller and the worker in the middle of an installation, of a machine
// that boots by HTTP, and starts them again.
func (c *chain) restart(l *lab) {
	c.t.Helper()
	c.model("http://"+imageAddress+"/restart", c.image)
	c.slipway("add-machine", "--to", "host=h4")
	c.held()
	for _, p := range c.programs {
		if p == c.site || p == c.agent {
			_ = p.cmd.Process.Kill()
			<-p.done
		}
	}
	c.serve(l)
	c.images.CloseClientConnections() // the installer goes on from there
	c.shows(10*time.Minute, "started", "show-machine", "3")
	if shown := c.slipway("show-host", "h4"); strings.Contains(shown, "silent") || strings.Count(shown, "installer:") != 1 {
		c.t.Errorf("host whose controller was restarted:\n%s", shown)
	}
}

// held waits until the server of images stops in the middle of one.
func (c *chain) held() {
	c.t.Helper()
	c.until(8*time.Minute, "the image is in the middle", func() bool {
		select {
		case <-c.images.held:
			return true
		default:
			return false
		}
	})
}

// life is one machine's life.
func (c *chain) life() {
	c.t.Helper()
	c.model("https://"+address+"/installer/images/tiny.zst", c.image)
	c.slipway("add-machine", "--to", "host=h1")
	c.shows(8*time.Minute, "order for h1: provision", "show-host", "h1", "--log")
	c.shows(8*time.Minute, "started", "show-machine", "0")
	shown := c.slipway("show-host", "h1")
	for _, want := range []string{"provisioned", "machine 0 of model", "install, done", "disk:", "health:", "InstallerStep"} {
		if !strings.Contains(shown, want) {
			c.t.Errorf("show-host lacks %q:\n%s", want, shown)
		}
	}
	if details := c.slipway("show-host", "h1", "--format", "json"); !strings.Contains(details, `"/dev/vda"`) {
		c.t.Errorf("the hardware details are not the installer's:\n%s", details)
	}
	if log := c.slipway("show-host", "h1", "--log"); !strings.Contains(log, "disk to install on: /dev/vda") || strings.Contains(log, "nonce") {
		c.t.Errorf("log of the installer:\n%s", log)
	}
	console, err := os.ReadFile(c.file(0, "console.log"))
	if err != nil || !bytes.Contains(console, []byte("TINY-AGENT-BOOT host=h1")) || !bytes.Contains(console, []byte("TINY-CLOUD-OK")) {
		c.t.Errorf("console, %v:\n%s", err, tail(string(console), 4000))
	}
	c.slipway("remove-machine", "0")
	c.shows(8*time.Minute, "state:     ready", "show-host", "h1")
	if !c.emptyDisk(0) {
		c.t.Error("the disk is not empty after the machine's removal")
	}
	if shown := c.slipway("show-host", "h1"); !strings.Contains(shown, "wipe, done") || strings.Contains(shown, "machine 0") {
		c.t.Errorf("host after the removal of its machine:\n%s", shown)
	}
}

// troubles are a wrong image and a power cut, on two machines at a time.
func (c *chain) troubles() {
	c.t.Helper()
	c.model("http://"+imageAddress+"/cut", c.image)
	c.slipway("add-machine", "--to", "host=h3")
	c.shows(8*time.Minute, "machine 1 of model", "show-host", "h3")
	c.model("https://"+address+"/installer/images/tiny.zst", []byte("another image"))
	c.slipway("add-machine", "--to", "host=h2")
	c.held()
	c.cut(3)
	if !c.emptyDisk(2) {
		c.t.Error("half an image may boot")
	}
	c.shows(8*time.Minute, "image is not what was ordered", "show-host", "h2")
	c.shows(8*time.Minute, "image is not what was ordered", "show-host", "h2", "--log") // its lines come every two seconds
	if !c.emptyDisk(1) {
		c.t.Error("a wrong image may boot")
	}
	c.slipway("remove-machine", "2", "--force")
	c.shows(12*time.Minute, "started", "show-machine", "1")
	if shown := c.slipway("show-host", "h3"); !strings.Contains(shown, "the installer has been silent for") || !strings.Contains(shown, "provisioned") {
		c.t.Errorf("host whose power was cut:\n%s", shown)
	}
}

// cut takes the power from a machine behind its manager's back.
func (c *chain) cut(system int) {
	c.t.Helper()
	url := fmt.Sprintf("http://%s/redfish/v1/Systems/%d/Actions/ComputerSystem.Reset", c.bmc, system)
	req, err := http.NewRequest(http.MethodPost, url, strings.NewReader(`{"ResetType":"ForceOff"}`))
	if err != nil {
		c.t.Fatal(err)
	}
	req.SetBasicAuth("admin", "calvin")
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		c.t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode > 299 {
		c.t.Fatalf("power cut: %s", resp.Status)
	}
}
