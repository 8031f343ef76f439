package install

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/internal/printable"
	"github.com/slipway-project/slipway/provision/config"
)

// Config returns what the session's machine is to become.
func (s *Session) Config(ctx context.Context) (*config.MachineConfig, error) {
	d, _, err := s.is.read(ctx, s.host)
	if err != nil {
		return nil, err
	}
	if d == nil || d.CredentialHash != s.hash || d.Phase != PhaseRunning {
		return nil, errors.Trace(ErrOver)
	}
	data, err := s.is.open(d)
	if err != nil {
		return nil, err
	}
	return machineConfig(d, data.Data)
}

// Report notes a status of the run. The last one may come again, since its reply may
// have got lost; after it, others are refused with ErrOver.
func (s *Session) Report(ctx context.Context, st config.Status) error {
	return s.change(ctx, func(d *doc) error {
		now := s.is.docs.Now()
		switch {
		case d.Phase == PhaseDone && st.State == config.StateSuccess, d.Phase == PhaseFailed && st.State == config.StateError:
			return errKeep
		case d.Phase != PhaseRunning:
			return ErrOver
		}
		d.Heard = now
		switch st.State {
		case config.StateInit:
			d.Step = "init"
		case config.StateStep:
			d.Step = stepText(st)
		case config.StateSuccess:
			var facts struct {
				Disk config.DiskID `json:"disk"`
			}
			if len(st.Facts) > 0 && json.Unmarshal(st.Facts, &facts) == nil && d.Order.Purpose == PurposeInstall {
				d.Disk = config.DiskID{Serial: name(facts.Disk.Serial), WWN: name(facts.Disk.WWN), Name: name(facts.Disk.Name)}
			}
			if d.Order.Purpose == PurposeWipe {
				d.Disk = config.DiskID{}
			}
			d.Step = ""
			d.end(now, PhaseDone, "")
			if err := s.is.dropData(d); err != nil {
				return err
			}
		case config.StateError:
			d.end(now, PhaseFailed, failureText(st))
			if err := s.is.dropData(d); err != nil {
				return err
			}
		default:
			return errors.NotValidf("state %q of an installer", st.State)
		}
		d.Steps = append(d.Steps, bounded(st))
		if n := len(d.Steps); n > maxSteps { // the first tells when it began, the last what came of it
			d.Steps = append(d.Steps[:1], d.Steps[n-maxSteps+1:]...)
		}
		return nil
	})
}

// bounded returns what is kept of a status. An order is written anew with each of them, so that
// a machine must not make it as long as it likes.
func bounded(st config.Status) config.Status {
	st.Step, st.Result, st.Message, st.Facts = oneLine(st.Step, maxName), oneLine(st.Result, maxName), oneLine(st.Message, 2000), nil
	return st
}

// stepText says where a run stands.
func stepText(st config.Status) string {
	text := st.Step
	if st.Total > 0 {
		text = fmt.Sprintf("%s (%d of %d)", st.Step, st.Number, st.Total)
	}
	if st.Result != "" {
		text += " " + st.Result
	}
	return oneLine(text, 200)
}

// failureText says why a run failed.
func failureText(st config.Status) string {
	message := st.Message
	if st.Step != "" && !strings.Contains(message, st.Step) {
		message = "step " + st.Step + ": " + message
	}
	return oneLine(message, 1000)
}

// oneLine makes one line of a text from a machine, of at most so many bytes.
func oneLine(text string, limit int) string {
	return shortened(strings.Join(strings.Fields(text), " "), limit)
}

// shortened is oneLine, but keeps blanks as they are.
func shortened(text string, limit int) string {
	text = printable.Line(text)
	if len(text) > limit {
		text = strings.ToValidUTF8(text[:limit], "") + "..."
	}
	return text
}

// Kind is what a report is of.
type Kind string

// The kinds of reports.
const (
	KindInventory Kind = "inventory"
	KindFirmware  Kind = "firmware"
	KindHealth    Kind = "health"
)

// Keep keeps a report, which is JSON.
func (s *Session) Keep(ctx context.Context, k Kind, report json.RawMessage) error {
	if !json.Valid(report) {
		return errors.NotValidf("%s that is no JSON", k)
	}
	return s.change(ctx, func(d *doc) error {
		if d.Phase != PhaseRunning {
			return ErrOver
		}
		d.Heard = s.is.docs.Now()
		switch k {
		case KindInventory:
			d.Inventory = report
		case KindFirmware:
			d.Firmware = report
		case KindHealth:
			d.Health = report
		default:
			return errors.NotValidf("kind of report %q", k)
		}
		return nil
	})
}

// Heartbeat notes that the machine is alive. It is written down only if nothing was for
// a while.
func (s *Session) Heartbeat(ctx context.Context) error {
	return s.change(ctx, func(d *doc) error {
		now := s.is.docs.Now()
		switch {
		case d.Phase != PhaseRunning:
			return ErrOver
		case now.Sub(d.Heard) < heartbeatEvery:
			return errKeep
		}
		d.Heard = now
		return nil
	})
}
