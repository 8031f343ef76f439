package provisioner

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slipway-project/slipway/api"
	apipoller "github.com/slipway-project/slipway/api/instancepoller"
	apiprovisioner "github.com/slipway-project/slipway/api/provisioner"
	"github.com/slipway-project/slipway/core/instance"
	"github.com/slipway-project/slipway/core/network"
	"github.com/slipway-project/slipway/core/status"
	"github.com/slipway-project/slipway/environs"
)

// fakePoller is a fakeAPI as the watch of running instances sees it.
type fakePoller struct{ f *fakeAPI }

func (p fakePoller) InstanceIDs(ctx context.Context, ids ...string) ([]api.Result[instance.ID], error) {
	return p.f.InstanceID(ctx, ids...)
}

func (p fakePoller) InstanceStatus(_ context.Context, ids ...string) ([]api.Result[status.Info], error) {
	out := make([]api.Result[status.Info], len(ids))
	for i, id := range ids {
		m, _ := p.f.get(id)
		out[i].Value = m.instStat
	}
	return out, nil
}

func (p fakePoller) ProviderAddresses(_ context.Context, ids ...string) ([]api.Result[[]network.Address], error) {
	return make([]api.Result[[]network.Address], len(ids)), nil
}

func (p fakePoller) SetInstanceStatus(ctx context.Context, seen ...apipoller.Seen) ([]error, error) {
	set := make([]apiprovisioner.NewStatus, len(seen))
	for i, s := range seen {
		set[i] = apiprovisioner.NewStatus{ID: s.ID, Status: s.Status, Message: s.Message}
	}
	return p.f.SetInstanceStatus(ctx, set...)
}

func (p fakePoller) SetProviderAddresses(_ context.Context, seen ...apipoller.Seen) ([]error, error) {
	return make([]error, len(seen)), nil
}

func TestWhatBecomesOfAnInstanceIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, e := newFakeAPI("0"), &fakeEnviron{fakeBroker: newFakeBroker()}
		p, err := New(Config{
			API: f, Instances: fakePoller{f}, ModelUUID: modelUUID, ControllerUUID: controllerUUID,
			Registry: environs.NewRegistry(map[string]environs.Provider{"fake": &fakeProvider{environ: e}}),
		})
		if err != nil {
			t.Fatal(err)
		}
		wait(2 * time.Minute)
		wantInstance(t, f, "0", "i-1")
		e.mu.Lock()
		i := e.instances["i-1"]
		i.Status, i.Message = status.Stopped, "switched off"
		e.instances["i-1"] = i
		e.mu.Unlock()
		wait(2 * time.Minute)
		if m, _ := f.get("0"); m.instStat.Status != status.Stopped || m.instStat.Message != "switched off" {
			t.Errorf("instance status %+v, want what the provider says", m.instStat)
		}
		p.Kill()
		f.machineFeed.Kill()
		f.retryFeed.Kill()
		if err := p.Wait(); err != nil {
			t.Errorf("Wait = %v, want nil", err)
		}
	})
}
