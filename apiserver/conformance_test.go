package apiserver_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/api/singular"
	"github.com/slipway-project/slipway/apiserver/common"
	"github.com/slipway-project/slipway/apiserver/facadetest"
	"github.com/slipway-project/slipway/apiserver/provisioner"
	"github.com/slipway-project/slipway/apiserver/watch"
	"github.com/slipway-project/slipway/core/tag"
	"github.com/slipway-project/slipway/internal/golden"
	"github.com/slipway-project/slipway/params"
	"github.com/slipway-project/slipway/rpc"
	"github.com/slipway-project/slipway/state"
	"github.com/slipway-project/slipway/state/statetest"
)

// surface is where the cases of the conformance tables are played: each file of
// testdata/conformance is played on both, with the same answers.
type surface struct {
	name string
	open func(t *testing.T) stage
}

// stage is one site with callers. The files say who calls.
type stage interface {
	site() *statetest.Site
	// call makes one call on a model, as a caller of the files, and returns the
	// result.
	call(st *state.State, as string, r rpc.Request, args json.RawMessage) (json.RawMessage, error)
}

// surfaces returns the facade by itself, over a store in memory and with callers
// that are fakes, and a server with real connections over the embedded store.
func surfaces() []surface {
	return []surface{
		{"fakes", func(t *testing.T) stage {
			s, _ := statetest.OpenMemory(t)
			return &fakeStage{t, s, make(map[who]common.Connection)}
		}},
		{"websocket", func(t *testing.T) stage {
			return &wireStage{newEmbeddedSite(t), make(map[who]*rpc.Client)}
		}},
	}
}

// TestConformance plays the files. A file holds cases, which begin with == and a
// name; the lines after that are steps, and those with < what they answer. With
// the flag -update the answers are written anew: then read them.
func TestConformance(t *testing.T) {
	files, err := filepath.Glob("testdata/conformance/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("files = %q, %v", files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, on := range surfaces() {
			t.Run(strings.TrimSuffix(filepath.Base(file), ".txt")+"/"+on.name, func(t *testing.T) {
				t.Parallel()
				golden.Check(t, filepath.Join("conformance", filepath.Base(file)), playFile(t, string(text), on))
			})
		}
	}
}

// playFile returns a file with the answers that it gets on a surface. Each case
// has a model of its own.
func playFile(t *testing.T, text string, on surface) string {
	head, cases, _ := strings.Cut(text, "\n== ")
	var out strings.Builder
	out.WriteString(head + "\n")
	stage := on.open(t)
	for i, c := range strings.Split(cases, "\n== ") {
		name, steps, _ := strings.Cut(c, "\n")
		t.Run(name, func(t *testing.T) {
			p := &player{t: t, stage: stage, as: "manager", st: newModel(t, stage.site(), fmt.Sprintf("case%d", i))}
			p.must(stage.site().SetAPIHostPorts(t.Context(), nil))
			p.must(stage.site().UpdateControllerConfig(t.Context(), nil, []string{"features"}))
			if i > 0 {
				out.WriteString("\n")
			}
			out.WriteString("== " + name + "\n" + p.play(steps))
		})
	}
	return out.String()
}

// newModel adds a model.
func newModel(t *testing.T, s *statetest.Site, name string) *state.State {
	t.Helper()
	m, err := s.Models().Add(t.Context(), state.ModelSpec{Name: name, Owner: statetest.AdminName, Config: map[string]any{"type": statetest.ProviderType}})
	if err != nil {
		t.Fatal(err)
	}
	return m.State()
}

// who is a caller on a model.
type who struct{ model, as string }

// player plays one case.
type player struct {
	t *testing.T
	stage
	st       *state.State
	as       string
	watchers []string // the servers' ids of W1, W2 ...
}

// play returns the steps with their answers.
func (p *player) play(steps string) string {
	var out strings.Builder
	for _, line := range strings.SplitAfter(steps, "\n") {
		if strings.HasPrefix(line, "< ") {
			continue
		}
		out.WriteString(line)
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		for _, answer := range p.step(line) {
			out.WriteString("< " + answer + "\n")
		}
	}
	return out.String()
}

// step carries out one step and returns its answers.
func (p *player) step(line string) []string {
	word, rest, _ := strings.Cut(line, " ")
	switch {
	case word == "as":
		p.as = rest
		return nil
	case word == "await":
		return p.await(strings.Fields(rest))
	case word == "stop":
		return []string{p.watcherCall(rest, "Stop")}
	case strings.ToUpper(word[:1]) == word[:1]:
		return p.calls(word, rest)
	}
	return p.arrange(word, rest)
}

// calls makes a call of the facade Provisioner, or of the one named before a dot.
// The parameters are JSON, or tags for methods that take those.
func (p *player) calls(method, args string) []string {
	r := rpc.Request{Type: "Provisioner", Version: 3, Method: method}
	raw := json.RawMessage(args)
	if args != "" && args[0] != '{' {
		raw, _ = json.Marshal(entities(splitTags(args)...))
	}
	result, err := p.call(p.st, p.as, r, raw)
	if err != nil {
		return []string{"error: " + p.neutral(failure(err))}
	}
	return p.lines(result)
}

// splitTags splits tags at blanks; "" stands for an empty one.
func splitTags(text string) []string {
	tags := strings.Fields(text)
	for i := range tags {
		if tags[i] == `""` {
			tags[i] = ""
		}
		tags[i] = strings.ReplaceAll(tags[i], "_", " ")
	}
	return tags
}

// lines returns a result: one line for each entry of a bulk call's.
func (p *player) lines(result json.RawMessage) []string {
	var bulk map[string]json.RawMessage
	if err := json.Unmarshal(result, &bulk); err == nil && len(bulk) == 1 {
		for _, key := range []string{"results", "machines"} {
			var entries []json.RawMessage
			if json.Unmarshal(bulk[key], &entries) == nil && len(entries) > 0 {
				out := make([]string, len(entries))
				for i, e := range entries {
					out[i] = p.neutral(string(e))
				}
				return out
			}
		}
	}
	return []string{p.neutral(string(result))}
}

var (
	watcherID = regexp.MustCompile(`"(watcher-id|NotifyWatcherId)":"(\d+)"`)
	moment    = regexp.MustCompile(`"\d{4}-\d\d-\d\dT[0-9:.]+Z"`)
	changes   = regexp.MustCompile(`"changes":\[[^\]]*\]`)
	mac       = regexp.MustCompile(`00:16:3e(:[0-9a-f]{2}){3}`)
	freeOrder = regexp.MustCompile(`[^",\[\]]+`)
	caCert    = regexp.MustCompile(`"ca-cert":"[^"]*",`) // which only a server has
	modelName = regexp.MustCompile(`"name":"case\d+"`)
)

// neutral replaces what differs from run to run.
func (p *player) neutral(text string) string {
	text = watcherID.ReplaceAllStringFunc(text, func(m string) string {
		parts := watcherID.FindStringSubmatch(m)
		p.watchers = append(p.watchers, parts[2])
		return fmt.Sprintf(`"%s":"W%d"`, parts[1], len(p.watchers))
	})
	text = moment.ReplaceAllString(text, `"TIME"`)
	text = mac.ReplaceAllString(text, "00:16:3e:XX:XX:XX")
	text = caCert.ReplaceAllString(text, "")
	text = modelName.ReplaceAllString(text, `"name":"NAME"`)
	text = changes.ReplaceAllStringFunc(text, func(m string) string {
		ids := freeOrder.FindAllString(strings.TrimPrefix(m, `"changes":`), -1)
		slices.Sort(ids)
		sorted, _ := json.Marshal(ids)
		return `"changes":` + string(sorted)
	})
	return strings.NewReplacer(
		p.st.ModelUUID(), "MODEL", p.site().ControllerModelUUID(), "MANAGEMENT",
		p.site().ControllerUUID(), "CONTROLLER",
	).Replace(text)
}

// watcherCall calls a method of a strings watcher, W1 for the first of the case.
func (p *player) watcherCall(name, method string) string {
	result, err := p.watcherDo(name, method)
	if err != nil {
		return "error: " + failure(err)
	}
	return string(result)
}

func (p *player) watcherDo(name, method string) (json.RawMessage, error) {
	n, err := strconv.Atoi(strings.TrimPrefix(name, "W"))
	if err != nil || n < 1 || n > len(p.watchers) {
		p.t.Fatalf("no watcher %q", name)
	}
	return p.call(p.st, p.as, rpc.Request{Type: "StringsWatcher", Version: 1, ID: p.watchers[n-1], Method: method}, nil)
}

// await reads the events of a watcher until each of the ids has come, and says
// which others did.
func (p *player) await(words []string) []string {
	missing := slices.Clone(words[1:])
	var others []string
	for len(missing) > 0 {
		result, err := p.watcherDo(words[0], "Next")
		var event params.StringsWatchResult
		if err == nil {
			err = json.Unmarshal(result, &event)
		}
		if err != nil {
			return []string{"error: " + failure(err)}
		}
		for _, id := range event.Changes {
			if !slices.Contains(words[1:], id) {
				others = append(others, id)
			}
			missing = slices.DeleteFunc(missing, func(m string) bool { return m == id })
		}
	}
	if len(others) > 0 {
		return []string{"also " + strings.Join(others, " ")}
	}
	return []string{"only these"}
}

// fakeStage calls the facade's methods themselves.
type fakeStage struct {
	t     *testing.T
	state *statetest.Site
	conns map[who]common.Connection
}

func (f *fakeStage) site() *statetest.Site { return f.state }

func (f *fakeStage) call(st *state.State, as string, r rpc.Request, args json.RawMessage) (json.RawMessage, error) {
	key := who{st.ModelUUID(), as}
	c, ok := f.conns[key]
	if !ok {
		caller := facadetest.Agent(as)
		if as == "manager" {
			caller = facadetest.Manager
		}
		c = facadetest.Connect(f.t, caller)
		f.conns[key] = c
	}
	c.Object = r.ID
	var object any
	var err error
	if r.Type == "Provisioner" {
		object, err = provisioner.New(st, c)
	} else {
		object, err = watch.NewStringsWatcher(c)
	}
	if err == nil {
		return invoke(object, r.Method, args)
	}
	return nil, asFailure(err)
}

// invoke calls a method as the server does.
func invoke(object any, name string, args json.RawMessage) (json.RawMessage, error) {
	methods, err := rpc.MethodsOf(reflect.TypeOf(object))
	if err != nil {
		return nil, err
	}
	m, ok := methods.Get(name)
	if !ok {
		return nil, errors.NotFoundf("method %s", name)
	}
	decoded, err := m.Decode(args)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	result, err := m.Call(ctx, reflect.ValueOf(object), decoded)
	if p, ok := result.(rpc.Pending); ok && err == nil {
		result, err = facadetest.Await(p)
	}
	if err != nil {
		return nil, asFailure(err)
	}
	if result == nil {
		return json.RawMessage("{}"), nil
	}
	return marshal(result)
}

// marshal is json.Marshal as the wire has it.
func marshal(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return bytes.TrimSpace(b.Bytes()), err
}

// asFailure is what a call's error becomes on the wire.
func asFailure(err error) error {
	e := common.ServerError(err)
	return &rpc.Error{Message: e.Message, Code: e.Code}
}

// wireStage calls over websockets.
type wireStage struct {
	server *site
	conns  map[who]*rpc.Client
}

func (w *wireStage) site() *statetest.Site { return w.server.Site }

func (w *wireStage) call(st *state.State, as string, r rpc.Request, args json.RawMessage) (json.RawMessage, error) {
	c := w.conn(st, as)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var params any
	if len(args) > 0 {
		params = args
	}
	var result json.RawMessage
	err := c.Call(ctx, r, params, &result)
	return result, err
}

// conn returns the connection of a caller: the manager's with the lease on the
// model, an agent's after its machine was given a password and an instance.
func (w *wireStage) conn(st *state.State, as string) *rpc.Client {
	key := who{st.ModelUUID(), as}
	if c := w.conns[key]; c != nil {
		return c
	}
	t, path := w.server.t, modelPath(st.ModelUUID())
	t.Helper()
	ctx := context.Background()
	if as == "manager" {
		c := w.server.as(path, manager)
		lease := singular.New(singular.Config{
			Caller: c, Entity: "model-" + st.ModelUUID(), Claimant: manager.tag, Duration: time.Minute,
		})
		if _, err := lease.Claim(ctx); err != nil {
			t.Fatal(err)
		}
		w.conns[key] = c
		return c
	}
	parsed, err := tag.ParseMachineTag(as)
	if err != nil {
		t.Fatal(err)
	}
	m, err := st.Machines().Get(ctx, parsed.Id())
	if err != nil {
		t.Fatal(err)
	}
	if err := m.SetPassword(ctx, agentPassword); err != nil {
		t.Fatal(err)
	}
	w.conns[key] = w.server.as(path, credentials{as, agentPassword, agentNonce})
	return w.conns[key]
}
