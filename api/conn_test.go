package api_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/juju/errors"
	"go.uber.org/goleak"

	"github.com/slipway-project/slipway/api"
	"github.com/slipway-project/slipway/api/apitest"
	"github.com/slipway-project/slipway/core/kind"
	"github.com/slipway-project/slipway/internal/memnet"
	"github.com/slipway-project/slipway/internal/testport"
	"github.com/slipway-project/slipway/params"
	"github.com/slipway-project/slipway/rpc"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func infoOf(s *apitest.Server) api.Info {
	return api.Info{Addrs: []string{s.Addr}, CACert: s.CACert, ModelUUID: apitest.ModelUUID, Tag: apitest.UserTag, Password: apitest.Password}
}

func open(t *testing.T, info api.Info, o api.DialOptions) *api.Conn {
	t.Helper()
	conn, err := api.Open(t.Context(), info, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

func within(t *testing.T, what string, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(time.Minute):
		t.Fatalf("%s did not happen in time", what)
	}
}

func TestOpenLogsInAndKeepsTheAddresses(t *testing.T) {
	s := apitest.NewServer(t, apitest.Options{})
	info := infoOf(s)
	info.Addrs = []string{testport.Refusing(t), s.Addr}
	conn := open(t, info, api.DialOptions{})
	if conn.Addr() != s.Addr || !slices.Equal(conn.Addrs(), []string{s.Addr}) {
		t.Errorf("address %s of %v, want %s", conn.Addr(), conn.Addrs(), s.Addr)
	}
	if conn.ControllerUUID() != apitest.ControllerUUID || conn.ModelUUID() != apitest.ModelUUID || conn.Tag() != apitest.UserTag {
		t.Errorf("controller %q, model %q, tag %q", conn.ControllerUUID(), conn.ModelUUID(), conn.Tag())
	}
	if conn.UserInfo().Identity != apitest.UserTag || conn.ServerVersion() != "2.0.0" {
		t.Errorf("user %+v, version %q", conn.UserInfo(), conn.ServerVersion())
	}
	if got := conn.BestVersion("Provisioner", 3, 4); got != 3 {
		t.Errorf("BestVersion = %d, want 3", got)
	}
	if got := conn.BestVersion("Nonesuch", 1); got != 0 {
		t.Errorf("BestVersion of a missing facade = %d, want 0", got)
	}
	if err := conn.Close(); err != nil {
		t.Errorf("Close = %v", err)
	}
	within(t, "the end of the connection", conn.Broken())
	if err := conn.Call(t.Context(), rpc.Request{Type: "Pinger", Version: 1, Method: "Ping"}, nil, nil); !errors.Is(err, api.ErrBroken) {
		t.Errorf("call after Close = %v, want ErrBroken", err)
	}
}

func TestOpenOnTheController(t *testing.T) {
	s := apitest.NewServer(t, apitest.Options{})
	info := infoOf(s)
	info.ModelUUID = ""
	if conn := open(t, info, api.DialOptions{}); conn.ModelUUID() != "" {
		t.Errorf("model = %q, want none", conn.ModelUUID())
	}
}

func TestOpenSaysWhatIsWrong(t *testing.T) {
	good := apitest.NewServer(t, apitest.Options{})
	expired := apitest.NewServer(t, apitest.Options{NotAfter: time.Now().Add(-time.Minute)})
	unknown := apitest.NewServer(t, apitest.Options{})
	unknown.Handle("Admin.Login", func(context.Context, apitest.Request) (any, error) {
		return nil, errors.WithType(errors.New(`unknown model: "u"`), kind.ModelNotFound)
	})
	mixed := apitest.NewServer(t, apitest.Options{})
	mixed.Reply("Admin.Login", params.LoginResult{ModelTag: "model-other"})
	tests := []struct {
		name   string
		server *apitest.Server
		change func(*api.Info)
		is     error
		says   string
	}{
		{"no address", good, func(i *api.Info) { i.Addrs = nil }, errors.NotValid, "no API address"},
		{"malformed address", good, func(i *api.Info) { i.Addrs = []string{"here"} }, errors.NotValid, `"here" is not host:port`},
		{"no name", good, func(i *api.Info) { i.Tag = "" }, errors.NotValid, "login without a name"},
		{"no CA", good, func(i *api.Info) { i.CACert = "x" }, errors.NotValid, "no PEM certificate"},
		{"malformed model", good, func(i *api.Info) { i.ModelUUID = "a/b" }, errors.NotValid, "is not a UUID"},
		{"wrong password", good, func(i *api.Info) { i.Password = "guess" }, errors.Unauthorized, "cannot log in as user-admin: invalid entity name or password"},
		{"foreign CA", good, func(i *api.Info) { i.CACert = expired.CACert }, api.ErrUntrusted, "another CA signed it"},
		{"expired certificate", expired, func(*api.Info) {}, api.ErrUntrusted, "expired"},
		{"unknown model", unknown, func(*api.Info) {}, kind.ModelNotFound, `unknown model: "u"`},
		{"unknown model is not found", unknown, func(*api.Info) {}, errors.NotFound, `unknown model: "u"`},
		{"another model answers", mixed, func(*api.Info) {}, nil, `model "other" instead of`},
		{"nobody there", good, func(i *api.Info) { i.Addrs = []string{testport.Refusing(t)} }, nil, "connection refused"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			info := infoOf(test.server)
			test.change(&info)
			conn, err := api.Open(t.Context(), info, api.DialOptions{})
			if err == nil {
				conn.Close()
				t.Fatal("Open succeeded")
			}
			if test.is != nil && !errors.Is(err, test.is) || !strings.Contains(err.Error(), test.says) || strings.Contains(err.Error(), "\n") {
				t.Errorf("Open = %q, want one line with %q, of kind %v", err, test.says, test.is)
			}
		})
	}
}

// inMemory runs a test with a clock of its own and a server in memory, whose
// connections NetDial makes.
func inMemory(t *testing.T, f func(t *testing.T, s *apitest.Server, o api.DialOptions)) {
	synctest.Test(t, func(t *testing.T) {
		l := memnet.Listen()
		f(t, apitest.NewServer(t, apitest.Options{Listener: l}), api.DialOptions{NetDial: l.Dial})
	})
}

func hang(ctx context.Context, _ apitest.Request) (any, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestOpenGivesUpInTime(t *testing.T) {
	inMemory(t, func(t *testing.T, s *apitest.Server, o api.DialOptions) {
		s.Handle("Admin.Login", hang)
		o.Timeout = time.Minute
		start := time.Now()
		_, err := api.Open(t.Context(), infoOf(s), o)
		if took := time.Since(start); !errors.Is(err, context.DeadlineExceeded) || took != o.Timeout {
			t.Errorf("Open = %v after %v, want DeadlineExceeded after %v", err, took, o.Timeout)
		}
	})
}

func TestCallsKeepTheKindOfTheirErrors(t *testing.T) {
	s := apitest.NewServer(t, apitest.Options{})
	s.Handle("Provisioner.InstanceId", func(context.Context, apitest.Request) (any, error) {
		return nil, errors.NotProvisionedf("machine 0")
	})
	conn := open(t, infoOf(s), api.DialOptions{})
	err := conn.Call(t.Context(), rpc.Request{Type: "Provisioner", Version: 3, Method: "InstanceId"}, nil, nil)
	if !errors.Is(err, errors.NotProvisioned) || params.CodeOf(err) != params.CodeNotProvisioned {
		t.Errorf("Call = %v (%s), want NotProvisioned", err, params.CodeOf(err))
	}
	err = conn.Call(t.Context(), rpc.Request{Type: "Foo", Version: 1, Method: "Bar"}, nil, nil)
	if !errors.Is(err, errors.NotImplemented) {
		t.Errorf("Call = %v, want NotImplemented", err)
	}
}

func TestACallThatIsNotAnsweredEnds(t *testing.T) {
	inMemory(t, func(t *testing.T, s *apitest.Server, o api.DialOptions) {
		s.Handle("Client.FullStatus", hang)
		o.CallTimeout = 3 * time.Minute
		conn := open(t, infoOf(s), o)
		start := time.Now()
		err := conn.Call(t.Context(), rpc.Request{Type: "Client", Version: 1, Method: "FullStatus"}, nil, nil)
		if took := time.Since(start); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "no answer to Client.FullStatus") || took != o.CallTimeout {
			t.Errorf("Call = %v after %v, want one that says what was not answered", err, took)
		}
	})
}

func TestAServerThatDoesNotAnswerPingsIsLeft(t *testing.T) {
	inMemory(t, func(t *testing.T, s *apitest.Server, o api.DialOptions) {
		pinged := make(chan struct{}, 100)
		s.Handle("Pinger.Ping", func(ctx context.Context, r apitest.Request) (any, error) {
			pinged <- struct{}{}
			if len(pinged) < 3 {
				return nil, nil
			}
			return hang(ctx, r)
		})
		o.PingInterval, o.PingTimeout = time.Minute, 20*time.Second
		start := time.Now()
		conn := open(t, infoOf(s), o)
		<-conn.Broken()
		if took := time.Since(start); len(pinged) != 3 || took != 3*o.PingInterval+o.PingTimeout {
			t.Errorf("the connection ended after %d pings and %v, want 3 and %v", len(pinged), took, 3*o.PingInterval+o.PingTimeout)
		}
	})
}

func TestPasswordsAreNotPrinted(t *testing.T) {
	info := api.Info{Password: apitest.Password}
	for _, verb := range []string{"%v", "%+v", "%#v"} {
		if text := fmt.Sprintf(verb, info); strings.Contains(text, apitest.Password) {
			t.Errorf("%s prints %s", verb, text)
		}
	}
}

func TestMachineTags(t *testing.T) {
	for id, tag := range map[string]string{"0": "machine-0", "3/lxd/12": "machine-3-lxd-12"} {
		if got := api.MachineTag(id); got != tag {
			t.Errorf("MachineTag(%s) = %s, want %s", id, got, tag)
		}
		if got, ok := api.MachineID(tag); !ok || got != id {
			t.Errorf("MachineID(%s) = %s, %v, want %s", tag, got, ok, id)
		}
	}
	if _, ok := api.MachineID("user-admin"); ok {
		t.Error("a user's tag names a machine")
	}
}
