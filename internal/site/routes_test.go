package site_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/slipway-project/slipway/api/agentfile"
	"github.com/slipway-project/slipway/internal/golden"
	"github.com/slipway-project/slipway/internal/site"
	"github.com/slipway-project/slipway/params"
	"github.com/slipway-project/slipway/rpc"
)

// TestRefusalsOfRoutes fixes who is answered what by everything that a site
// serves beside the API; what the server itself serves is in a table beside it. A
// route that is new is in the golden file, or this fails.
func TestRefusalsOfRoutes(t *testing.T) {
	var options site.Options
	s := begin(t, func(o *site.Options) {
		o.MetricsListen = "0.0.0.0:0" // elsewhere than on this machine's own addresses alone
		options = *o
	})
	conn, err := s.connect(t, "admin", s.known.Account.Password, "")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := conn.Call(ctx, rpc.Request{Type: "UserManager", Version: 1, Method: "AddUser"},
		params.AddUsers{Users: []params.AddUser{{UserName: "bob", Password: "bobs password"}}}, nil); err != nil {
		t.Fatal(err)
	}
	manager, err := agentfile.Read(s.dir.AgentFile())
	if err != nil {
		t.Fatal(err)
	}
	_, metrics, err := net.SplitHostPort(s.MetricsAddr())
	if err != nil {
		t.Fatal(err)
	}
	callers := []struct{ name, tag, password, nonce string }{
		{name: "nobody"},
		{name: "wrong password", tag: "user-admin", password: "wrong"},
		{name: "user", tag: "user-bob", password: "bobs password"},
		{name: "manager", tag: manager.Tag, password: string(manager.Password), nonce: manager.Nonce},
		{name: "manager with an old nonce", tag: manager.Tag, password: string(manager.Password), nonce: "old"},
		{name: "superuser", tag: "user-admin", password: string(s.known.Account.Password)},
	}
	var b strings.Builder
	for _, pattern := range s.Patterns(options) {
		verb, path, _ := strings.Cut(pattern, " ")
		address := s.Addr()
		if path == "/metrics" {
			address = "127.0.0.1:" + metrics
		}
		var answers []string
		for _, c := range callers {
			r, err := http.NewRequestWithContext(ctx, verb, "https://"+address+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			if c.tag != "" {
				r.SetBasicAuth(c.tag, c.password)
				r.Header.Set("X-Juju-Nonce", c.nonce)
			}
			answer, err := s.http.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			_ = answer.Body.Close()
			answers = append(answers, fmt.Sprintf("%s %d", c.name, answer.StatusCode))
		}
		fmt.Fprintf(&b, "%s: %s\n", pattern, strings.Join(answers, ", "))
	}
	golden.Check(t, "refusals-routes.golden", b.String())
}
