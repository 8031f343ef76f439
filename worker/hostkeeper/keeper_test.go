package hostkeeper_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/core/kind"
	metal3v1alpha1 "github.com/slipway-project/slipway/environs/baremetal/metal3/v1alpha1"
	"github.com/slipway-project/slipway/params"
	"github.com/slipway-project/slipway/watcher"
	"github.com/slipway-project/slipway/worker/hostkeeper"
	"github.com/slipway-project/slipway/worker/hostmanager"
)

// fake is a controller that knows one host, and notes what it is told.
type fake struct {
	err    error
	intent params.HostIntent
	update params.HostUpdate
	forgot string
}

func (f *fake) Watch(context.Context) (watcher.StringsWatcher, error) { return nil, f.err }

func (f *fake) Managed(context.Context, []string) ([]params.ManagedHost, error) {
	h := params.ManagedHost{
		Host:        params.Host{Name: "a", Record: json.RawMessage(`{"spec":{"online":true}}`), Progress: params.HostProgress{Owner: "queue", Place: 2}},
		Credentials: params.HostCredentials{Username: "u", Password: "p"}, CredentialsVersion: 3, Retries: 1, Force: true, ForeignFor: time.Hour,
	}
	return []params.ManagedHost{h}, f.err
}

func (f *fake) Data(_ context.Context, name string) (params.HostData, error) {
	return params.HostData{UserData: params.Secret("user data of " + name), NetworkData: "net"}, f.err
}

func (f *fake) Intend(_ context.Context, i ...params.HostIntent) ([]error, error) {
	f.intent = i[0]
	return []error{f.err}, nil
}

func (f *fake) Save(_ context.Context, u ...params.HostUpdate) ([]error, error) {
	f.update = u[0]
	return []error{f.err}, nil
}

func (f *fake) Forget(_ context.Context, names ...string) ([]error, error) {
	f.forgot = names[0]
	return []error{f.err}, nil
}

func TestStore(t *testing.T) {
	f, ctx := new(fake), t.Context()
	s := hostkeeper.NewStore(f)
	got, err := s.Hosts(ctx, []string{"a"})
	if err != nil || len(got) != 1 {
		t.Fatalf("Hosts = %v, %v", got, err)
	}
	if r := got[0]; r.ID != "a" || !r.Host.Spec.Online || r.Credentials.Password != "p" || r.CredentialsVersion != "3" ||
		r.Retries != 1 || !r.Force || r.Progress.Place != 2 || time.Until(r.ForeignUntil) < 59*time.Minute {
		t.Errorf("record = %+v", r)
	}
	if text, err := got[0].Config.UserData(); err != nil || text != "user data of a" {
		t.Errorf("user data = %q, %v", text, err)
	}
	if text, err := got[0].Config.NetworkData(); err != nil || text != "net" {
		t.Errorf("network data = %q, %v", text, err)
	}
	f.err = errors.New("boom")
	if _, err := got[0].Config.UserData(); err == nil {
		t.Error("user data that cannot be read is taken for none")
	}
	f.err = nil
	if err := s.Intend(ctx, "a", time.Now().Add(time.Minute)); err != nil || f.intent.Name != "a" || f.intent.For < 50*time.Second || f.intent.For > time.Minute {
		t.Errorf("intent = %+v, %v", f.intent, err)
	}
	update := hostmanager.Update{Status: metal3v1alpha1.BareMetalHostStatus{PoweredOn: true}, Events: []hostmanager.Event{{Reason: "R"}}, ClearAnnotations: []string{"k"}}
	if err := s.Save(ctx, "a", update); err != nil || f.update.Name != "a" || len(f.update.Events) != 1 || len(f.update.ClearAnnotations) != 1 {
		t.Errorf("update = %+v, %v", f.update, err)
	}
	if err := s.Remove(ctx, "a", []hostmanager.Event{{Reason: "Gone"}}); err != nil || f.forgot != "a" {
		t.Errorf("removal of %q, %v", f.forgot, err)
	}
}

func TestALostLeaseEndsTheManager(t *testing.T) {
	f, ctx := &fake{err: kind.LeaseDenied}, t.Context()
	s := hostkeeper.NewStore(f)
	_, watch := s.WatchHosts(ctx)
	_, read := s.Hosts(ctx, nil)
	for what, err := range map[string]error{
		"watch": watch, "read": read, "intend": s.Intend(ctx, "a", time.Now()),
		"save": s.Save(ctx, "a", hostmanager.Update{}), "remove": s.Remove(ctx, "a", nil),
	} {
		if !errors.Is(err, hostmanager.ErrNotOwner) {
			t.Errorf("%s: %v, want ErrNotOwner", what, err)
		}
	}
}

func TestConfigIsChecked(t *testing.T) {
	if _, err := hostkeeper.New(hostkeeper.Config{}); !errors.Is(err, errors.NotValid) {
		t.Errorf("New of nothing = %v", err)
	}
}
