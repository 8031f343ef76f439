package machineagent

import (
	"context"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/juju/errors"
	"github.com/juju/loggo"

	"github.com/slipway-project/slipway/api"
	"github.com/slipway-project/slipway/api/agentfile"
	"github.com/slipway-project/slipway/core/kind"
	"github.com/slipway-project/slipway/core/life"
	"github.com/slipway-project/slipway/core/network"
	"github.com/slipway-project/slipway/core/status"
	"github.com/slipway-project/slipway/internal/testlog"
	"github.com/slipway-project/slipway/internal/tlsfiles"
)

// fixture is an agent, its controller and its machine, in a bubble of time.
type fixture struct {
	*testing.T
	controller *controller
	system     *fakeSystem
	path       string
	agent      *Agent
}

// run runs a test with an agent, which prepare may change things for first.
func run(t *testing.T, prepare func(*fixture), test func(*fixture)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := &fixture{T: t, controller: newController(), system: newSystem(), path: writeFile(t)}
		if prepare != nil {
			prepare(f)
		}
		f.begin(nil)
		synctest.Wait()
		test(f)
		f.agent.Kill()
		if err := f.agent.Wait(); err != nil {
			t.Errorf("Wait() = %v, want nil", err)
		}
	})
}

func (f *fixture) begin(serve func(context.Context, Connection, string) error) {
	f.Helper()
	var err error
	f.agent, err = New(Config{AgentFile: f.path, System: f.system, Serve: serve, dial: f.controller.dial})
	if err != nil {
		f.Fatal(err)
	}
}

func (f *fixture) file() agentfile.File {
	f.Helper()
	file, err := agentfile.Read(f.path)
	if err != nil {
		f.Fatal(err)
	}
	return file
}

// alive reports whether the agent runs.
func (f *fixture) alive() bool { return f.agent.tomb.Alive() }

func (f *fixture) wantStatuses(want ...status.Status) {
	f.Helper()
	var got []status.Status
	f.controller.do(func() { got = slices.Clone(f.controller.statuses) })
	if !slices.Equal(got, want) {
		f.Errorf("statuses = %q, want %q", got, want)
	}
}

func TestAgentReportsAndReplacesItsPassword(t *testing.T) {
	run(t, nil, func(f *fixture) {
		f.wantStatuses(status.Started)
		if got := f.controller.addresses; len(got) != 1 || got[0].Value != "10.9.8.7" {
			f.Errorf("addresses = %v", got)
		}
		file := f.file()
		if file.Password == firstPassword || file.Password != f.controller.password || file.NextPassword != "" || !file.OwnPassword || len(file.Password) < 24 {
			f.Errorf("agent file = %v with password %q, controller has %q", file, file.Password, f.controller.password)
		}
		if want := []string{"127.0.0.1:17070", "10.0.0.1:17070"}; !slices.Equal(file.APIAddresses, want) {
			f.Errorf("API addresses = %q, want %q", file.APIAddresses, want)
		}
		// The next connection changes nothing.
		f.controller.cut()
		after(time.Minute)
		if again := f.file(); !reflect.DeepEqual(again, file) {
			f.Error("the agent file changed without need")
		}
		f.wantStatuses(status.Started, status.Started)
	})
}

func TestAgentNotesWhomToTrust(t *testing.T) {
	other, err := tlsfiles.NewAuthority("other", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	otherCA := string(other.Cert)
	run(t, nil, func(f *fixture) {
		before := f.file()
		f.controller.do(func() { f.controller.ca = otherCA })
		f.controller.cut()
		after(time.Minute)
		if got := f.file(); got.CACert != otherCA || got.Password != before.Password {
			t.Errorf("agent file trusts %q", got.CACert)
		}
		f.wantStatuses(status.Started, status.Started)
	})
}

// Whatever moment a crash or a failure comes at, the next start gets in.
func TestChangeOfPasswordSurvivesFailures(t *testing.T) {
	for name, setPassword := range map[string]func(c *controller, to string) error{
		"not done, answer lost": func(*controller, string) error { return api.ErrBroken },
		"done, answer lost":     func(c *controller, to string) error { c.password = to; return api.ErrBroken },
		"refused":               func(*controller, string) error { return errors.New("too short") },
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(f *fixture) { f.controller.setPassword = setPassword }, func(f *fixture) {
				f.wantStatuses(status.Started) // the work goes on
				if file := f.file(); file.NextPassword == "" || file.Password != firstPassword {
					f.Errorf("agent file has passwords %q and %q, want both", file.Password, file.NextPassword)
				}
				f.agent.Kill()
				_ = f.agent.Wait()
				f.controller.setPassword = nil
				f.begin(nil)
				after(time.Minute)
				if file := f.file(); file.Password != f.controller.password || file.NextPassword != "" || !file.OwnPassword || file.Password == firstPassword {
					f.Errorf("agent file has passwords %q and %q, the controller %q", file.Password, file.NextPassword, f.controller.password)
				}
				f.wantStatuses(status.Started, status.Started)
			})
		})
	}
}

// Where nothing can be written, as on a full disk, the old password stays in
// force and the agent works.
func TestFullDiskIsSurvived(t *testing.T) {
	run(t, func(f *fixture) {
		// The file can be read through the link, and no other made beside that.
		f.path = "/proc/self/fd/" + fmt.Sprint(f.open(f.path).Fd())
	}, func(f *fixture) {
		f.wantStatuses(status.Started)
		if f.controller.password != firstPassword {
			f.Error("the controller has a password that is nowhere written")
		}
	})
}

// open opens a file for as long as the test lasts.
func (f *fixture) open(path string) *os.File {
	f.Helper()
	file, err := os.Open(path)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = file.Close() })
	return file
}

func TestDyingMachineIsSeenOut(t *testing.T) {
	run(t, nil, func(f *fixture) {
		f.controller.change(func() { f.controller.life = life.Dying })
		synctest.Wait()
		f.wantStatuses(status.Started, status.Stopped)
		if f.alive() || f.controller.life != life.Dead {
			f.Errorf("agent alive %v, machine %s, want an end", f.alive(), f.controller.life)
		}
		if !slices.Equal(f.system.removed, []string{f.path}) {
			f.Errorf("removed %q, want the agent file", f.system.removed)
		}
	})
}

func TestMachineWithContainersDiesWhenTheyHave(t *testing.T) {
	run(t, func(f *fixture) { f.controller.ensureDeadErr = kind.HasContainers }, func(f *fixture) {
		f.controller.change(func() { f.controller.life = life.Dying })
		after(10 * time.Minute)
		f.wantStatuses(status.Started, status.Stopped)
		if !f.alive() || len(f.system.removed) != 0 {
			t.Error("the agent ended before its machine could")
		}
		f.controller.do(func() { f.controller.ensureDeadErr = nil })
		after(time.Minute)
		if f.alive() {
			t.Error("the agent goes on after its machine's end")
		}
	})
}

func TestDeadMachineEndsTheAgent(t *testing.T) {
	run(t, func(f *fixture) { f.controller.life = life.Dead }, func(f *fixture) {
		f.wantStatuses()
		if f.alive() || len(f.system.removed) != 1 {
			f.Errorf("agent alive %v, removed %q", f.alive(), f.system.removed)
		}
	})
}

// Nothing but the controller's word over a connection ends the agent.
func TestRefusalsAreNoReasonToCleanUp(t *testing.T) {
	for name, refusal := range map[string]error{
		"wrong password":  errors.Unauthorizedf("invalid entity name or password"),
		"unknown model":   kind.ModelNotFound,
		"not recorded":    errors.NotProvisionedf("machine 0"),
		"wrong clock":     errors.WithType(errors.New("it has expired or is not valid yet"), api.ErrUntrusted),
		"nobody there":    errors.New("connection refused"),
		"being upgraded":  kind.UpgradeInProgress,
		"not even a text": errors.New(""),
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(f *fixture) { f.controller.dialErr = refusal }, func(f *fixture) {
				after(6 * time.Hour)
				if n := len(f.controller.dials); !f.alive() || len(f.system.removed) != 0 || n < 6*60/2 || n > 6*60*2 {
					f.Errorf("alive %v, removed %q, %d tries in six hours", f.alive(), f.system.removed, n)
				}
				f.controller.do(func() { f.controller.dialErr = nil })
				after(2 * time.Minute)
				f.wantStatuses(status.Started)
			})
		})
	}
}

func TestHalfWrittenAgentFileIsWaitedFor(t *testing.T) {
	var whole []byte
	for name, text := range map[string]func() []byte{
		"missing":        func() []byte { return nil },
		"empty":          func() []byte { return []byte{} },
		"half":           func() []byte { return whole[:len(whole)/2] },
		"not YAML":       func() []byte { return []byte("\x00\x01") },
		"of another tag": func() []byte { return append([]byte("tag: user-admin\n"), whole[len("tag: machine-0\n"):]...) },
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(f *fixture) {
				var err error
				if whole, err = os.ReadFile(f.path); err != nil {
					f.Fatal(err)
				}
				if err := os.Remove(f.path); err != nil {
					f.Fatal(err)
				}
				if content := text(); content != nil {
					if err := os.WriteFile(f.path, content, 0o600); err != nil {
						f.Fatal(err)
					}
				}
			}, func(f *fixture) {
				after(time.Hour)
				if !f.alive() || len(f.controller.dials) != 0 {
					f.Errorf("alive %v, %d tries to connect, want to wait", f.alive(), len(f.controller.dials))
				}
				if err := os.WriteFile(f.path, whole, 0o600); err != nil {
					f.Fatal(err)
				}
				after(2 * time.Minute)
				f.wantStatuses(status.Started)
			})
		})
	}
}

// What keeps an agent from its work for half an hour is said once, in one line.
func TestTroubleIsSaidInOneLine(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(*fixture)
		want    string
	}{
		"wrong clock": {func(f *fixture) {
			f.controller.dialErr = errors.WithType(errors.New("certificate has expired or is not yet valid"), api.ErrUntrusted)
		}, "this machine's clock says"},
		"half-written file": {func(f *fixture) {
			if err := os.WriteFile(f.path, []byte("tag: machine-0\npassw"), 0o600); err != nil {
				f.Fatal(err)
			}
		}, "waiting for the agent file"},
		"full disk": {func(f *fixture) {
			f.path = "/proc/self/fd/" + fmt.Sprint(f.open(f.path).Fd())
		}, "cannot"},
		"refused": {func(f *fixture) { f.controller.dialErr = errors.Unauthorizedf("invalid entity name or password") }, "nothing is cleaned up"},
	} {
		t.Run(name, func(t *testing.T) {
			log := testlog.Capture(t)
			run(t, c.prepare, func(f *fixture) {
				after(30 * time.Minute)
				var said []string
				for _, e := range log.Entries() {
					if e.Level >= loggo.WARNING {
						said = append(said, e.Message)
					}
				}
				if len(said) != 1 || !strings.Contains(said[0], c.want) || strings.Contains(said[0], "\n") {
					t.Errorf("said %q, want one line with %q", said, c.want)
				}
			})
		})
	}
}

func TestChangedAddressesAreReported(t *testing.T) {
	run(t, nil, func(f *fixture) {
		f.system.mu.Lock()
		f.system.addresses = network.NewAddresses("10.9.8.8", "2001:db8::1")
		f.system.mu.Unlock()
		f.system.changes <- struct{}{}
		synctest.Wait()
		if got := f.controller.addresses; len(got) != 2 {
			f.Errorf("addresses = %v, want the new ones", got)
		}
		f.wantStatuses(status.Started)
	})
}

func TestControllersThatMoveAreRemembered(t *testing.T) {
	run(t, nil, func(f *fixture) {
		f.controller.change(func() { f.controller.servers = []string{"10.0.0.2:17070", "10.0.0.3:17070"} })
		synctest.Wait()
		want := []string{"127.0.0.1:17070", "10.0.0.2:17070", "10.0.0.3:17070", "10.0.0.1:17070"}
		if got := f.file().APIAddresses; !slices.Equal(got, want) {
			f.Errorf("API addresses = %q, want %q", got, want)
		}
	})
}

func TestOtherWorkRunsWhileConnected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fixture{T: t, controller: newController(), system: newSystem(), path: writeFile(t)}
		calls, running := 0, false
		f.begin(func(ctx context.Context, _ Connection, id string) error {
			if calls++; calls == 1 {
				return errors.New("the first time it fails")
			}
			running = true
			<-ctx.Done()
			running = false
			return ctx.Err()
		})
		after(time.Minute)
		if calls != 2 || !running {
			t.Errorf("%d calls, running %v, want the second to run", calls, running)
		}
		f.agent.Kill()
		if err := f.agent.Wait(); err != nil || running {
			t.Errorf("Wait() = %v, other work running %v", err, running)
		}
	})
}

func TestConfigNeedsAFile(t *testing.T) {
	if _, err := New(Config{}); !errors.Is(err, errors.NotValid) {
		t.Errorf("New = %v, want NotValid", err)
	}
}

// after waits, in a test's own time, and until everything rests.
func after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}
