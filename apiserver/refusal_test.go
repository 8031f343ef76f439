package apiserver_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/core/access"
	"github.com/slipway-project/slipway/core/container"
	"github.com/slipway-project/slipway/internal/golden"
	"github.com/slipway-project/slipway/rpc"
	"github.com/slipway-project/slipway/state"
	"github.com/slipway-project/slipway/state/statetest"
)

// method is a method of a facade, as facades.golden lists it.
type method struct {
	rpc.Request
	scope  string // of the connections on which it can be called: model, controller, both
	params string // name of the type, empty for none
}

// methods reads facades.golden, which another test holds to the table.
func methods(t testing.TB) []method {
	t.Helper()
	f, err := os.Open("testdata/facades.golden")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var out []method
	var current method
	for lines := bufio.NewScanner(f); lines.Scan(); {
		line := lines.Text()
		name, rest, _ := strings.Cut(strings.TrimSpace(line), "(")
		inside, after, _ := strings.Cut(rest, ")")
		if !strings.HasPrefix(line, "\t") {
			current = method{Request: rpc.Request{Type: name}}
			if current.Version, err = strconv.Atoi(inside); err != nil {
				t.Fatal(err)
			}
			_, after, _ = strings.Cut(after, "to: ")
			current.scope, _, _ = strings.Cut(after, ",")
			continue
		}
		m := current
		m.Method, m.params = name, inside
		out = append(out, m)
	}
	if len(out) < 50 {
		t.Fatalf("%d methods found, want all of them", len(out))
	}
	return out
}

// person adds a user with some access to the site and to the default model.
func (s *site) person(name string, controller access.Controller, model access.Model) credentials {
	s.t.Helper()
	ctx := context.Background()
	password := name + "-password"
	if _, err := s.Users().Add(ctx, state.UserSpec{Name: name, Password: password, Access: controller}); err != nil {
		s.t.Fatal(err)
	}
	if model != "" {
		m, err := s.Default.Model(ctx)
		if err == nil {
			err = m.Grant(ctx, name, model)
		}
		if err != nil {
			s.t.Fatal(err)
		}
	}
	return credentials{"user-" + name, password, ""}
}

// TestWhoMayCall fixes, for every method, who is let in at all. Each is called
// with no parameters, so that nothing happens where it is allowed.
func TestWhoMayCall(t *testing.T) {
	s := newSite(t)
	_, agent := s.agent(s.Default, state.MachineSpec{})
	model, site := modelPath(s.Default.ModelUUID()), "/api"
	callers := []struct {
		name string
		who  credentials
	}{
		{"reader", s.person("reader", access.Login, access.Read)},
		{"writer", s.person("writer", access.Login, access.Write)},
		{"owner", s.person("owner", access.AddModel, access.Admin)},
		{"superuser", admin},
		{"agent", agent},
		{"manager", manager},
	}
	conns := make(map[string]map[string]*rpc.Client) // by scope and caller
	for _, path := range []string{model, site} {
		scope := map[string]string{model: "model", site: "controller"}[path]
		conns[scope] = make(map[string]*rpc.Client)
		for _, c := range callers {
			if conn := s.dial(path); scope == "model" || strings.HasPrefix(c.who.tag, "user-") {
				if _, err := login(conn, c.who); err != nil {
					t.Fatalf("%s on a connection to the %s: %v", c.name, scope, err)
				}
				conns[scope][c.name] = conn
			}
		}
	}
	var b strings.Builder
	for _, m := range methods(t) {
		for _, scope := range []string{"model", "controller"} {
			if m.scope != scope && m.scope != "both" {
				continue
			}
			var allowed []string
			for _, c := range callers {
				conn := conns[scope][c.name]
				if conn == nil {
					continue
				}
				err := callOnce(conn, m.Request)
				if code := codeOf(err); code == "not implemented" || code == "not supported" && m.Type != "Provisioner" {
					t.Errorf("%s.%s by %s: %v", m.Type, m.Method, c.name, err)
				} else if code != "unauthorized access" {
					allowed = append(allowed, c.name)
				}
			}
			fmt.Fprintf(&b, "%s(%d).%s on %s: %s\n", m.Type, m.Version, m.Method, scope, strings.Join(allowed, " "))
		}
	}
	golden.Check(t, "who.golden", b.String())
}

// callOnce calls a method that does not wait with no parameters.
func callOnce(c *rpc.Client, r rpc.Request) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return c.Call(ctx, r, nil, nil)
}

func codeOf(err error) string {
	var e *rpc.Error
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

func TestNobodyMayCallAnything(t *testing.T) {
	s := newSite(t)
	conns := map[string]*rpc.Client{"model": s.dial(modelPath(s.Default.ModelUUID())), "controller": s.dial("/api")}
	for _, m := range methods(t) {
		for scope, c := range conns {
			if err := callOnce(c, m.Request); codeOf(err) != "not implemented" {
				t.Errorf("%s.%s on a connection to the %s without login = %v, want it unknown", m.Type, m.Method, scope, err)
			}
		}
	}
}

// TestAgentsMayNotTouchOtherMachines calls every method that is about machines
// as the agent of one, about others: none may say anything but no, not even
// whether they exist.
func TestAgentsMayNotTouchOtherMachines(t *testing.T) {
	s := newSite(t)
	path := modelPath(s.Default.ModelUUID())
	host, hostAgent := s.agent(s.Default, state.MachineSpec{})
	child := statetest.AddMachine(t, s.Default, state.MachineSpec{ContainerType: container.LXD, Parent: host.Id()})
	statetest.AddMachine(t, s.Default, state.MachineSpec{ContainerType: container.LXD, Parent: child.Id()})
	statetest.AddMachine(t, s.Default, state.MachineSpec{})
	ctx := context.Background()
	if err := child.SetPassword(ctx, agentPassword); err != nil {
		t.Fatal(err)
	}
	if err := child.SetInstanceInfo(ctx, state.InstanceInfo{ID: "i-c", Nonce: agentNonce}); err != nil {
		t.Fatal(err)
	}
	childAgent := credentials{child.Tag().String(), agentPassword, agentNonce}
	callers := []struct {
		name   string
		who    credentials
		others []string
	}{
		{"a host", hostAgent, []string{"machine-1", "machine-42", "machine-0-lxd-0-lxd-0", "machine-1-lxd-0", "unit-foo-0", "user-admin"}},
		{"a container", childAgent, []string{"machine-0", "machine-1", "machine-0-lxd-1", "machine-42"}},
		{"a manager", manager, []string{"machine-0-lxd-0-lxd-0", "machine-1-lxd-0", "unit-foo-0", "user-admin"}},
	}
	for _, c := range callers {
		conn := s.as(path, c.who)
		for _, m := range methods(t) {
			if !slices.Contains([]string{"Agent", "Machiner", "Provisioner"}, m.Type) || !slices.Contains(perEntity(), m.params) {
				continue
			}
			for _, other := range c.others {
				if got := refusal(conn, m.Request, other); got != "unauthorized access" && !(strings.HasSuffix(got, "tag") && !strings.HasPrefix(other, "machine")) && got != "not supported" {
					t.Errorf("%s calling %s.%s about %s: %q, want it refused", c.name, m.Type, m.Method, other, got)
				}
			}
		}
	}
}

// perEntity are the parameters that name entities.
func perEntity() []string {
	return []string{"Entities", "EntityPasswords", "SetStatus", "InstancesInfo", "MachineContainersParams", "WatchContainers", "SetMachinesAddresses", "SetAgentTools"}
}

// refusal calls a method about one entity and returns the code of the error, or its
// text if it has none.
func refusal(c *rpc.Client, r rpc.Request, tag string) string {
	one := []map[string]any{{
		"tag": tag, "machine-tag": tag, "model-tag": tag, "user-tag": "user-reader", "action": "grant", "access": "admin",
		"password": agentPassword, "instance-id": "i-9", "nonce": "n", "status": "started", "container-types": []string{"lxd"},
	}}
	args := map[string]any{"tag": tag, "entities": one, "changes": one, "machines": one, "params": one, "machine-addresses": one, "agent-tools": one}
	type result struct {
		Error *struct{ Message, Code string }
	}
	var answer struct {
		Results  []result
		Entities []result
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var raw json.RawMessage
	if err := c.Call(ctx, r, args, &raw); err != nil {
		return codeOf(err)
	}
	if err := json.Unmarshal(raw, &answer); err != nil {
		return err.Error()
	}
	all := append(answer.Results, answer.Entities...)
	switch {
	case len(all) != 1:
		return fmt.Sprintf("%d results", len(all))
	case all[0].Error == nil:
		return "done"
	case all[0].Error.Code == "":
		return all[0].Error.Message
	}
	return all[0].Error.Code
}
