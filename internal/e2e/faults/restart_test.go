//go:build e2e

package faults_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/slipway-project/slipway/environs"
	"github.com/slipway-project/slipway/environs/simulated"
	"github.com/slipway-project/slipway/internal/e2e/harness"
)

// everStarted returns how often an instance was started for each machine, as the
// rack's journal has it since the rack was started.
func (s *site) everStarted() map[string]int {
	s.t.Helper()
	journal, err := os.ReadFile(filepath.Join(s.dir, "rack", "rack.journal"))
	if err != nil {
		s.t.Fatal(err)
	}
	starts := map[string]int{}
	for line := range strings.Lines(string(journal)) {
		var record struct {
			Started *struct {
				Owner environs.Owner `json:"owner"`
			} `json:"started"`
		}
		if err := json.Unmarshal([]byte(line), &record); err != nil {
			s.t.Fatal(err)
		}
		if record.Started != nil {
			starts[record.Started.Owner.MachineID]++
		}
	}
	return starts
}

// TestControllerRestarts restarts the controller, by both signals, while machines
// are being started: workers and agents come back by themselves, and no machine
// is started twice.
func TestControllerRestarts(t *testing.T) {
	const n = 20
	s := newSite(t, siteConfig{behaviour: simulated.Behaviour{
		Delays: map[simulated.Call]simulated.Distribution{simulated.CallStart: delay(t, 300*time.Millisecond)},
	}})
	ids := s.add(n)
	for i, how := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL, syscall.SIGTERM} {
		harness.Eventually(t, "some machines have an instance", func() bool { return len(s.instances()) > i*n/3 })
		s.controller.Signal(how)
		<-s.controller.Done()
		s.controller.Serve()
	}
	s.settled(ids...)
	starts := s.everStarted()
	for _, id := range ids {
		if starts[id] != 1 {
			t.Errorf("an instance of machine %s was started %d times, want once", id, starts[id])
		}
	}
	s.remove(false, ids...)
	s.settled()
}

// TestCallsThatNeverReturn has starts and stops of some machines hang: the others
// are not held up, and the machines can be removed by force all the same.
func TestCallsThatNeverReturn(t *testing.T) {
	t.Parallel() // it waits most of the time
	s := newSite(t, siteConfig{settings: map[string]any{"num-provision-workers": 8}})
	hang := simulated.MachineFault{Times: 1, Kind: simulated.FaultHang}
	for _, hang.MachineID = range []string{"0", "3", "5"} {
		if err := s.machine.AddFault(context.Background(), hang); err != nil {
			t.Fatal(err)
		}
	}
	s.add(8)
	s.started("1", "2", "4", "6", "7")
	s.remove(true, "0")  // its start hangs
	s.remove(false, "3") // likewise
	s.settledBut([]string{"5"}, "1", "2", "4", "6", "7")
	s.behave(simulated.Behaviour{Faults: map[simulated.Call]map[simulated.FaultKind]float64{
		simulated.CallStop: {simulated.FaultHang: 1},
	}})
	began := time.Now()
	s.remove(true, "1")
	s.gone("1")
	took := time.Since(began)
	t.Logf("a machine whose instance cannot be stopped was removed by force after %.0f s", took.Seconds())
	if took > 2*time.Minute { // twice what is promised: these tests also run beside other work
		t.Errorf("it took %v, want 60 s", took)
	}
	s.behave(simulated.Behaviour{})
	more := s.add(1)
	s.started(more...)
	rest := append(more, "2", "4", "5", "6", "7")
	s.remove(true, rest...)
	s.gone(rest...)
}
