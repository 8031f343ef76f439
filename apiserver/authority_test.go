package apiserver_test

import (
	"testing"
	"time"

	"github.com/slipway-project/slipway/api"
	"github.com/slipway-project/slipway/internal/tlsfiles"
	"github.com/slipway-project/slipway/params"
	"github.com/slipway-project/slipway/state"
)

// TestClientsAreToldWhomToTrust has the server name another authority beside its
// own.
func TestClientsAreToldWhomToTrust(t *testing.T) {
	s := newLogSite(t)
	model := s.Default.ModelUUID()
	_, agent := s.agent(s.Default, state.MachineSpec{})
	open := func(ca string) *api.Conn {
		t.Helper()
		info := s.info(model, agent)
		info.CACert = ca
		c, err := api.Open(t.Context(), info, api.DialOptions{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	before := open(s.ca)
	if before.CACert() != s.ca {
		t.Error("the server names another authority than its own")
	}
	next, err := tlsfiles.NewAuthority("next", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	both := s.ca + string(next.Cert)
	if err := s.server.SetAuthority(t.Context(), both); err != nil {
		t.Fatal(err)
	}
	if attrs, err := s.ControllerConfig(t.Context()); err != nil || attrs["ca-cert"] != both {
		t.Errorf("new machines are told %v, %v", attrs["ca-cert"], err)
	}
	s.server.Recycle(t.Context(), time.Millisecond)
	select {
	case <-before.Broken():
	case <-time.After(patience):
		t.Fatal("who was connected was not asked to log in anew")
	}
	for _, ca := range []string{s.ca, both} {
		if got := open(ca).CACert(); got != both {
			t.Errorf("after the login the client trusts %s", got)
		}
	}
	// Clients that do not say whom they trust are told nothing.
	r, err := login(s.dial(modelPath(model)), agent)
	if err != nil || r.CACert != "" {
		t.Errorf("login = %q, %v", r.CACert, err)
	}
	var again params.LoginResult
	err = call(s.dial(modelPath(model)), "Admin", 3, "Login", params.LoginRequest{
		AuthTag: agent.tag, Credentials: "wrong", Nonce: agent.nonce, Trusted: "x",
	}, &again)
	if err == nil || again.CACert != "" {
		t.Errorf("login with a wrong password = %q, %v", again.CACert, err)
	}
}
