package hosts_test

import (
	"testing"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/api/apitest"
	"github.com/slipway-project/slipway/api/hosts"
	"github.com/slipway-project/slipway/internal/golden"
	"github.com/slipway-project/slipway/params"
)

func TestWhatGoesOverTheWire(t *testing.T) {
	const none = `{"results":[{}]}`
	tr := &apitest.Transcript{Replies: map[string]string{
		"Hosts.List":           `{"results":[{"result":{"name":"a","record":{"spec":{}},"progress":{"owner":"queue","place":2},"has-credentials":true}}]}`,
		"Hosts.Add":            `{"results":[{"name":"a"},{"error":{"message":"host \"b\" already exists","code":"already exists"}}]}`,
		"Hosts.Do":             `{"results":[{"error":{"message":"host \"c\" not found","code":"not found"}}]}`,
		"Hosts.SetCredentials": none, "Hosts.Intend": none, "Hosts.Save": none, "Hosts.Forget": none,
		"Hosts.Managed":  `{"hosts":[{"name":"a","record":{},"progress":{},"has-credentials":true,"credentials":{"username":"u","password":"p"},"retries":1}]}`,
		"Hosts.Data":     `{"results":[{"result":{"user-data":"hush"}}]}`,
		"Hosts.Allocate": `{"results":[{"result":{"name":"a","machine-id":"3","nonce":"n","status":{},"progress":{},"existed":true}}]}`,
		"Hosts.Release":  `{"results":[{},{"error":{"message":"host \"b\" not found","code":"not found"}}]}`,
		"Hosts.Consumed": `{"hosts":[{"name":"a","machine-id":"3","nonce":"n","zone":"z","tags":["ssd"],"status":{},"progress":{}}]}`,
		"Hosts.Zones":    `{"zones":[{"name":"z","free":true}]}`,
	}}
	c, ctx := hosts.New(tr), t.Context()
	list, err := c.List(ctx)
	tr.Note("%d hosts, %v, %+v", len(list), err, list[0].Value.Progress)
	added, err := c.Add(ctx, params.AddHost{Name: "a", Spec: []byte(`{}`)}, params.AddHost{Name: "b", Spec: []byte(`{}`), ReserveFor: "m"})
	tr.Note("%v, %v", added, err)
	err = c.Do(ctx, "c", "retry")
	if !errors.Is(err, errors.NotFound) {
		t.Errorf("Do = %v, want NotFound", err)
	}
	tr.Note("%v", c.SetCredentials(ctx, "a", params.HostCredentials{Username: "u", Password: "p"}))
	managed, err := c.Managed(ctx, []string{"a"})
	tr.Note("%v, %v", managed[0].Credentials, err)
	intended, err := c.Intend(ctx, params.HostIntent{Name: "a", For: 5})
	tr.Note("%v, %v", intended, err)
	saved, err := c.Save(ctx, params.HostUpdate{Name: "a", Status: []byte(`{}`)})
	tr.Note("%v, %v", saved, err)
	forgotten, err := c.Forget(ctx, "a")
	tr.Note("%v, %v", forgotten, err)
	data, err := c.Data(ctx, "a")
	tr.Note("%v, %v", data, err)
	given, refused, err := c.Allocate(ctx, params.AllocateHost{MachineTag: "machine-3", Nonce: "n", Image: []byte(`{"url":"http://x/y"}`), Data: params.HostData{UserData: "hush"}})
	tr.Note("%+v, %v, %v", given, refused, err)
	released, err := c.Release(ctx, "a", "b")
	tr.Note("%v, %v", released, err)
	consumed, err := c.Consumed(ctx)
	tr.Note("%+v, %v", consumed, err)
	zones, err := c.Zones(ctx)
	tr.Note("%v, %v", zones, err)
	golden.Check(t, "transcript.golden", tr.String())
}

func TestAnAnswerWithoutAHostIsAnError(t *testing.T) {
	for _, reply := range []string{`{"results":[{}]}`, `{"results":[]}`, `!unauthorized access: permission denied`} {
		tr := &apitest.Transcript{Replies: map[string]string{"Hosts.List": reply}}
		got, err := hosts.New(tr).List(t.Context(), "a")
		if err == nil && got[0].Err == nil {
			t.Errorf("no error for %s", reply)
		}
	}
}

// What is wrong with a host is of the same kind for who adds it as it was for the site.
func TestAnErrorIsOfItsKind(t *testing.T) {
	for code, kind := range map[string]errors.ConstError{"not valid": errors.NotValid, "already exists": errors.AlreadyExists, "not supported": errors.NotSupported} {
		tr := &apitest.Transcript{Replies: map[string]string{"Hosts.Add": `{"results":[{"error":{"message":"it is so","code":"` + code + `"}}]}`}}
		if got, err := hosts.New(tr).Add(t.Context(), params.AddHost{}); err != nil || !errors.Is(got[0].Err, kind) {
			t.Errorf("Add = %+v, %v, want %v", got, err, kind)
		}
	}
}

func TestAnAnswerWithoutAResultIsAnError(t *testing.T) {
	tr := &apitest.Transcript{Replies: map[string]string{"Hosts.Data": `{"results":[{}]}`, "Hosts.Allocate": `{"results":[{}]}`}}
	c := hosts.New(tr)
	if _, err := c.Data(t.Context(), "a"); err == nil {
		t.Error("no data is taken for some")
	}
	if _, failed, err := c.Allocate(t.Context(), params.AllocateHost{}); err != nil || failed[0] == nil {
		t.Error("no host is taken for one")
	}
}
