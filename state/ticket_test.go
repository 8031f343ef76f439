package state_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/internal/hostkey"
	"github.com/slipway-project/slipway/state"
	"github.com/slipway-project/slipway/state/statetest"
	"github.com/slipway-project/slipway/store/storetest"
)

// spared reports whether a login with a ticket succeeds without a hash, for which
// there is no place; err is what comes of it when there is. Want is what is
// expected, and says how long to wait for the other.
func spared(t *testing.T, c *state.Controller, want bool, name, password, ticket string) (yes bool, err error) {
	t.Helper()
	wait := 20 * time.Millisecond
	if want {
		wait = time.Minute
	}
	release := c.HoldHashing()
	short, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	u, err := c.Users().AuthenticateAgain(short, name, password, ticket)
	release()
	if err == nil {
		return u.Name() == name, nil
	}
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("AuthenticateAgain = %v, want it to wait for a hash", err)
	}
	_, err = c.Users().AuthenticateAgain(ctx, name, password, ticket)
	return false, err
}

// TestTickets: a ticket spares a hash and gives nothing that the password alone
// would not.
func TestTickets(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	db := storetest.New(t, state.Collections())
	options := state.Options{HostKeys: hostkey.New(), Now: func() time.Time { return now }}
	site := statetest.OpenWith(t, statetest.Config{Store: db, Options: options})
	open := func(keys *hostkey.Ring) *state.Controller {
		c, err := state.Open(ctx, db, state.Options{HostKeys: keys, Now: options.Now})
		must(t, err)
		t.Cleanup(func() { must(t, c.Close()) })
		return c
	}
	second, rotated, foreign, keyless := open(options.HostKeys), open(options.HostKeys.WithNew()), open(hostkey.New()), open(nil)
	ticketOf := func(c *state.Controller, name string) string {
		t.Helper()
		u, err := c.Users().Authenticate(ctx, name, "secret")
		must(t, err)
		ticket, err := u.Ticket()
		must(t, err)
		return ticket
	}
	for _, name := range []string{"bob", "eve"} {
		u, err := site.Users().Add(ctx, state.UserSpec{Name: name, Password: "secret"})
		must(t, err)
		if ticket, err := u.Ticket(); ticket != "" || err != nil {
			t.Errorf("a ticket for somebody who was not authenticated: %q, %v", ticket, err)
		}
	}
	good, ofEve := ticketOf(site.Controller, "bob"), ticketOf(site.Controller, "eve")
	ofNewKey := ticketOf(rotated, "bob")
	if strings.Contains(good, "secret") || good == "" {
		t.Errorf("ticket = %q", good)
	}
	if ticket := ticketOf(keyless, "bob"); ticket != "" {
		t.Errorf("a controller without keys gives ticket %q", ticket)
	}
	when, rest, _ := strings.Cut(good, ":")
	tests := []struct {
		name, user, password, ticket string
		at                           *state.Controller
		later                        time.Duration
		spared                       bool
		refused                      bool // with a hash too
	}{
		{name: "at the same controller", ticket: good, spared: true},
		{name: "at another controller", ticket: good, at: second, spared: true},
		{name: "at one with a new key in front", ticket: good, at: rotated, spared: true},
		{name: "at one without the key that made it", ticket: ofNewKey},
		{name: "at one of other keys", ticket: good, at: foreign},
		{name: "at one without keys", ticket: good, at: keyless},
		{name: "a second time", ticket: good, spared: true},
		{name: "shortly before the end", ticket: good, later: state.TicketLife - time.Second, spared: true},
		{name: "expired", ticket: good, later: state.TicketLife},
		{name: "from a clock that is a little ahead", ticket: good, later: -time.Minute, spared: true},
		{name: "from the future", ticket: good, later: -time.Hour},
		{name: "made younger", ticket: "z" + when[1:] + ":" + rest},
		{name: "cut off", ticket: good[:len(good)-3]},
		{name: "without its time", ticket: ":" + rest},
		{name: "rubbish", ticket: strings.Repeat("%:", 100)},
		{name: "none", ticket: ""},
		{name: "with the wrong password", password: "guess", ticket: good, refused: true},
		{name: "without the password", password: "", ticket: good, refused: true},
		{name: "of somebody else with the same password", ticket: ofEve},
		{name: "for somebody else with the same password", user: "eve", ticket: good},
		{name: "for nobody", user: "nobody", ticket: good, refused: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			began := now
			now = now.Add(tt.later)
			defer func() { now = began }()
			if tt.at == nil {
				tt.at = site.Controller
			}
			if tt.user == "" {
				tt.user = "bob"
			}
			if tt.password == "" && tt.name != "without the password" {
				tt.password = "secret"
			}
			got, err := spared(t, tt.at, tt.spared, tt.user, tt.password, tt.ticket)
			if got != tt.spared || errors.Is(err, state.ErrBadCredentials) != tt.refused || err != nil && !tt.refused {
				t.Errorf("spared = %v, %v, want %v, refused %v", got, err, tt.spared, tt.refused)
			}
		})
	}
}

// withTicket adds a user with the password "secret", and returns a ticket for it.
func withTicket(t testing.TB, site *statetest.Site) (*state.User, string) {
	t.Helper()
	_, err := site.Users().Add(ctx, state.UserSpec{Name: "bob", Password: "secret"})
	must(t, err)
	bob, err := site.Users().Authenticate(ctx, "bob", "secret")
	must(t, err)
	ticket, err := bob.Ticket()
	must(t, err)
	return bob, ticket
}

// TestTicketsEndWithWhatTheyVouchFor: a new password and the end of an account
// hold for whoever has a ticket, from the moment at which they are made.
func TestTicketsEndWithWhatTheyVouchFor(t *testing.T) {
	site, _ := statetest.OpenMemory(t)
	bob, ticket := withTicket(t, site)
	check := func(when, password string, wantSpared, wantRefused bool) {
		t.Helper()
		got, err := spared(t, site.Controller, wantSpared, "bob", password, ticket)
		if got != wantSpared || errors.Is(err, state.ErrBadCredentials) != wantRefused {
			t.Errorf("%s: spared = %v, %v", when, got, err)
		}
	}
	check("at first", "secret", true, false)
	must(t, bob.Disable(ctx))
	check("disabled", "secret", false, true)
	must(t, bob.Enable(ctx))
	check("enabled again", "secret", true, false)
	must(t, bob.SetPassword(ctx, "other"))
	check("the old password", "secret", false, true)
	check("the new password", "other", false, false)
	must(t, bob.SetPassword(ctx, "secret"))
	check("the old password, set again", "secret", false, false)
}

// FuzzTicket: no text but the right one is a ticket.
func FuzzTicket(f *testing.F) {
	site, _ := statetest.OpenMemory(f)
	bob, good := withTicket(f, site)
	f.Add(good)
	f.Add(strings.ToUpper(good))
	f.Add("::")
	f.Fuzz(func(t *testing.T, ticket string) {
		ok, err := bob.VouchedFor("secret", ticket)
		if err != nil || ok && !sameTicket(ticket, good) {
			t.Errorf("VouchedFor(%q) = %v, %v", ticket, ok, err)
		}
	})
}

// sameTicket reports whether two texts are the same ticket: its time may be written
// in more ways than one.
func sameTicket(a, b string) bool {
	_, a, _ = strings.Cut(a, ":")
	_, b, _ = strings.Cut(b, ":")
	return a == b
}
