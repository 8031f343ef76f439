// Package lxdtest is an LXD daemon for tests: it answers on a unix socket as the
// real one does, as far as package rest asks, and keeps containers in memory.
// What it answers was taken down from LXD 5.0.2.
package lxdtest

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// File is a file on a container's disk.
type File struct {
	Kind    string // file, directory or symlink
	Mode    string // in octal
	Content string
}

// Container is a container of the server.
type Container struct {
	Name     string
	Status   string // Running or Stopped
	Config   map[string]string
	Devices  map[string]map[string]string
	Profiles []string
	Alias    string // of its image
	Files    map[string]File
}

// Server is a daemon for one test.
type Server struct {
	// Address is what a client is given.
	Address string

	http *httptest.Server

	mu         sync.Mutex
	images     map[string]bool // by alias
	disk       map[string]File // of every image
	containers map[string]*Container
	operations map[string]map[string]any
	last       int
	calls      []string
	fail       func(call string) *Failure

	pools          []string
	profileDevices map[string]map[string]string // of the default profile
}

// Failure is how a call goes wrong.
type Failure struct {
	Code int    // the answer's; 0 means that the call begins an operation, which then fails
	Text string // LXD's
	// Done says that what was asked for is done all the same.
	Done bool
	// Cut says that the connection breaks instead of an answer.
	Cut bool
}

// NewServer returns a running server that has images with the given aliases, a
// profile "default" with a storage pool of the same name and the network lxdbr0, 4 CPUs and 8 GiB of
// memory. It ends with the test.
func NewServer(t testing.TB, aliases ...string) *Server {
	t.Helper()
	// The test's own folder may have a name too long for a socket.
	dir, err := os.MkdirTemp("", "lxdtest")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	socket := filepath.Join(dir, "unix.socket")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{
		Address: "unix://" + socket, images: map[string]bool{},
		containers: map[string]*Container{}, operations: map[string]map[string]any{},
		pools: []string{"default"},
		profileDevices: map[string]map[string]string{
			"root": {"type": "disk", "path": "/", "pool": "default"},
			"eth0": {"type": "nic", "network": "lxdbr0"},
		},
	}
	for _, a := range aliases {
		s.images[a] = true
	}
	s.http = httptest.NewUnstartedServer(s.handler())
	s.http.Listener = listener
	s.http.Start()
	t.Cleanup(s.http.Close)
	return s
}

// Fail has each call ("POST /1.0/instances", without the query) judged by f,
// which returns nil for one that goes well. Nil means that all do.
func (s *Server) Fail(f func(call string) *Failure) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail = f
}

// Disk says what is on the disks of new containers, by its path.
func (s *Server) Disk(files map[string]File) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.disk = maps.Clone(files)
}

// Calls returns the calls so far, as Fail is told of them.
func (s *Server) Calls() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.calls)
}

// Containers returns copies of all containers, by name.
func (s *Server) Containers() map[string]Container {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[string]Container{}
	for name, c := range s.containers {
		copied := *c
		copied.Files, copied.Config = maps.Clone(c.Files), maps.Clone(c.Config)
		out[name] = copied
	}
	return out
}

// Put puts a container there, as somebody else would, or changes one.
func (s *Server) Put(c Container) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.Files == nil {
		c.Files = map[string]File{}
	}
	s.containers[c.Name] = &c
}

func (s *Server) handler() http.Handler {
	mux := http.NewServeMux()
	for pattern, h := range map[string]func(*http.Request) (any, *Failure){
		"GET /1.0":                         s.server,
		"GET /1.0/resources":               s.resources,
		"GET /1.0/profiles/{name}":         s.profile,
		"PATCH /1.0/profiles/{name}":       s.patchProfile,
		"GET /1.0/storage-pools":           s.listPools,
		"POST /1.0/storage-pools":          s.createPool,
		"GET /1.0/instances":               s.list,
		"POST /1.0/instances":              s.create,
		"GET /1.0/instances/{name}":        s.get,
		"PATCH /1.0/instances/{name}":      s.patch,
		"DELETE /1.0/instances/{name}":     s.delete,
		"GET /1.0/instances/{name}/state":  s.state,
		"PUT /1.0/instances/{name}/state":  s.setState,
		"POST /1.0/instances/{name}/files": s.putFile,
		"GET /1.0/instances/{name}/files":  s.getDir,
		"POST /1.0/instances/{name}/exec":  s.exec,
		"GET /1.0/operations/{id}/wait":    s.wait,
	} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) { s.answer(w, r, h) })
	}
	return mux
}

// begun is the result of a call that begins an operation.
type begun struct{ failure string }

// listing is a directory as a call's result.
type listing struct {
	mode  string
	names []string
}

// answer makes one call and writes what came of it.
func (s *Server) answer(w http.ResponseWriter, r *http.Request, h func(*http.Request) (any, *Failure)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	call := r.Method + " " + r.URL.Path
	s.calls = append(s.calls, call)
	var planned *Failure
	if s.fail != nil {
		planned = s.fail(call)
	}
	var result any
	failure := planned
	if planned == nil || planned.Done {
		if result, failure = h(r); failure == nil {
			failure = planned
		}
	}
	if failure != nil && failure.Cut {
		panic(http.ErrAbortHandler)
	}
	a := map[string]any{"type": "sync", "status": "Success", "status_code": 200, "metadata": result}
	if failure != nil && failure.Code == 0 {
		result = begun{failure.Text}
		failure = nil
	}
	code := http.StatusOK
	if op, ok := result.(begun); ok {
		s.last++
		id := fmt.Sprint("op-", s.last)
		s.operations[id] = map[string]any{"id": id, "status": "Success", "err": op.failure}
		if op.failure != "" {
			s.operations[id]["status"] = "Failure"
		}
		a = map[string]any{"type": "async", "operation": "/1.0/operations/" + id, "metadata": map[string]any{"status": "Running"}}
		code = http.StatusAccepted
	}
	if failure != nil {
		code = failure.Code
		a = map[string]any{"type": "error", "error_code": failure.Code, "error": failure.Text}
	}
	if dir, ok := result.(listing); ok {
		w.Header().Set("X-LXD-mode", dir.mode)
		w.Header().Set("X-LXD-type", "directory")
		a["metadata"] = dir.names
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(a) // the client may have gone
}

func (s *Server) server(*http.Request) (any, *Failure) {
	return map[string]any{"auth": "trusted", "environment": map[string]any{"architectures": []string{"x86_64", "i686"}, "server_version": "5.0.2"}}, nil
}

func (s *Server) resources(*http.Request) (any, *Failure) {
	return map[string]any{"cpu": map[string]any{"total": 4}, "memory": map[string]any{"total": 8 << 30}}, nil
}

func (s *Server) profile(r *http.Request) (any, *Failure) {
	if r.PathValue("name") != "default" {
		return nil, &Failure{Code: http.StatusNotFound, Text: "Profile not found"}
	}
	return map[string]any{"devices": s.profileDevices}, nil
}

func (s *Server) patchProfile(r *http.Request) (any, *Failure) {
	var asked struct{ Devices map[string]map[string]string }
	if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
		return nil, &Failure{Code: http.StatusBadRequest, Text: err.Error()}
	}
	maps.Copy(s.profileDevices, asked.Devices)
	return nil, nil
}

func (s *Server) listPools(*http.Request) (any, *Failure) {
	out := []string{}
	for _, p := range s.pools {
		out = append(out, "/1.0/storage-pools/"+p)
	}
	return out, nil
}

func (s *Server) createPool(r *http.Request) (any, *Failure) {
	var asked struct{ Name string }
	if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
		return nil, &Failure{Code: http.StatusBadRequest, Text: err.Error()}
	}
	if slices.Contains(s.pools, asked.Name) {
		return nil, &Failure{Code: http.StatusConflict, Text: "Storage pool already exists"}
	}
	s.pools = append(s.pools, asked.Name)
	return nil, nil
}

// Bare takes away the storage pools, as on a server that has just been installed.
func (s *Server) Bare() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pools, s.profileDevices = nil, map[string]map[string]string{}
}

// Profile replaces the devices of the default profile.
func (s *Server) Profile(devices map[string]map[string]string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.profileDevices = devices
}

// Pool returns the storage pool of the default profile's root disk; empty means
// none.
func (s *Server) Pool() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.profileDevices["root"]["pool"]
}

func (s *Server) wait(r *http.Request) (any, *Failure) {
	op, ok := s.operations[r.PathValue("id")]
	if !ok {
		return nil, &Failure{Code: http.StatusNotFound, Text: "Operation not found"}
	}
	return op, nil
}

// view is a container as the API shows it.
func view(c *Container) map[string]any {
	return map[string]any{
		"name": c.Name, "status": c.Status, "architecture": "x86_64", "config": c.Config, "devices": c.Devices,
		"profiles": c.Profiles, "expanded_config": c.Config, "expanded_devices": c.Devices, "type": "container",
	}
}

func (s *Server) list(*http.Request) (any, *Failure) {
	out := []any{}
	for _, name := range slices.Sorted(maps.Keys(s.containers)) {
		out = append(out, view(s.containers[name]))
	}
	return out, nil
}

func (s *Server) named(r *http.Request) (*Container, *Failure) {
	c, ok := s.containers[r.PathValue("name")]
	if !ok {
		return nil, &Failure{Code: http.StatusNotFound, Text: "Instance not found"}
	}
	return c, nil
}

func (s *Server) get(r *http.Request) (any, *Failure) {
	c, failure := s.named(r)
	if failure != nil {
		return nil, failure
	}
	return view(c), nil
}

func (s *Server) patch(r *http.Request) (any, *Failure) {
	c, failure := s.named(r)
	if failure != nil {
		return nil, failure
	}
	var asked struct{ Config map[string]string }
	if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
		return nil, &Failure{Code: http.StatusBadRequest, Text: err.Error()}
	}
	c.Config = maps.Clone(c.Config)
	maps.Copy(c.Config, asked.Config)
	return nil, nil
}

func (s *Server) create(r *http.Request) (any, *Failure) {
	var asked struct {
		Name     string
		Source   struct{ Alias string }
		Config   map[string]string
		Devices  map[string]map[string]string
		Profiles []string
	}
	if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
		return nil, &Failure{Code: http.StatusBadRequest, Text: err.Error()}
	}
	if !s.images[asked.Source.Alias] {
		return nil, &Failure{Code: http.StatusNotFound, Text: "Image alias not found"}
	}
	if _, there := s.containers[asked.Name]; there {
		return nil, &Failure{Text: fmt.Sprintf("Failed creating instance record: Add instance info to the database: This %q entry already exists", "instances")}
	}
	s.containers[asked.Name] = &Container{
		Name: asked.Name, Status: "Stopped", Config: asked.Config, Devices: asked.Devices, Profiles: asked.Profiles,
		Alias: asked.Source.Alias, Files: map[string]File{"/": {Kind: "directory"}},
	}
	maps.Copy(s.containers[asked.Name].Files, s.disk)
	return begun{}, nil
}

func (s *Server) delete(r *http.Request) (any, *Failure) {
	c, failure := s.named(r)
	if failure != nil {
		return nil, failure
	}
	if c.Status != "Stopped" {
		return nil, &Failure{Code: http.StatusBadRequest, Text: "Instance is running"}
	}
	delete(s.containers, c.Name)
	return begun{}, nil
}

func (s *Server) state(r *http.Request) (any, *Failure) {
	c, failure := s.named(r)
	if failure != nil {
		return nil, failure
	}
	address := func(family, value, scope string) map[string]any {
		return map[string]any{"family": family, "address": value, "scope": scope}
	}
	return map[string]any{"status": c.Status, "network": map[string]any{
		"lo":   map[string]any{"type": "loopback", "addresses": []any{address("inet", "127.0.0.1", "local")}},
		"eth0": map[string]any{"type": "broadcast", "addresses": []any{address("inet6", "fe80::1", "link"), address("inet", "10.9.8.7", "global")}},
	}}, nil
}

func (s *Server) setState(r *http.Request) (any, *Failure) {
	c, failure := s.named(r)
	if failure != nil {
		return nil, failure
	}
	var asked struct{ Action string }
	if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
		return nil, &Failure{Code: http.StatusBadRequest, Text: err.Error()}
	}
	status, power := "Running", "RUNNING"
	if asked.Action == "stop" {
		status, power = "Stopped", "STOPPED"
	}
	if c.Status == status {
		return nil, &Failure{Code: http.StatusBadRequest, Text: "The instance is already " + strings.ToLower(status)}
	}
	c.Status = status
	c.Config = maps.Clone(c.Config)
	if c.Config == nil {
		c.Config = map[string]string{}
	}
	c.Config["volatile.last_state.power"] = power
	return begun{}, nil
}

func (s *Server) putFile(r *http.Request) (any, *Failure) {
	c, failure := s.named(r)
	if failure != nil {
		return nil, failure
	}
	if r.Header.Get("Content-Type") != "application/octet-stream" {
		return nil, &Failure{Code: http.StatusBadRequest, Text: "the content was taken for a form"}
	}
	at := r.URL.Query().Get("path")
	if c.Files[path.Dir(at)].Kind != "directory" {
		return nil, &Failure{Code: http.StatusNotFound, Text: "Not Found"}
	}
	content, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, &Failure{Code: http.StatusBadRequest, Text: err.Error()}
	}
	if old, there := c.Files[at]; there && old.Kind == "directory" {
		return nil, nil
	}
	c.Files[at] = File{Kind: r.Header.Get("X-LXD-type"), Mode: r.Header.Get("X-LXD-mode"), Content: string(content)}
	return nil, nil
}

func (s *Server) getDir(r *http.Request) (any, *Failure) {
	c, failure := s.named(r)
	if failure != nil {
		return nil, failure
	}
	at := r.URL.Query().Get("path")
	dir, ok := c.Files[at]
	if !ok {
		return nil, &Failure{Code: http.StatusNotFound, Text: "Not Found"}
	}
	out := listing{mode: dir.Mode, names: []string{}}
	for _, file := range slices.Sorted(maps.Keys(c.Files)) {
		if path.Dir(file) == at && file != at {
			out.names = append(out.names, path.Base(file))
		}
	}
	return out, nil
}

// exec knows one command: chmod MODE PATH.
func (s *Server) exec(r *http.Request) (any, *Failure) {
	c, failure := s.named(r)
	if failure != nil {
		return nil, failure
	}
	var asked struct{ Command []string }
	if err := json.NewDecoder(r.Body).Decode(&asked); err != nil || len(asked.Command) == 0 {
		return nil, &Failure{Code: http.StatusBadRequest, Text: "no command"}
	}
	if c.Status != "Running" {
		return nil, &Failure{Code: http.StatusBadRequest, Text: "Instance is not running"}
	}
	if c.Files["/bin/chmod"].Kind == "" || len(asked.Command) != 3 {
		return nil, &Failure{Text: "Command not found"}
	}
	file := c.Files[asked.Command[2]]
	file.Mode = asked.Command[1]
	c.Files[asked.Command[2]] = file
	return begun{}, nil
}
