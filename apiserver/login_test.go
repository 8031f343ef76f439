package apiserver_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"github.com/juju/errors"

	"github.com/slipway-project/slipway/apiserver"
	"github.com/slipway-project/slipway/core/access"
	"github.com/slipway-project/slipway/core/job"
	"github.com/slipway-project/slipway/params"
	"github.com/slipway-project/slipway/rpc"
	"github.com/slipway-project/slipway/state"
	"github.com/slipway-project/slipway/state/statetest"
	"github.com/slipway-project/slipway/store/storetest"
)

const (
	badCreds = "invalid entity name or password [unauthorized access]"
	denied   = "permission denied [unauthorized access]"
)

// Cases: server/InvalidTag server/BadCredentials server/CallsBeforeLogin server/DeactivatedUser server/NoAccess server/UnknownModel server/InvalidModel server/MachineOfOtherModel server/UnprovisionedMachine server/OrdinaryMachineElsewhere server/Nonces
func TestLoginRefusals(t *testing.T) {
	s := newSite(t)
	_, agent := s.agent(s.Default, state.MachineSpec{})
	fresh := statetest.AddMachine(t, s.Default, state.MachineSpec{})
	if err := fresh.SetPassword(context.Background(), agentPassword); err != nil {
		t.Fatal(err)
	}
	statetest.AddMachine(t, s.Management, state.MachineSpec{Jobs: []job.Job{job.ManageModel}}) // unprovisioned machine 1
	ordinary, ordinaryAgent := s.agent(s.Management, state.MachineSpec{})
	disabled := s.person("disabled", access.Superuser, access.Admin)
	u, err := s.Users().Get(context.Background(), "disabled")
	if err == nil {
		err = u.Disable(context.Background())
	}
	if err != nil {
		t.Fatal(err)
	}
	stranger := s.person("stranger", access.Login, "")
	outcast := s.person("outcast", access.Login, "")
	guest := s.person("guest", access.Login, access.Read)
	for _, name := range []string{"outcast", "guest"} {
		u, err := s.Users().Get(context.Background(), name)
		if err == nil {
			err = u.SetAccess(context.Background(), "")
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	model := modelPath(s.Default.ModelUUID())
	tests := []struct {
		name string
		path string
		who  credentials
		want string
	}{
		{"no tag", model, credentials{}, "no credentials provided [no credentials provided]"},
		{"not a tag", model, credentials{tag: "bar"}, `"bar" is not a valid tag`},
		{"not a user", model, credentials{tag: "user-"}, `"user-" is not a valid user tag`},
		{"another kind", model, credentials{tag: "application-x"}, "unexpected login entity tag: invalid request"},
		{"unknown user", model, credentials{"user-nobody", "x", ""}, badCreds},
		{"foreign user", model, credentials{"user-admin@ldap", statetest.AdminPassword, ""}, badCreds},
		{"wrong password", model, credentials{"user-admin", "wrong", ""}, badCreds},
		{"empty password", model, credentials{"user-admin", "", ""}, badCreds},
		{"disabled user", model, disabled, badCreds},
		{"user without access to the model", model, stranger, denied},
		{"user without any access", model, outcast, badCreds},
		{"user without access to the site", model, guest, denied},
		{"user without access to the site, there", "/api", guest, denied},
		{"unit", model, credentials{"unit-mysql-0", "x", ""}, badCreds},
		{"unknown machine", model, credentials{"machine-42", agentPassword, agentNonce}, badCreds},
		{"machine with a wrong password", model, credentials{agent.tag, "wrong", agentNonce}, badCreds},
		{"machine with a wrong nonce", model, credentials{agent.tag, agentPassword, "wrong"}, "machine 0 not provisioned [not provisioned]"},
		{"machine without a nonce", model, credentials{agent.tag, agentPassword, ""}, "machine 0 not provisioned [not provisioned]"},
		{"machine that is not provisioned", model, credentials{fresh.Tag().String(), agentPassword, ""}, "machine 1 not provisioned [not provisioned]"},
		{"machine of another model", modelPath(s.ControllerModelUUID()), credentials{"machine-0", agentPassword, agentNonce}, badCreds},
		{"ordinary machine of the controller model", model, ordinaryAgent, denied},
		{"machine on a connection to the site", "/api", credentials{"machine-0", agentPassword, agentNonce}, badCreds},
		{"unknown model", modelPath("12345678-0bad-400d-8000-4b1d0d06f00d"), admin,
			`unknown model: "12345678-0bad-400d-8000-4b1d0d06f00d" [model not found]`},
		{"no model at all", modelPath("rubbish"), admin, `unknown model: "rubbish" [model not found]`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c := s.dial(test.path)
			for range 2 { // a refused login leaves the connection as it was
				if _, err := login(c, test.who); failure(err) != test.want {
					t.Errorf("login = %q, want %q", failure(err), test.want)
				}
			}
			want := `unknown object type "Machiner" [not implemented]`
			if strings.Contains(test.want, "unknown model") {
				want = test.want
			}
			if err := call(c, "Machiner", 0, "Life", nil, nil); failure(err) != want {
				t.Errorf("call after a refused login = %q, want %q", failure(err), want)
			}
		})
	}
	if ordinary.Id() != "2" {
		t.Errorf("ordinary machine is %s", ordinary.Id())
	}
}

func TestAllowModelAccess(t *testing.T) {
	s := newSite(t)
	guest := s.person("guest", access.Login, access.Read)
	u, err := s.Users().Get(context.Background(), "guest")
	if err == nil {
		err = u.SetAccess(context.Background(), "")
	}
	if err == nil {
		err = s.UpdateControllerConfig(context.Background(), map[string]any{"allow-model-access": true}, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := login(s.dial(modelPath(s.Default.ModelUUID())), guest); err != nil {
		t.Errorf("login = %v, want it allowed", err)
	}
}

// Cases: server/HostPorts server/OtherModel server/UserInfo server/LastLogin
func TestLoginOfPeople(t *testing.T) {
	s := newSite(t)
	first, err := login(s.dial(modelPath(s.Default.ModelUUID())), admin)
	if err != nil {
		t.Fatal(err)
	}
	if first.ModelTag != "model-"+s.Default.ModelUUID() || first.ControllerTag != "controller-"+s.ControllerUUID() || first.ServerVersion != "2.0.0" {
		t.Errorf("login = %+v, want the model, the site and the version", first)
	}
	u := first.UserInfo
	if u == nil || u.Identity != "user-admin" || u.ControllerAccess != "superuser" || u.ModelAccess != "admin" || u.LastConnection == nil || !u.LastConnection.IsZero() {
		t.Errorf("user = %+v, want admin, who was never here before", u)
	}
	if len(first.Servers) != 1 || first.Servers[0][0].Value != "10.0.0.1" {
		t.Errorf("servers = %v, want what was recorded", first.Servers)
	}
	for _, f := range first.Facades {
		if f.Name == "ModelManager" {
			t.Error("ModelManager is listed on a connection to a model")
		}
	}
	second, err := login(s.dial("/"), credentials{"user-admin@local", statetest.AdminPassword, ""})
	if err != nil {
		t.Fatal(err)
	}
	if second.ModelTag != "" || second.UserInfo.ModelAccess != "" || second.UserInfo.LastConnection.IsZero() || second.UserInfo.Identity != "user-admin" {
		t.Errorf("login to the site = %+v, %+v, want no model, and the time of the first login", second, second.UserInfo)
	}
	for _, f := range second.Facades {
		if f.Name == "Client" {
			t.Error("Client is listed on a connection to the site")
		}
	}
	if err := s.SetAPIHostPorts(context.Background(), nil); err != nil {
		t.Fatal(err)
	}
	if r, err := login(s.dial("/api"), admin); err != nil || r.Servers != nil {
		t.Errorf("login = %v, %v, want no servers", r.Servers, err)
	}
}

func TestPeopleLogInWhileNothingCanBeWritten(t *testing.T) {
	s := newSite(t)
	full := func(_ context.Context, c storetest.Call) error {
		if c.Method == "Apply" {
			return errors.New("no space left for the store")
		}
		return nil
	}
	s.held.Store(&full)
	c := s.as(modelPath(s.Default.ModelUUID()), admin)
	var status params.FullStatus
	if err := c.Call(context.Background(), rpc.Request{Type: "Client", Version: 1, Method: "FullStatus"}, params.StatusParams{}, &status); err != nil {
		t.Errorf("FullStatus on a full disk = %v, want the status", err)
	}
}

func TestCallsOfOneConnectionWorkAFewAtATime(t *testing.T) {
	s := newSite(t)
	statetest.AddMachine(t, s.Default, state.MachineSpec{})
	c := s.as(modelPath(s.Default.ModelUUID()), admin)
	arrivals, gate := make(chan struct{}, 1000), make(chan struct{})
	hold := func(ctx context.Context, c storetest.Call) error {
		if c.Method == "List" && c.Query.Collection == "machines" {
			arrivals <- struct{}{}
			<-gate
		}
		return nil
	}
	s.held.Store(&hold)
	answers := make(chan error, 100)
	for range cap(answers) {
		go func() {
			answers <- c.Call(context.Background(), rpc.Request{Type: "Client", Version: 1, Method: "FullStatus"}, params.StatusParams{}, nil)
		}()
	}
	for range 32 {
		<-arrivals
	}
	// Another connection does not wait for them.
	if _, err := login(s.dial("/api"), admin); err != nil {
		t.Errorf("login beside a busy connection = %v", err)
	}
	if n := len(arrivals); n > 0 {
		t.Errorf("%d calls work beside the 32 that may", n)
	}
	s.held.Store(nil)
	close(gate)
	for range cap(answers) {
		if err := <-answers; err != nil {
			t.Fatalf("FullStatus = %v, want every call answered", err)
		}
	}
}

// Cases: server/ControllerModel server/ManagerIntoHostedModel
func TestManagerLogsInToAnyModel(t *testing.T) {
	s := newSite(t)
	statetest.AddMachine(t, s.Default, state.MachineSpec{}) // machine 0, not provisioned
	r, err := login(s.dial(modelPath(s.Default.ModelUUID())), manager)
	if err != nil || r.UserInfo != nil || r.ModelTag != "model-"+s.Default.ModelUUID() {
		t.Errorf("login = %+v, %v, want the manager in the model", r, err)
	}
}

func TestSecondLoginIsRefused(t *testing.T) {
	s := newSite(t)
	c := s.as("/api", admin)
	if _, err := login(c, admin); failure(err) != `unknown version (3) of interface "Admin" [not implemented]` {
		t.Errorf("second login = %v, want Admin to be gone", err)
	}
}

func TestLoginBesideAnotherIsRefused(t *testing.T) {
	s := newSite(t)
	_, agent := s.agent(s.Default, state.MachineSpec{})
	ws, _, err := s.raw(modelPath(s.Default.ModelUUID()))
	if err != nil {
		t.Fatal(err)
	}
	reached, release := s.holdLogins()
	send := func(frame string) {
		if err := ws.WriteMessage(websocket.TextMessage, []byte(frame)); err != nil {
			t.Fatal(err)
		}
	}
	read := func() string {
		_, frame, err := ws.ReadMessage()
		if err != nil {
			t.Fatal(err)
		}
		return string(frame)
	}
	for id := range 2 {
		send(fmt.Sprintf(`{"request-id":%d,"type":"Admin","version":3,"request":"Login","params":{"auth-tag":%q,"credentials":%q,"nonce":%q}}`,
			id+1, agent.tag, agent.password, agent.nonce))
	}
	send(`{"request-id":3,"type":"Pinger","version":1,"request":"Ping"}`)
	if got := read(); !strings.Contains(got, "not implemented") { // so all three have been read
		t.Errorf("ping before the login = %s", got)
	}
	<-reached
	release()
	late := 0
	for range 2 {
		if strings.Contains(read(), `"error":"already logged in"`) {
			late++
		}
	}
	if late != 1 {
		t.Errorf("of two logins at once %d came too late, want one", late)
	}
}

// Cases: server/OldAdmin
func TestAdminOfOtherVersions(t *testing.T) {
	s := newSite(t)
	c := s.dial("/api")
	old := "this version of Juju does not support login from old clients (not supported) [not supported]"
	for _, version := range []int{0, 2, 4} {
		if err := call(c, "Admin", version, "Login", nil, nil); failure(err) != old {
			t.Errorf("Admin(%d) = %v, want %s", version, failure(err), old)
		}
	}
	if err := call(c, "Admin", 3, "Foo", nil, nil); failure(err) != "no such request - method Admin.Foo is not implemented [not implemented]" {
		t.Errorf("Admin.Foo = %v", failure(err))
	}
	if err := call(c, "Admin", 3, "RedirectInfo", nil, nil); failure(err) != "not redirected" {
		t.Errorf("RedirectInfo = %v", failure(err))
	}
}

// Cases: server/Validator
func TestCheckLoginMayRefuse(t *testing.T) {
	s := newSite(t, func(c *apiserver.Config) {
		c.CheckLogin = func(string) error { return errors.New("Login not allowed") }
	})
	if _, err := login(s.dial("/api"), admin); failure(err) != "Login not allowed" {
		t.Errorf("login = %v, want the check's own text", err)
	}
}

// Cases: server/Paths
func TestPaths(t *testing.T) {
	s := newSite(t)
	for path, want := range map[string]int{
		"/api": 101, "/": 101, "/model/anything/api": 101,
		"/randompath": 404, "/model/x": 404, "/api/": 404,
	} {
		_, answer, err := s.raw(path)
		if answer == nil || answer.StatusCode != want {
			t.Errorf("%s: %v, %v, want status %d", path, answer, err, want)
		}
	}
	secure := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: s.tls}}
	for path, method := range map[string]string{"/api": "POST", "/": "HEAD", "/model/anything/api": "DELETE"} {
		ask, err := http.NewRequestWithContext(t.Context(), method, "https://"+s.addr+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := secure.Do(ask)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != http.StatusMethodNotAllowed || answer.Header.Get("Allow") != "GET" {
			t.Errorf("%s %s: %s, Allow %q, want 405 and GET", method, path, answer.Status, answer.Header.Get("Allow"))
		}
	}
	plain := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := plain.Get("http://" + s.addr + "/api")
	if err != nil {
		return
	}
	answer.Body.Close()
	if answer.StatusCode != http.StatusBadRequest {
		t.Errorf("the API answers %s without TLS", answer.Status)
	}
}

func TestOldTLSIsRefused(t *testing.T) {
	s := newSite(t)
	cfg := s.tls.Clone()
	cfg.MinVersion, cfg.MaxVersion = tls.VersionTLS10, tls.VersionTLS11
	if c, err := tls.Dial("tcp", s.addr, cfg); err == nil {
		c.Close()
		t.Error("a connection with TLS 1.1 was accepted")
	}
}

// Cases: server/AgentLoginLimit
func TestAgentsAreKeptFromLoggingInAllAtOnce(t *testing.T) {
	s := newSite(t)
	_, agent := s.agent(s.Default, state.MachineSpec{})
	path := modelPath(s.Default.ModelUUID())
	reached, release := s.holdLogins()
	var wg sync.WaitGroup
	for range 10 {
		c := s.dial(path)
		wg.Go(func() {
			if _, err := login(c, agent); err != nil {
				t.Errorf("one of ten logins: %v", err)
			}
		})
	}
	for range 10 {
		<-reached
	}
	if _, err := login(s.dial(path), agent); failure(err) != "try again [try again]" {
		t.Errorf("eleventh login = %v, want try again", failure(err))
	}
	release()
	if _, err := login(s.dial(path), admin); err != nil {
		t.Errorf("login of a person while agents are busy: %v", err)
	}
	wg.Wait()
	if _, err := login(s.dial(path), agent); err != nil {
		t.Errorf("login after the crowd: %v", err)
	}
}

// Cases: server/PeopleAreNotLimited
func TestPeopleAreNotRefusedForTheirNumber(t *testing.T) {
	s := newSite(t)
	var wg sync.WaitGroup
	for range 20 {
		c := s.dial("/api")
		wg.Go(func() {
			if _, err := login(c, admin); err != nil {
				t.Errorf("login: %v", err)
			}
		})
	}
	wg.Wait()
}

func TestConnectionWithoutLoginEnds(t *testing.T) {
	const timeout = time.Minute
	inMemory(t, func(t *testing.T, s *site) {
		start := time.Now()
		idle, busy := s.dial("/api"), s.dial("/api")
		if _, err := login(busy, admin); err != nil {
			t.Fatal(err)
		}
		<-idle.Dead()
		if after := time.Since(start); after < timeout || after > timeout+10*time.Second {
			t.Errorf("a connection that nobody logs in to ends after %v, want %v", after, timeout)
		}
		if err := call(busy, "Pinger", 1, "Ping", nil, nil); err != nil {
			t.Errorf("ping on a connection that is logged in: %v", err)
		}
	}, func(c *apiserver.Config) { c.LoginTimeout = timeout })
}

func TestPings(t *testing.T) {
	const timeout = 4 * time.Minute
	inMemory(t, func(t *testing.T, s *site) {
		_, agent := s.agent(s.Default, state.MachineSpec{})
		path := modelPath(s.Default.ModelUUID())
		person, machine, foreign := s.as(path, admin), s.as(path, agent), s.as(path, manager)
		var last time.Time
		for range 4 {
			time.Sleep(timeout - time.Second)
			last = time.Now()
			if err := call(machine, "Pinger", 1, "Ping", nil, nil); err != nil {
				t.Fatalf("connection ended although it is pinged: %v", err)
			}
		}
		<-machine.Dead()
		if after := time.Since(last); after < timeout || after > timeout+10*time.Second {
			t.Errorf("the connection ended %v after its last ping, want %v", after, timeout)
		}
		if err := call(machine, "Pinger", 1, "Ping", nil, nil); !errors.Is(err, rpc.ErrShutdown) {
			t.Errorf("ping after the end = %v, want %v", err, rpc.ErrShutdown)
		}
		for name, c := range map[string]*rpc.Client{"person": person, "manager in another model": foreign} {
			if err := call(c, "Pinger", 1, "Ping", nil, nil); err != nil {
				t.Errorf("%s: %v, want the connection to go on without pings", name, err)
			}
		}
	}, func(c *apiserver.Config) { c.PingTimeout = timeout })
}

func TestStopEndsConnections(t *testing.T) {
	s := newSite(t)
	path := modelPath(s.ControllerModelUUID())
	c := s.as(path, manager)
	var w params.StringsWatchResult
	if err := call(c, "Provisioner", 3, "WatchModelMachines", nil, &w); err != nil {
		t.Fatal(err)
	}
	next := make(chan error, 1)
	go func() {
		next <- c.Call(context.Background(), rpc.Request{Type: "StringsWatcher", Version: 1, ID: w.StringsWatcherID, Method: "Next"}, nil, nil)
	}()
	// The server reads requests in order, so Next is under way after this one.
	if err := call(c, "Pinger", 1, "Ping", nil, nil); err != nil {
		t.Fatal(err)
	}
	s.server.Kill()
	if err := s.server.Wait(); err != nil {
		t.Errorf("Wait() = %v, want nil", err)
	}
	select {
	case err := <-next:
		if failure(err) != "watcher has been stopped [stopped]" && !errors.Is(err, rpc.ErrShutdown) {
			t.Errorf("Next = %v, want stopped", err)
		}
	case <-time.After(patience):
		t.Error("Next still waits after the server has stopped")
	}
	if _, _, err := s.raw("/api"); err == nil {
		t.Error("the server takes connections after it has stopped")
	}
}

func TestConfigMustBeComplete(t *testing.T) {
	if _, err := apiserver.New(context.Background(), apiserver.Config{}); !errors.Is(err, errors.NotValid) {
		t.Errorf("New of an empty configuration = %v, want not valid", err)
	}
}

func TestPortInUse(t *testing.T) {
	s := newSite(t)
	_, err := apiserver.New(context.Background(), apiserver.Config{
		Controller: s.Controller, Listen: s.addr, CACert: "x", Certificate: func() (*tls.Certificate, error) { return nil, nil },
	})
	if err == nil || !strings.Contains(err.Error(), "cannot listen on "+s.addr) {
		t.Errorf("New on a port in use = %v, want it named", err)
	}
}
