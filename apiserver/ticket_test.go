package apiserver_test

import (
	"strings"
	"testing"
	"time"

	"github.com/slipway-project/slipway/core/access"
	"github.com/slipway-project/slipway/params"
	"github.com/slipway-project/slipway/rpc"
	"github.com/slipway-project/slipway/state"
)

// loginWith logs in with a ticket, and asks for the next one.
func loginWith(c *rpc.Client, who credentials, ticket params.Secret) (params.LoginResult, error) {
	var r params.LoginResult
	err := call(c, "Admin", 3, "Login", params.LoginRequest{
		AuthTag: who.tag, Credentials: params.Secret(who.password), Nonce: who.nonce, Ticket: ticket, WantTicket: true,
	}, &r)
	return r, err
}

// TestTicketsOpenNothing has people show each kind of ticket beside each kind of
// password: what comes of it is what comes of the password.
func TestTicketsOpenNothing(t *testing.T) {
	s := newSite(t)
	path := modelPath(s.Default.ModelUUID())
	bob, eve := s.person("bob", access.Login, access.Read), s.person("eve", access.Login, "")
	first, err := loginWith(s.dial(path), bob, "")
	if err != nil || first.Ticket == "" {
		t.Fatalf("login = %q, %v, want a ticket", first.Ticket, err)
	}
	if r, err := login(s.dial(path), bob); err != nil || r.Ticket != "" {
		t.Errorf("a client that did not ask got %q, %v", r.Ticket, err)
	}
	_, agent := s.agent(s.Default, state.MachineSpec{})
	if r, err := loginWith(s.dial(path), agent, ""); err != nil || r.Ticket != "" {
		t.Errorf("an agent got %q, %v", r.Ticket, err)
	}
	guess := credentials{bob.tag, "guess", ""}
	tests := []struct {
		name   string
		path   string
		who    credentials
		ticket params.Secret
		want   string
	}{
		{"the same model", path, bob, first.Ticket, ""},
		{"again, from another connection", path, bob, first.Ticket, ""},
		{"the site", "/api", bob, first.Ticket, ""},
		{"a model without access", modelPath(s.ControllerModelUUID()), bob, first.Ticket, denied},
		{"rubbish", path, bob, "x:y:z", ""},
		{"wrong password", path, guess, first.Ticket, badCreds},
		{"no password", path, credentials{bob.tag, "", ""}, first.Ticket, badCreds},
		{"the ticket as the password", path, credentials{bob.tag, string(first.Ticket), ""}, "", badCreds},
		{"somebody else, without access there", path, eve, first.Ticket, denied},
		{"an agent", path, credentials{agent.tag, "wrong", agent.nonce}, first.Ticket, badCreds},
	}
	for _, tt := range tests {
		if _, err := loginWith(s.dial(tt.path), tt.who, tt.ticket); failure(err) != tt.want {
			t.Errorf("%s: %v, want %q", tt.name, failure(err), tt.want)
		}
	}
	operator := s.as("/api", admin)
	must(t, operator, "UserManager", 1, "DisableUser", entities("user-bob"), nil)
	if _, err := loginWith(s.dial(path), bob, first.Ticket); failure(err) != badCreds {
		t.Errorf("disabled: %v", failure(err))
	}
	must(t, operator, "UserManager", 1, "EnableUser", entities("user-bob"), nil)
	must(t, operator, "UserManager", 1, "SetPassword", params.EntityPasswords{Changes: []params.EntityPassword{{Tag: "user-bob", Password: "another one"}}}, nil)
	if _, err := loginWith(s.dial(path), bob, first.Ticket); failure(err) != badCreds {
		t.Errorf("with the password of before: %v", failure(err))
	}
	if r, err := loginWith(s.dial(path), credentials{bob.tag, "another one", ""}, first.Ticket); err != nil || r.Ticket == first.Ticket {
		t.Errorf("with the new password: %v", failure(err))
	}
}

// TestTicketsAreNotObserved: neither a ticket that is shown nor one that is given
// reaches who is told of logins.
func TestTicketsAreNotObserved(t *testing.T) {
	s, w := observe(t)
	r, err := loginWith(s.dial("/api"), admin, "planted-secret:x:y")
	if err != nil {
		t.Fatal(err)
	}
	if seen := w.take(); seen != "login user-admin" || strings.Contains(seen, string(r.Ticket)) {
		t.Errorf("observed %q", seen)
	}
}

// TestTicketsDoNotSpareTheDelay: who has stolen a ticket cannot try passwords with
// it any faster than without.
func TestTicketsDoNotSpareTheDelay(t *testing.T) {
	inMemory(t, func(t *testing.T, s *site) {
		r, err := loginWith(s.dial("/api"), admin, "")
		if err != nil {
			t.Fatal(err)
		}
		thief := s.dial("/api")
		for range 10 {
			if _, err := loginWith(thief, credentials{admin.tag, "guess", ""}, r.Ticket); failure(err) != badCreds {
				t.Fatal(failure(err))
			}
		}
		began := time.Now()
		if _, err := loginWith(thief, admin, r.Ticket); err != nil {
			t.Fatal(err)
		}
		if d := time.Since(began); d != time.Second {
			t.Errorf("the try after ten failures took %v, want it delayed by a second", d)
		}
	})
}
