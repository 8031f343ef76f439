package singular_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/slipway-project/slipway/apiserver/facadetest"
	"github.com/slipway-project/slipway/apiserver/singular"
	"github.com/slipway-project/slipway/params"
	"github.com/slipway-project/slipway/state"
	"github.com/slipway-project/slipway/state/statetest"
)

func TestOnlyManagersGetIt(t *testing.T) {
	site, _ := statetest.OpenMemory(t)
	for _, who := range []facadetest.Caller{facadetest.Superuser, facadetest.Agent("machine-0")} {
		if _, err := singular.New(site.Default, facadetest.Connect(t, who)); err == nil {
			t.Errorf("%s got it", who.Tag)
		}
	}
}

func TestClaim(t *testing.T) {
	site, _ := statetest.OpenMemory(t)
	model, controller := "model-"+site.Default.ModelUUID(), "controller-"+site.ControllerUUID()
	const denied = "permission denied [unauthorized access]"
	for _, c := range []struct {
		name  string
		claim params.SingularClaim
		want  string // the beginning of the error
	}{
		{"the model", params.SingularClaim{EntityTag: model, ClaimantTag: "machine-0", Duration: time.Second}, ""},
		{"the site", params.SingularClaim{EntityTag: controller, ClaimantTag: "machine-0", Duration: time.Minute}, ""},
		{"another model", params.SingularClaim{EntityTag: "model-" + site.ControllerModelUUID(), ClaimantTag: "machine-0", Duration: time.Minute}, denied},
		{"a machine", params.SingularClaim{EntityTag: "machine-0", ClaimantTag: "machine-0", Duration: time.Minute}, denied},
		{"nothing", params.SingularClaim{ClaimantTag: "machine-0", Duration: time.Minute}, denied},
		{"for another", params.SingularClaim{EntityTag: model, ClaimantTag: "machine-1", Duration: time.Minute}, denied},
		{"for too long", params.SingularClaim{EntityTag: model, ClaimantTag: "machine-0", Duration: time.Hour}, "claim of a lease by "},
		{"for no time", params.SingularClaim{EntityTag: model, ClaimantTag: "machine-0"}, "claim of a lease by "},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, err := singular.New(site.Default, facadetest.Connect(t, facadetest.Manager))
			if err != nil {
				t.Fatal(err)
			}
			r, err := f.Claim(context.Background(), params.SingularClaims{Claims: []params.SingularClaim{c.claim}})
			if err != nil {
				t.Fatal(err)
			}
			got := facadetest.Text(r.Results[0].Error)
			if c.want == "" && got != "" || !strings.HasPrefix(got, c.want) {
				t.Errorf("claim: %q, want %q", got, c.want)
			}
			if c.want == "" && r.Results[0].Epoch != 1 {
				t.Errorf("epoch = %d, want 1", r.Results[0].Epoch)
			}
		})
	}
}

func TestConnectionsWithoutASessionAreStrangers(t *testing.T) {
	site, _ := statetest.OpenMemory(t)
	claim := func(session string) (f *singular.Singular, failure string) {
		f, err := singular.New(site.Default.WithFence(state.NewFence("")), facadetest.Connect(t, facadetest.Manager))
		if err != nil {
			t.Fatal(err)
		}
		r, err := f.Claim(context.Background(), params.SingularClaims{Claims: []params.SingularClaim{
			{EntityTag: "model-" + site.Default.ModelUUID(), ClaimantTag: "machine-0", Duration: time.Minute, Session: session},
		}})
		if err != nil {
			t.Fatal(err)
		}
		return f, facadetest.Text(r.Results[0].Error)
	}
	first, failure := claim("")
	if failure != "" {
		t.Fatal(failure)
	}
	if _, failure := claim(""); !strings.HasSuffix(failure, "[lease claim denied]") {
		t.Errorf("claim of another connection: %q, want it denied", failure)
	}
	stopped, cancel := context.WithCancel(context.Background())
	cancel()
	model := facadetest.Entities("model-" + site.Default.ModelUUID())
	r, err := first.Wait(stopped, model)
	if err != nil || facadetest.Text(r.Results[0].Error) != "watcher has been stopped [stopped]" {
		t.Errorf("wait that was given up: %+v, %v", r, err)
	}
	if info, err := site.Default.Lease().Info(context.Background()); err != nil || !strings.HasPrefix(info.Holder, "machine-0#") {
		t.Errorf("holder: %+v, %v", info, err)
	}
	if _, err := first.Release(context.Background(), model); err != nil {
		t.Fatal(err)
	}
	for range 2 { // one worker on two connections
		if _, failure := claim("s"); failure != "" {
			t.Errorf("claim of a session: %s", failure)
		}
	}
}
