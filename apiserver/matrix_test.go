package apiserver_test

import (
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/gorilla/websocket"
	"github.com/juju/errors"

	"github.com/slipway-project/slipway/core/access"
	"github.com/slipway-project/slipway/core/container"
	"github.com/slipway-project/slipway/core/instance"
	"github.com/slipway-project/slipway/internal/golden"
	"github.com/slipway-project/slipway/rpc"
	"github.com/slipway-project/slipway/state"
	"github.com/slipway-project/slipway/state/statetest"
)

// stranger is a caller of the matrix.
type stranger struct {
	name  string
	who   credentials // no tag means that there is no login
	about string      // whom the calls are about; empty means the container 0/lxd/0
}

// strangers are the callers of the matrix, all of whom are refused something.
func (s *site) strangers(st *state.State) []stranger {
	s.t.Helper()
	agent := func(spec state.MachineSpec) credentials {
		m := statetest.AddMachine(s.t, st, spec)
		s.must(m.SetPassword(s.t.Context(), agentPassword))
		s.must(m.SetInstanceInfo(s.t.Context(), state.InstanceInfo{ID: instance.ID("i-" + m.Id()), Nonce: agentNonce}))
		return credentials{m.Tag().String(), agentPassword, agentNonce}
	}
	parent := agent(state.MachineSpec{})
	target := agent(state.MachineSpec{ContainerType: container.LXD, Parent: "0"})
	sibling := agent(state.MachineSpec{ContainerType: container.LXD, Parent: "0"})
	child := agent(state.MachineSpec{ContainerType: container.LXD, Parent: "0/lxd/0"})
	other := agent(state.MachineSpec{})
	dead := agent(state.MachineSpec{ContainerType: container.LXD, Parent: "0"}) // 0/lxd/2
	m, err := st.Machines().Get(s.t.Context(), "0/lxd/2")
	s.must(err)
	s.must(m.EnsureDead(s.t.Context()))
	statetest.AddMachine(s.t, st, state.MachineSpec{ContainerType: container.LXD, Parent: "0/lxd/2"})
	stale := target
	stale.nonce = "machine-0:another"
	return []stranger{
		{name: "nobody"},
		{name: "other agent", who: other},
		{name: "parent", who: parent},
		{name: "sibling", who: sibling},
		{name: "child", who: child},
		{name: "child about its host's host", who: child, about: "machine-0"},
		{name: "old nonce", who: stale},
		{name: "dead machine about another", who: dead, about: "machine-1"},
		{name: "its parent", who: dead, about: "machine-0"},
		{name: "its sibling", who: dead},
		{name: "its child", who: dead, about: "machine-0-lxd-2-lxd-0"},
		{name: "itself", who: dead, about: "machine-0-lxd-2"},
		{name: "no lease", who: manager},
		{name: "no lease about a machine", who: manager, about: "machine-1"},
	}
}

func (s *site) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// brief shortens an answer for the matrix.
func brief(answer string) string {
	short := map[string]string{
		"unauthorized access": "D", "not implemented": "-", "not supported": "NS", "not found": "NF", "not provisioned": "NP",
		"lease claim denied": "L", "dead": "dead", "done": "ok", "": "ok",
	}
	if text, ok := short[answer]; ok {
		return text
	}
	return fmt.Sprintf("%q", answer)
}

// TestRefusals fixes what everybody is told who calls a method without the right
// to. Each method is called on a model of its own, so that none sees what others
// did. It answers:
//
//   - as if there were no such method: the caller is not logged in
//     D   denied, for the call or for the entity
//     L   denied without the lease on the model
//     NF, NP, NS  not found, not provisioned, not supported
//     dead  refused because the machine is
//     ok  let in
//
// Those after a dead machine's are the same machine's, about others.
func TestRefusals(t *testing.T) {
	s := newSite(t)
	people := []stranger{
		{name: "other model", who: s.person("foreigner", access.Login, "")},
		{name: "reader", who: s.person("reader", access.Login, access.Read)},
	}
	site := make(map[string]*rpc.Client) // of people, on connections to the site and to the default model
	for _, p := range people {
		site["controller "+p.name] = s.as("/api", p.who)
		c := s.dial(modelPath(s.Default.ModelUUID()))
		_, _ = login(c, p.who) // who is refused stays a stranger
		site["model "+p.name] = c
	}
	var b strings.Builder
	for n, m := range methods(t) {
		var answers []string
		for _, p := range people {
			for _, scope := range []string{"model", "controller"} {
				if m.scope == scope || m.scope == "both" {
					answers = append(answers, p.name+" "+s.answer(site[scope+" "+p.name], m, map[string]string{
						"ModelManager": "model-" + s.Default.ModelUUID(), "UserManager": "user-admin",
					}[m.Type]))
				}
			}
		}
		if m.scope != "controller" {
			answers = append(answers, s.agentsAnswers(t, m, n)...)
		}
		fmt.Fprintf(&b, "%s(%d).%s: %s\n", m.Type, m.Version, m.Method, strings.Join(answers, ", "))
	}
	golden.Check(t, "refusals.golden", b.String())
}

// agentsAnswers calls a method as every agent that is a stranger.
func (s *site) agentsAnswers(t *testing.T, m method, n int) []string {
	model := newModel(t, s.Site, fmt.Sprintf("matrix%d", n))
	var out []string
	for _, stranger := range s.strangers(model) {
		c := s.dial(modelPath(model.ModelUUID()))
		if stranger.who.tag != "" {
			_, _ = login(c, stranger.who) // who is refused stays a stranger
		}
		about := stranger.about
		if about == "" {
			about = "machine-0-lxd-0"
		}
		out = append(out, stranger.name+" "+s.answer(c, m, about))
		_ = c.Close()
	}
	return out
}

// answer is what a caller is told who calls a method without parameters and, if
// that does not fail, about an entity. What is wrong with the parameters does not
// count: such a caller was let in.
func (s *site) answer(c *rpc.Client, m method, about string) string {
	err := callOnce(c, m.Request)
	var answered *rpc.Error
	if err != nil && !errors.As(err, &answered) {
		s.t.Fatalf("%s.%s was not answered: %v", m.Type, m.Method, err)
	}
	code := codeOf(err)
	if code != "" || about == "" {
		return brief(code)
	}
	if !slices.Contains(append(perEntity(), "SetMachineNetworkConfig", "ModifyModelAccessRequest"), m.params) {
		return brief(code)
	}
	code = refusal(c, m.Request, about)
	if !slices.Contains([]string{"unauthorized access", "not found", "not provisioned", "lease claim denied", "not supported", "dead"}, code) {
		code = ""
	}
	return brief(code)
}

// TestRefusalsOfRoutes is the same for what is served beside the API: the status,
// and for streams what the first value says.
func TestRefusalsOfRoutes(t *testing.T) {
	s := newLogSite(t)
	text, err := os.ReadFile("testdata/routes.golden")
	s.must(err)
	callers := append(s.strangers(s.Default), stranger{name: "other model", who: s.person("foreigner", access.Login, "")},
		stranger{name: "reader", who: s.person("reader", access.Login, access.Read)},
		stranger{name: "owner", who: s.person("owner", access.AddModel, access.Admin)}, stranger{name: "superuser", who: admin})
	callers = slices.DeleteFunc(callers, func(c stranger) bool {
		return c.about != "" && c.about != "machine-1" || c.name == "no lease about a machine"
	})
	var b strings.Builder
	for _, pattern := range strings.Fields(strings.ReplaceAll(strings.TrimSpace(string(text)), " /", "_/")) {
		verb, path, found := strings.Cut(pattern, "_")
		if !found {
			verb, path = "GET", pattern
		}
		path = strings.NewReplacer("{$}", "", "{uuid}", s.Default.ModelUUID(), "{version}", jammyBinary).Replace(path)
		var answers []string
		for _, c := range callers {
			answers = append(answers, c.name+" "+s.knock(verb, path, c.who))
		}
		fmt.Fprintf(&b, "%s: %s\n", strings.ReplaceAll(pattern, "_", " "), strings.Join(answers, ", "))
	}
	golden.Check(t, "refusals-routes.golden", b.String())
}

// knock asks for a route: as a stream if it can be one.
func (s *site) knock(verb, path string, who credentials) string {
	if verb != "GET" {
		status, _, _ := s.request(verb, path+"?binaryVersion="+jammyBinary, "", who)
		return fmt.Sprint(status)
	}
	header := http.Header{}
	if who.tag != "" {
		r := http.Request{Header: header}
		r.SetBasicAuth(who.tag, who.password)
		header.Set("X-Juju-Nonce", who.nonce)
	}
	ws, answer, err := (&websocket.Dialer{TLSClientConfig: s.tls}).Dial("wss://"+s.addr+path+"?jujuclientversion=2.0.0", header)
	if err != nil {
		return fmt.Sprint(answer.StatusCode)
	}
	defer ws.Close()
	if strings.HasSuffix(path, "api") || path == "/" {
		return "connected" // logins are another matter
	}
	var first struct{ Error *struct{ Code string } }
	if err := ws.ReadJSON(&first); err != nil {
		return err.Error()
	}
	if first.Error == nil {
		return "ok"
	}
	return brief(first.Error.Code)
}
