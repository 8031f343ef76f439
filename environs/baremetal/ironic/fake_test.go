package ironic_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
)

// password is what every BMC accepts, and what must appear in no message.
const password = "s3cret-of-the-bmc"

// machine is the metal behind a node: it outlives the node.
type machine struct {
	on          bool
	disk        string
	writes      int
	unreachable bool
}

// node is a row of Ironic's database, as JSON shows it.
type node map[string]any

func (n node) text(key string) string { s, _ := n[key].(string); return s }
func (n node) object(key string) map[string]any {
	m, _ := n[key].(map[string]any)
	return m
}

// fakeIronic is an Ironic of API versions 1.1 to 1.82 with made-up machines.
type fakeIronic struct {
	t      *testing.T
	server *httptest.Server
	delay  time.Duration // how long a node works

	mu       sync.Mutex
	nodes    map[string]node // by UUID
	ports    map[string]string
	machines map[string]*machine // by BMC address
	work     map[string]func()   // what happens when a node's work is over
	until    map[string]time.Time
	drives   map[string]any // the last config drive of each node
	log      []string
	fail     func(r *http.Request) (status int, message string) // nil: nothing fails
	noSoft   bool
	version  string
}

func newFakeIronic(t *testing.T) *fakeIronic {
	f := &fakeIronic{t: t, delay: 2 * time.Millisecond, version: "1.82", machines: make(map[string]*machine)}
	f.forget()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/{$}", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, 200, map[string]any{"version": map[string]any{"min_version": "1.1", "version": f.version}})
	})
	mux.HandleFunc("GET /v1/drivers", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, 200, map[string]any{"drivers": []map[string]any{{"name": "redfish"}}})
	})
	mux.HandleFunc("POST /v1/nodes", f.createNode)
	mux.HandleFunc("GET /v1/nodes/{id}", f.on(func(w http.ResponseWriter, _ *http.Request, n node) { reply(w, 200, n) }))
	mux.HandleFunc("PATCH /v1/nodes/{id}", f.on(f.patchNode))
	mux.HandleFunc("DELETE /v1/nodes/{id}", f.on(f.deleteNode))
	mux.HandleFunc("GET /v1/nodes/{id}/validate", f.on(f.validate))
	mux.HandleFunc("GET /v1/nodes/{id}/inventory", f.on(f.inventory))
	mux.HandleFunc("PUT /v1/nodes/{id}/states/provision", f.on(f.provision))
	mux.HandleFunc("PUT /v1/nodes/{id}/states/power", f.on(f.power))
	mux.HandleFunc("DELETE /v1/nodes/{id}/maintenance", f.on(func(w http.ResponseWriter, _ *http.Request, n node) {
		n["maintenance"] = false
		w.WriteHeader(202)
	}))
	mux.HandleFunc("GET /v1/ports", f.listPorts)
	mux.HandleFunc("POST /v1/ports", f.createPort)
	f.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.log = append(f.log, r.Method+" "+r.URL.Path)
		if f.fail != nil {
			if status, message := f.fail(r); status != 0 {
				refuse(w, status, message)
				return
			}
		}
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(f.server.Close)
	return f
}

// forget loses the database.
func (f *fakeIronic) forget() {
	f.nodes, f.ports = make(map[string]node), make(map[string]string)
	f.work, f.until, f.drives = make(map[string]func()), make(map[string]time.Time), make(map[string]any)
}

func reply(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

// refuse answers with JSON within JSON, as Ironic does.
func refuse(w http.ResponseWriter, status int, message string) {
	inner, _ := json.Marshal(map[string]any{"faultcode": "Client", "faultstring": message, "debuginfo": nil})
	reply(w, status, map[string]any{"error_message": string(inner)})
}

// on finds the node of a request, by UUID or name, and finishes what is due.
func (f *fakeIronic) on(h func(http.ResponseWriter, *http.Request, node)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		id := r.PathValue("id")
		for key, n := range f.nodes {
			if key != id && n.text("name") != id {
				continue
			}
			if until, busy := f.until[key]; busy && !time.Now().Before(until) {
				delete(f.until, key)
				f.work[key]()
			}
			h(w, r, n)
			return
		}
		refuse(w, 404, "Node "+id+" could not be found.")
	}
}

// locked refuses if the node is at work.
func (f *fakeIronic) locked(w http.ResponseWriter, n node) bool {
	if _, busy := f.until[n.text("uuid")]; busy {
		refuse(w, 409, "Node "+n.text("uuid")+" is locked by host lab-conductor, please retry after the current operation is completed.")
		return true
	}
	return false
}

// begin puts the node to work and calls then when that is over.
func (f *fakeIronic) begin(n node, state string, then func()) {
	id := n.text("uuid")
	n["provision_state"] = state
	f.until[id] = time.Now().Add(f.delay)
	f.work[id] = func() {
		n["target_provision_state"] = nil
		then()
	}
}

func (f *fakeIronic) createNode(w http.ResponseWriter, r *http.Request) {
	n := node{"provision_state": "enroll", "power_state": nil, "target_power_state": nil, "target_provision_state": nil, "last_error": nil,
		"maintenance": false, "instance_info": map[string]any{}, "instance_uuid": nil, "properties": map[string]any{}, "extra": map[string]any{}, "fault": nil}
	if json.NewDecoder(r.Body).Decode(&n) != nil {
		refuse(w, 400, "bad body")
		return
	}
	for _, other := range f.nodes {
		if other.text("name") == n.text("name") {
			refuse(w, 409, "A node with name "+n.text("name")+" already exists.")
			return
		}
	}
	if n.text("driver") == "ibmc" {
		refuse(w, 400, "Driver ibmc could not be found.")
		return
	}
	n["uuid"] = uuid.NewString()
	f.nodes[n.text("uuid")] = n
	reply(w, 201, n)
}

func (f *fakeIronic) patchNode(w http.ResponseWriter, r *http.Request, n node) {
	var changes []struct {
		Op, Path string
		Value    any
	}
	if json.NewDecoder(r.Body).Decode(&changes) != nil {
		refuse(w, 400, "bad body")
		return
	}
	if f.locked(w, n) {
		return
	}
	for _, c := range changes {
		parts := strings.Split(strings.TrimPrefix(c.Path, "/"), "/")
		into, key := map[string]any(n), parts[0]
		if len(parts) == 2 {
			into, key = n.object(parts[0]), parts[1]
		}
		if c.Op == "remove" {
			if _, ok := into[key]; !ok {
				refuse(w, 400, "Cannot remove "+c.Path)
				return
			}
			delete(into, key)
			continue
		}
		into[key] = c.Value
	}
	reply(w, 200, n)
}

func (f *fakeIronic) deleteNode(w http.ResponseWriter, _ *http.Request, n node) {
	if f.locked(w, n) {
		return
	}
	switch n.text("provision_state") {
	case "available", "manageable", "enroll", "adopt failed", "inspect failed":
	default:
		if n["maintenance"] != true {
			refuse(w, 409, "Can not delete node while it is in provision state "+n.text("provision_state"))
			return
		}
	}
	id := n.text("uuid")
	delete(f.nodes, id)
	for mac, owner := range f.ports {
		if owner == id {
			delete(f.ports, mac)
		}
	}
	w.WriteHeader(204)
}

// machineOf returns the metal behind the node.
func (f *fakeIronic) machineOf(n node) *machine {
	return f.machineAt(fmt.Sprint(n.object("driver_info")["redfish_address"]))
}

func (f *fakeIronic) machineAt(address string) *machine {
	m, ok := f.machines[address]
	if !ok {
		m = new(machine)
		f.machines[address] = m
	}
	return m
}

// sync makes the node's power state that of its machine.
func (f *fakeIronic) sync(n node) {
	n["power_state"] = map[bool]string{true: "power on", false: "power off"}[f.machineOf(n).on]
}

func (f *fakeIronic) validate(w http.ResponseWriter, _ *http.Request, n node) {
	ok := map[string]any{"result": true}
	deploy := ok
	if strings.Contains(fmt.Sprint(n.object("instance_info")["image_source"]), "invalid-scheme") {
		deploy = map[string]any{"result": false, "reason": "image cannot be used"}
	}
	reply(w, 200, map[string]any{"boot": ok, "deploy": deploy, "power": map[string]any{"result": false, "reason": "not looked at"}})
}

func (f *fakeIronic) inventory(w http.ResponseWriter, _ *http.Request, _ node) {
	reply(w, 200, map[string]any{"inventory": map[string]any{
		"cpu":           map[string]any{"architecture": "x86_64", "count": 8, "model_name": "Fake", "frequency": "2400.4", "flags": []string{"vmx", "aes"}},
		"memory":        map[string]any{"physical_mb": 16384},
		"disks":         []map[string]any{{"name": "/dev/sda", "size": 1 << 40, "rotational": true, "serial": "S1", "hctl": "0:0:0:0"}},
		"interfaces":    []map[string]any{{"name": "eth0", "mac_address": "52:54:00:00:00:01", "ipv4_address": "192.0.2.1", "ipv6_address": "2001:db8::1", "speed_mbps": 10000, "vendor": "0x1af4", "product": "0x0001"}, {"name": "eth1", "mac_address": "52:54:00:00:00:02"}},
		"system_vendor": map[string]any{"manufacturer": "Fake", "product_name": "P", "serial_number": "N"},
		"boot":          map[string]any{"pxe_interface": "01-52-54-00-00-00-01"},
	}})
}

func (f *fakeIronic) listPorts(w http.ResponseWriter, r *http.Request) {
	list := []map[string]any{}
	for mac, id := range f.ports {
		if mac == r.URL.Query().Get("address") {
			list = append(list, map[string]any{"node_uuid": id})
		}
	}
	reply(w, 200, map[string]any{"ports": list})
}

func (f *fakeIronic) createPort(w http.ResponseWriter, r *http.Request) {
	var in struct {
		NodeUUID string `json:"node_uuid"`
		Address  string
	}
	_ = json.NewDecoder(r.Body).Decode(&in)
	if _, taken := f.ports[in.Address]; taken {
		refuse(w, 409, "A port with MAC address "+in.Address+" already exists.")
		return
	}
	f.ports[in.Address] = in.NodeUUID
	reply(w, 201, map[string]any{"node_uuid": in.NodeUUID, "address": in.Address})
}

func (f *fakeIronic) power(w http.ResponseWriter, r *http.Request, n node) {
	var in struct{ Target string }
	_ = json.NewDecoder(r.Body).Decode(&in)
	m := f.machineOf(n)
	switch {
	case f.locked(w, n):
		return
	case in.Target == "soft power off" && f.noSoft:
		refuse(w, 400, "soft power off is not supported")
		return
	}
	w.WriteHeader(202)
	n["target_power_state"] = in.Target
	id, state := n.text("uuid"), n["provision_state"]
	f.until[id] = time.Now().Add(f.delay)
	f.work[id] = func() {
		n["target_power_state"], n["provision_state"], n["last_error"] = nil, state, nil
		if m.unreachable {
			n["last_error"], n["power_state"] = "Failed to change power state: the BMC does not answer", nil
			return
		}
		m.on = in.Target == "power on"
		f.sync(n)
	}
}

// provision is Ironic's state machine, as far as it goes here.
func (f *fakeIronic) provision(w http.ResponseWriter, r *http.Request, n node) {
	var in struct {
		Target      string
		ConfigDrive any `json:"configdrive"`
	}
	_ = json.NewDecoder(r.Body).Decode(&in)
	if f.locked(w, n) {
		return
	}
	m, state, id := f.machineOf(n), n.text("provision_state"), n.text("uuid")
	set := func(state string) func() { return func() { n["provision_state"] = state } }
	next := map[string]func(){
		"enroll manage": func() {
			f.begin(n, "verifying", func() {
				if n.object("driver_info")["redfish_password"] != password {
					n["provision_state"], n["last_error"] = "enroll", "Failed to get power state: the BMC returned code 401 for user "+fmt.Sprint(n.object("driver_info")["redfish_username"])
					return
				}
				n["provision_state"] = "manageable"
				f.sync(n)
			})
		},
		"manageable inspect":     func() { f.begin(n, "inspecting", set("manageable")) },
		"manageable provide":     func() { f.begin(n, "cleaning", set("available")) },
		"available manage":       set("manageable"),
		"manageable adopt":       func() { f.begin(n, "adopting", set("active")) },
		"available active":       func() { f.deploy(n, m) },
		"deploy failed active":   func() { f.deploy(n, m) },
		"inspect failed inspect": func() { f.begin(n, "inspecting", set("manageable")) },
		"clean failed manage":    set("manageable"),
	}
	for _, from := range []string{"active", "deploy failed", "error"} {
		next[from+" deleted"] = func() {
			f.begin(n, "deleting", func() {
				f.begin(n, "cleaning", func() {
					n["provision_state"], n["instance_info"], n["instance_uuid"] = "available", map[string]any{}, nil
					m.disk, m.on = "", false
					m.writes++
					f.sync(n)
				})
			})
		}
	}
	move, ok := next[state+" "+in.Target]
	if !ok {
		refuse(w, 400, fmt.Sprintf("The requested action %q can not be performed on node %q while it is in state %q.", in.Target, id, state))
		return
	}
	n["target_provision_state"], n["last_error"] = in.Target, nil
	f.drives[id] = in.ConfigDrive
	w.WriteHeader(202)
	move()
	if _, busy := f.until[id]; !busy {
		n["target_provision_state"] = nil
	}
}

func (f *fakeIronic) deploy(n node, m *machine) {
	image := fmt.Sprint(n.object("instance_info")["image_source"])
	f.begin(n, "deploying", func() {
		if strings.Contains(image, "bad") {
			n["provision_state"], n["last_error"] = "deploy failed", "Failed to fetch "+image
			return
		}
		n["provision_state"] = "active"
		m.disk, m.on = image, true
		m.writes++
		f.sync(n)
	})
}
