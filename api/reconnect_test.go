package api_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/api"
	"github.com/slipway-project/slipway/api/apitest"
	"github.com/slipway-project/slipway/params"
	"github.com/slipway-project/slipway/worker"
)

var fast = worker.Backoff{Min: time.Millisecond, Max: 10 * time.Millisecond}

func TestReconnectorOpensAgainWhatBroke(t *testing.T) {
	s := apitest.NewServer(t, apitest.Options{})
	r := api.Reconnector{Info: infoOf(s), Backoff: fast}
	times := 0
	err := r.Run(t.Context(), func(ctx context.Context, c *api.Conn) error {
		times++
		switch times {
		case 1:
			go s.Disconnect()
			<-ctx.Done()
			return nil
		case 2:
			return errors.New("something went wrong")
		}
		return nil
	})
	if err != nil || times != 3 {
		t.Errorf("Run = %v after %d connections, want nil after 3", err, times)
	}
}

func TestReconnectorGivesUpWhenTryingIsPointless(t *testing.T) {
	s := apitest.NewServer(t, apitest.Options{})
	info := infoOf(s)
	info.Password = "guess"
	r := api.Reconnector{Info: info, Backoff: fast}
	err := r.Run(t.Context(), func(context.Context, *api.Conn) error {
		t.Error("connected with a wrong password")
		return nil
	})
	if !errors.Is(err, errors.Unauthorized) || !strings.Contains(err.Error(), "user-admin") {
		t.Errorf("Run = %v, want Unauthorized", err)
	}
}

func TestReconnectorKeepsTryingWhenTheCallerSaysSo(t *testing.T) {
	s := apitest.NewServer(t, apitest.Options{})
	tries := 0
	s.Handle("Admin.Login", func(context.Context, apitest.Request) (any, error) {
		tries++
		return nil, errors.NotProvisionedf("machine 0")
	})
	ctx, cancel := context.WithCancel(t.Context())
	r := api.Reconnector{Info: infoOf(s), Backoff: fast, Fatal: func(err error) bool {
		if !errors.Is(err, errors.NotProvisioned) {
			t.Errorf("Open = %v, want NotProvisioned", err)
		}
		if tries == 3 {
			cancel()
		}
		return false
	}}
	if err := r.Run(ctx, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("Run = %v, want Canceled", err)
	}
	if tries != 3 {
		t.Errorf("%d tries, want 3", tries)
	}
}

func TestReconnectorEndsWithItsContext(t *testing.T) {
	s := apitest.NewServer(t, apitest.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	r := api.Reconnector{Info: infoOf(s), Backoff: fast}
	err := r.Run(ctx, func(ctx context.Context, c *api.Conn) error {
		cancel()
		<-ctx.Done()
		return ctx.Err()
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("Run = %v, want Canceled", err)
	}
}

// TestReconnectorShowsItsTicket: who comes back shows the ticket of the last login
// beside the password; nobody else asks for one.
func TestReconnectorShowsItsTicket(t *testing.T) {
	for _, who := range []struct{ tag, want string }{
		{apitest.UserTag, "true , true t1, true t2"},
		{"machine-0", "false , false , false "},
	} {
		s := apitest.NewServer(t, apitest.Options{})
		var seen []string
		s.Handle("Admin.Login", func(_ context.Context, r apitest.Request) (any, error) {
			var q params.LoginRequest
			if err := r.Read(&q); err != nil {
				return nil, err
			}
			if q.Credentials != apitest.Password {
				t.Errorf("password = %q", string(q.Credentials))
			}
			seen = append(seen, fmt.Sprintf("%v %s", q.WantTicket, string(q.Ticket)))
			result := params.LoginResult{ServerVersion: "2.0.0"}
			if q.WantTicket {
				result.Ticket = params.Secret(fmt.Sprintf("t%d", len(seen)))
			}
			return result, nil
		})
		info := infoOf(s)
		info.Tag, info.ModelUUID = who.tag, ""
		r := api.Reconnector{Info: info, Backoff: fast}
		times := 0
		err := r.Run(t.Context(), func(ctx context.Context, c *api.Conn) error {
			if times++; times == 3 {
				return nil
			}
			go s.Disconnect()
			<-ctx.Done()
			return nil
		})
		if got := strings.Join(seen, ", "); err != nil || got != who.want {
			t.Errorf("%s: Run = %v, logins %q, want %q", who.tag, err, got, who.want)
		}
	}
}
