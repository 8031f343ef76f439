package rest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/juju/errors"
)

// The statuses of an instance that callers tell apart.
const (
	Running = "Running"
	Stopped = "Stopped"
	Broken  = "Error"
)

// Instance is a container as the daemon knows it.
type Instance struct {
	Name         string            `json:"name"`
	Status       string            `json:"status"`
	Architecture string            `json:"architecture"` // as uname -m says it
	Config       map[string]string `json:"config"`
	Devices      Devices           `json:"devices"`
	Profiles     []string          `json:"profiles"`
	// Those with what the profiles add.
	ExpandedConfig  map[string]string `json:"expanded_config"`
	ExpandedDevices Devices           `json:"expanded_devices"`
}

// Devices are the settings of each device, by its name.
type Devices map[string]map[string]string

// Ran reports whether the instance has been started at least once.
func (i Instance) Ran() bool {
	return i.Status == Running || i.Config["volatile.last_state.power"] != ""
}

// NewInstance is an instance to be made.
type NewInstance struct {
	Name         string            `json:"name"`
	Type         string            `json:"type"`                   // container
	Architecture string            `json:"architecture,omitempty"` // empty means the image's
	Source       Source            `json:"source"`
	Profiles     []string          `json:"profiles"`
	Config       map[string]string `json:"config"`
	Devices      Devices           `json:"devices"`
}

// Source is the image that an instance is made of: by alias or fingerprint, on
// the daemon's own machine or, with Mode pull, on a server.
type Source struct {
	Type        string `json:"type"` // image
	Alias       string `json:"alias,omitempty"`
	Fingerprint string `json:"fingerprint,omitempty"`
	Mode        string `json:"mode,omitempty"`
	Server      string `json:"server,omitempty"`
	Protocol    string `json:"protocol,omitempty"`
}

// Instances returns all instances of the project.
func (c *Client) Instances(ctx context.Context) ([]Instance, error) {
	var out []Instance
	err := c.get(ctx, "/1.0/instances", url.Values{"recursion": {"1"}}, &out)
	return out, err
}

// Instance returns one instance, or an error satisfying errors.NotFound.
func (c *Client) Instance(ctx context.Context, name string) (Instance, error) {
	var out Instance
	err := c.get(ctx, instancePath(name), nil, &out)
	return out, err
}

func instancePath(name string) string { return "/1.0/instances/" + url.PathEscape(name) }

// Create makes an instance, which does not run yet. Progress, unless it is nil,
// is told what LXD says meanwhile. It returns an error satisfying
// errors.NotFound if the image is not there, and errors.AlreadyExists if the
// name is taken.
func (c *Client) Create(ctx context.Context, n NewInstance, progress func(string)) error {
	return c.operate(ctx, http.MethodPost, "/1.0/instances", n, progress)
}

// Start starts an instance.
func (c *Client) Start(ctx context.Context, name string) error {
	return c.setState(ctx, name, map[string]any{"action": "start", "timeout": 60})
}

// Stop ends everything that runs in an instance, without asking it.
func (c *Client) Stop(ctx context.Context, name string) error {
	return c.setState(ctx, name, map[string]any{"action": "stop", "timeout": 60, "force": true})
}

func (c *Client) setState(ctx context.Context, name string, change map[string]any) error {
	return c.operate(ctx, http.MethodPut, instancePath(name)+"/state", change, nil)
}

// SetConfig changes keys of an instance's configuration, and no others.
func (c *Client) SetConfig(ctx context.Context, name string, config map[string]string) error {
	_, err := c.send(ctx, http.MethodPatch, instancePath(name), map[string]any{"config": config})
	return err
}

// Run runs a command in an instance that runs, and waits for its end. What it
// prints and how it ended is not known.
func (c *Client) Run(ctx context.Context, name string, command ...string) error {
	return c.operate(ctx, http.MethodPost, instancePath(name)+"/exec", map[string]any{"command": command}, nil)
}

// Delete removes an instance that does not run. It returns an error satisfying
// errors.NotFound if it is not there.
func (c *Client) Delete(ctx context.Context, name string) error {
	return c.operate(ctx, http.MethodDelete, instancePath(name), nil, nil)
}

// Interface is a network device inside an instance.
type Interface struct {
	Type      string `json:"type"` // broadcast, loopback and so on
	Addresses []struct {
		Family  string `json:"family"` // inet or inet6
		Address string `json:"address"`
		Scope   string `json:"scope"` // global, link or local
	} `json:"addresses"`
}

// Network returns the network devices of an instance that runs, by name.
func (c *Client) Network(ctx context.Context, name string) (map[string]Interface, error) {
	var out struct {
		Network map[string]Interface `json:"network"`
	}
	err := c.get(ctx, instancePath(name)+"/state", nil, &out)
	return out.Network, err
}

// File is something to be put on an instance's disk, for root.
type File struct {
	Path    string // absolute
	Mode    fs.FileMode
	Content io.ReadSeeker
	// Link is what the file, then a symbolic link, points to.
	Link string
}

// WriteFile puts a file on the disk of an instance, whether it runs or not, and
// makes the directories that it is in.
func (c *Client) WriteFile(ctx context.Context, name string, f File) error {
	err := c.writeFile(ctx, name, f)
	if !errors.Is(err, errors.NotFound) {
		return err
	}
	if err := c.MakeDir(ctx, name, path.Dir(f.Path), 0o755); err != nil {
		return err
	}
	return c.writeFile(ctx, name, f)
}

func (c *Client) writeFile(ctx context.Context, name string, f File) error {
	kind, mode, content := "file", f.Mode.Perm(), io.Reader(f.Content)
	if f.Link != "" {
		kind, mode, content = "symlink", 0o777, strings.NewReader(f.Link)
	} else if _, err := f.Content.Seek(0, io.SeekStart); err != nil {
		return errors.Trace(err)
	}
	return c.put(ctx, name, f.Path, kind, mode, content)
}

// MakeDir makes a directory on the disk of an instance, and those above it, for
// root. One that is there stays as it is, its mode as well.
func (c *Client) MakeDir(ctx context.Context, name, dir string, mode fs.FileMode) error {
	if dir == "/" {
		return nil
	}
	err := c.put(ctx, name, dir, "directory", mode, nil)
	if !errors.Is(err, errors.NotFound) {
		return err
	}
	if err := c.MakeDir(ctx, name, path.Dir(dir), 0o755); err != nil {
		return err
	}
	return c.put(ctx, name, dir, "directory", mode, nil)
}

// Directory is a directory on the disk of an instance.
type Directory struct {
	Mode  fs.FileMode // permissions
	Names []string    // of what is in it
}

// Directory returns a directory on the disk of an instance, or an error
// satisfying errors.NotFound.
func (c *Client) Directory(ctx context.Context, name, dir string) (Directory, error) {
	a, err := c.call(ctx, request{method: http.MethodGet, path: instancePath(name) + "/files", query: url.Values{"path": {dir}}})
	if err != nil {
		return Directory{}, errors.Annotatef(err, "cannot look at %s", dir)
	}
	var out Directory
	mode, err := strconv.ParseUint(a.header.Get("X-Lxd-Mode"), 8, 32)
	if err == nil {
		err = json.Unmarshal(a.Metadata, &out.Names)
	}
	out.Mode = fs.FileMode(mode).Perm()
	return out, errors.Annotatef(err, "cannot understand LXD: directory %s", dir)
}

// fileTimeout bounds the writing of one file.
const fileTimeout = 5 * time.Minute

func (c *Client) put(ctx context.Context, name, at, kind string, mode fs.FileMode, content io.Reader) error {
	header := http.Header{
		// Any other type, and LXD would take the content for a form.
		"Content-Type": {"application/octet-stream"},
		"X-Lxd-Type":   {kind}, "X-Lxd-Mode": {fmt.Sprintf("%04o", mode)},
		"X-Lxd-Uid": {"0"}, "X-Lxd-Gid": {"0"}, "X-Lxd-Write": {"overwrite"},
	}
	if content != nil {
		content = io.NopCloser(content) // the transport must not close a file that is sent again
	}
	_, err := c.call(ctx, request{
		method: http.MethodPost, path: instancePath(name) + "/files", query: url.Values{"path": {at}},
		header: header, body: content, timeout: fileTimeout,
	})
	return errors.Annotatef(err, "cannot write %s", at)
}
