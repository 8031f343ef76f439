//go:build e2e

package histories_test

import (
	"context"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/juju/errors"

	"github.com/slipway-project/slipway/api/client"
	"github.com/slipway-project/slipway/api/provisioner"
	"github.com/slipway-project/slipway/core/instance"
	corelife "github.com/slipway-project/slipway/core/life"
	"github.com/slipway-project/slipway/core/status"
	"github.com/slipway-project/slipway/internal/history"
	"github.com/slipway-project/slipway/params"
)

const (
	clients  = 6
	watchers = 4
	kills    = 8  // SOAK multiplies them
	youngest = 10 // machines that clients pick from
)

// soak returns n times what SOAK says; SOAK=1 and no SOAK mean n.
func soak(n int) int {
	if factor, err := strconv.ParseFloat(os.Getenv("SOAK"), 64); err == nil && factor > 1 {
		return int(float64(n) * factor)
	}
	return n
}

// machines are those whose addition was acknowledged.
type machines struct {
	mu  sync.Mutex
	ids []string
}

func (ms *machines) pick(dice *rand.Rand) string {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	young := ms.ids[max(0, len(ms.ids)-youngest):]
	if len(young) == 0 {
		return ""
	}
	return young[dice.IntN(len(young))]
}

func (ms *machines) add(t testing.TB, id string) {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	for _, other := range ms.ids {
		if id == other {
			t.Errorf("two machines were given the id %s", id)
		}
	}
	ms.ids = append(ms.ids, id)
}

// outcome returns what came of a call: the error of one machine, or of all.
func outcome(each []error, err error) history.Seen {
	if err == nil && len(each) == 1 {
		err = each[0]
	}
	var answer *params.Error
	switch {
	case err == nil:
		return history.Seen{}
	case !errors.As(err, &answer): // the answer never came
		return history.Seen{Unknown: true}
	}
	for text, refusal := range map[string]history.Refusal{
		"not found or not alive": history.NotAlive, "already set": history.AlreadySet, "not dead": history.NotDead, "still alive": history.NotDead,
		"does not exist": history.NotFound,
	} {
		if strings.Contains(answer.Message, text) { // which have no code
			return history.Seen{Refusal: refusal}
		}
	}
	for code, refusal := range map[string]history.Refusal{
		params.CodeNotFound: history.NotFound, params.CodeLeaseClaimDenied: history.Denied, params.CodeExcessiveContention: history.Contention,
		params.CodeDead: history.NotFound, // of a machine that is not there
	} {
		if answer.Code == code {
			return history.Seen{Refusal: refusal}
		}
	}
	return history.Seen{Refusal: history.Refusal(answer.Error())}
}

// perform does anything but add.
func perform(ctx context.Context, l *life, d history.Deed) history.Seen {
	p := provisioner.New(l.manager)
	switch d.What {
	case "record":
		return outcome(p.SetInstanceInfo(ctx, provisioner.Instance{MachineID: d.Machine, ID: d.Instance, Nonce: "n"}))
	case "status":
		return outcome(p.SetStatus(ctx, provisioner.NewStatus{ID: d.Machine, Status: status.Error, Message: d.Message}))
	case "destroy":
		return outcome(nil, client.New(l.person).DestroyMachines(ctx, false, d.Machine))
	case "kill":
		return outcome(p.EnsureDead(ctx, d.Machine))
	case "remove":
		return outcome(p.Remove(ctx, d.Machine))
	}
	all, err := client.New(l.person).FullStatus(ctx)
	if err != nil {
		return outcome(nil, err)
	}
	m, there := all.Machines[d.Machine]
	if !there {
		return history.Seen{}
	}
	out := history.Seen{Life: corelife.Alive, Instance: instance.ID(m.InstanceID), Message: m.AgentStatus.Info}
	if m.AgentStatus.Life != "" {
		out.Life = corelife.Value(m.AgentStatus.Life)
	}
	if out.Instance == "pending" { // which stands for none
		out.Instance = ""
	}
	return out
}

// add adds a machine. The id is empty if what became of it is unknown.
func add(ctx context.Context, t testing.TB, l *life, ms *machines) (string, history.Seen) {
	r, err := client.New(l.person).AddMachines(ctx, params.AddMachineParams{Jobs: []string{"JobHostUnits"}})
	if err == nil {
		err = r[0].Err
	}
	if err != nil {
		return "", outcome(nil, err)
	}
	ms.add(t, r[0].Value)
	return r[0].Value, history.Seen{}
}

// act is what one client does next, to the life of the controller that there is.
func (s *site) act(ctx context.Context, ms *machines) func(dice *rand.Rand, c int) (*history.Deed, func() history.Seen) {
	return func(dice *rand.Rand, c int) (*history.Deed, func() history.Seen) {
		<-time.After(time.Duration(dice.IntN(20)) * time.Millisecond) // so that kills find all kinds of moments
		l := s.working()
		if l == nil {
			return nil, nil
		}
		m := ms.pick(dice)
		if m == "" || dice.IntN(12) == 0 {
			d := &history.Deed{What: "add"}
			return d, func() (out history.Seen) {
				d.Machine, out = add(ctx, s.t, l, ms)
				return out
			}
		}
		d := history.Any(dice, c, m)
		return d, func() history.Seen { return perform(ctx, l, *d) }
	}
}

// lives returns the lives of all machines, as one life of the controller has them.
func (l *life) lives(ctx context.Context) history.Lives {
	return func([]string) (map[string]corelife.Value, error) {
		all, err := client.New(l.person).FullStatus(ctx)
		if err != nil {
			return nil, err
		}
		now := map[string]corelife.Value{}
		for id, m := range all.Machines {
			if now[id] = corelife.Alive; m.AgentStatus.Life != "" {
				now[id] = corelife.Value(m.AgentStatus.Life)
			}
		}
		return now, nil
	}
}

// follow watches the machines through all lives of the controller, until it hears of
// the machine that is added last.
func (s *site) follow(ctx context.Context, last *lastMachine) {
	f := history.NewFollower(s.t)
	for n := 0; ; n++ {
		l := s.after(n)
		if l == nil {
			s.t.Error("the end came before a follower had read everything")
			return
		}
		n = l.n
		if s.followLife(ctx, l, f, last) {
			return
		}
	}
}

// lastMachine is the machine that is added last, when nothing else changes any more,
// and then destroyed. Who has heard of that has heard of everything.
type lastMachine struct{ id atomic.Value }

// add adds the machine. Its end comes when everybody can know its id.
func (m *lastMachine) add(ctx context.Context, t testing.TB, l *life) {
	c := client.New(l.person)
	r, err := c.AddMachines(ctx, params.AddMachineParams{Jobs: []string{"JobHostUnits"}})
	if err != nil || r[0].Err != nil {
		t.Fatal(err, r)
	}
	m.id.Store(r[0].Value)
	if err := c.DestroyMachines(ctx, false, r[0].Value); err != nil {
		t.Fatal(err)
	}
}

// heardBy reports whether a follower has heard of the machine's end.
func (m *lastMachine) heardBy(f *history.Follower) bool {
	id, known := m.id.Load().(string)
	return known && f.Reached(id, corelife.Dying)
}

// followLife watches the machines through one life of the controller. It reports
// whether everything has been read.
func (s *site) followLife(ctx context.Context, l *life, f *history.Follower, last *lastMachine) bool {
	w, err := provisioner.New(l.manager).WatchModelMachines(ctx)
	if err != nil {
		return false
	}
	defer func() { w.Kill(); _ = w.Wait() }() // how it ended is of no interest
	f.Begin()
	for ids := range w.Changes() {
		if f.Take(ids, l.lives(ctx)) != nil {
			return false
		}
		if !last.heardBy(f) {
			continue
		}
		now, err := l.lives(ctx)(nil)
		if err != nil {
			s.t.Error(err)
		}
		f.End(now)
		return true
	}
	return false
}

// TestHistoriesSurviveKills kills the controller at random moments under load. SEED
// repeats a run's choices, though not its moments.
func TestHistoriesSurviveKills(t *testing.T) {
	s := newSite(t)
	seed := history.Seed(t)
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Hour)
	defer cancel()
	s.begin()
	s.configure()
	ms := &machines{}
	var following, working sync.WaitGroup
	last := &lastMachine{}
	for range watchers {
		following.Go(func() { s.follow(ctx, last) })
	}
	var ops []porcupine.Operation
	stopped := make(chan struct{})
	do := s.act(ctx, ms)
	working.Go(func() {
		ops = history.Record(history.Recording{Clients: clients, Seed: seed, Do: func(dice *rand.Rand, c int) (*history.Deed, func() history.Seen) {
			select {
			case <-stopped:
				return nil, nil
			default:
				return do(dice, c)
			}
		}})
	})
	s.killAgainAndAgain(rand.New(rand.NewPCG(seed, 1000)), soak(kills))
	close(stopped)
	working.Wait()
	last.add(ctx, t, s.after(0))
	following.Wait()
	ops = append(ops, s.readAll(ctx, ms)...)
	s.end()
	s.controller.End()
	explained(t, ops, len(ms.ids))
}

// killAgainAndAgain kills the controller so many times, some of them before it was
// ready again.
func (s *site) killAgainAndAgain(dice *rand.Rand, times int) {
	for range times {
		<-time.After(time.Duration(200+dice.IntN(800)) * time.Millisecond)
		s.controller.Kill()
		if dice.IntN(3) == 0 {
			s.controller.Start()
			<-time.After(time.Duration(dice.IntN(300)) * time.Millisecond)
			s.controller.Kill()
		}
		s.begin()
	}
	<-time.After(500 * time.Millisecond)
}

// readAll reads every machine once more, when nobody does anything else.
func (s *site) readAll(ctx context.Context, ms *machines) []porcupine.Operation {
	dice := rand.New(rand.NewPCG(0, 0))
	left := ms.ids
	l := s.after(0)
	return history.Record(history.Recording{Clients: 1, Do: func(*rand.Rand, int) (*history.Deed, func() history.Seen) {
		if len(left) == 0 {
			return nil, nil
		}
		d := history.Any(dice, 0, left[0])
		d.What, left = "read", left[1:]
		return d, func() history.Seen { return perform(ctx, l, *d) }
	}})
}

// explained looks for an order that explains the history.
func explained(t *testing.T, ops []porcupine.Operation, machines int) {
	counts := map[string]int{}
	unknown := 0
	for _, op := range ops {
		out := op.Output.(history.Seen)
		if out.Unknown {
			unknown++
		}
		what := op.Input.(history.Deed).What
		if out.Refusal != "" {
			what += ": " + string(out.Refusal)
		}
		counts[what]++
	}
	t.Logf("%d machines, %d deeds, %d of them with an unknown outcome: %v", machines, len(ops), unknown, counts)
	if unknown == 0 || machines < youngest {
		t.Errorf("%d machines, %d unknown outcomes: nothing was tested", machines, unknown)
	}
	history.Explain(t, history.Machines(history.Seen{}), ops)
}
