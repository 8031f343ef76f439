package provisioner

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/core/instance"
	"github.com/slipway-project/slipway/core/life"
	"github.com/slipway-project/slipway/core/status"
	"github.com/slipway-project/slipway/environs"
)

// slowBroker is a broker whose instances take long to come to be.
type slowBroker struct {
	*fakeBroker
	told chan []environs.Instance // what Follow tells
	fail chan error               // what Follow ends with
}

func (b *slowBroker) StartInstance(ctx context.Context, p environs.StartInstanceParams) (environs.StartInstanceResult, error) {
	r, err := b.fakeBroker.StartInstance(ctx, p)
	r.Instance.Status, r.Instance.Message = status.Allocating, "chosen"
	return r, err
}

func (b *slowBroker) Follow(ctx context.Context, tell func([]environs.Instance)) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-b.fail:
			return err
		case is := <-b.told:
			tell(is)
		}
	}
}

// tell has the broker say how an instance of a machine stands.
func (b *slowBroker) tell(id instance.ID, machineID string, s status.Status, message string) {
	b.told <- []environs.Instance{{ID: id, Owner: owner(machineID), Status: s, Message: message}}
	synctest.Wait()
}

func TestStatusFollowsInstancesThatTakeLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeAPI("0", "1")
		f.machines["1"].instance, f.machines["1"].status = "i-9", status.Info{Status: status.Started}
		b := &slowBroker{newFakeBroker(), make(chan []environs.Instance), make(chan error)}
		b.have("i-9", owner("1"), status.Running)
		c := modelConfig(t, nil)
		w := runWith(t, f, b, c)
		synctest.Wait()
		says := func(machine string, want status.Status, message string) {
			t.Helper()
			if m, _ := f.get(machine); m.instStat.Status != want || m.instStat.Message != message {
				t.Errorf("machine %s: %+v, want %s %q", machine, m.instStat, want, message)
			}
		}
		says("0", status.Allocating, "chosen")
		says("1", "", "") // nobody has told anything yet
		b.tell("i-1", "0", status.Allocating, "writing image 40 %")
		says("0", status.Allocating, "writing image 40 %")
		if m, _ := f.get("0"); m.instance != "i-1" {
			t.Errorf("machine 0 has instance %q while its image is written", m.instance)
		}
		b.fail <- errors.New("connection lost") // it is followed anew, after a while
		b.tell("i-1", "0", status.Running, "")
		says("0", status.Running, "")
		n := len(f.machines["0"].history)
		b.tell("i-1", "0", status.Running, "")
		if m, _ := f.get("0"); len(m.history) != n {
			t.Error("what is shown already is set again")
		}
		// What is said of an instance that the machine has no more is no concern.
		b.tell("i-1", "1", status.Error, "someone else's")
		says("1", "", "")
		b.tell("i-9", "1", status.Running, "switched off")
		says("1", status.Running, "switched off")
		f.change("0", func(m *fakeMachine) { m.life = life.Dead })
		synctest.Wait()
		b.tell("i-1", "0", status.Error, "gone")
		if _, there := f.get("0"); there || len(b.left()) != 1 {
			t.Errorf("the dead machine is there: %v, instances %v", there, b.left())
		}
		w.Kill()
	})
}

// How an instance stands may be told before its machine has been read.
func TestStatusOfAnInstanceThatWasToldEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeAPI()
		b := &slowBroker{newFakeBroker(), make(chan []environs.Instance), make(chan error)}
		runWith(t, f, b, modelConfig(t, nil))
		b.have("i-9", owner("7"), status.Running)
		b.tell("i-9", "7", status.Allocating, "queued at position 2")
		f.change("7", func(m *fakeMachine) { m.instance = "i-9" })
		synctest.Wait()
		if m, _ := f.get("7"); m.instStat.Message != "queued at position 2" {
			t.Errorf("status = %+v", m.instStat)
		}
	})
}
