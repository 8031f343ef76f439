package state

import (
	"context"
	"maps"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/core/status"
	"github.com/slipway-project/slipway/store"
)

// SetStatus records what the machine's agent reports, and puts it into the status
// history. Data replaces all earlier data. A zero Since means now. It returns an
// error satisfying errors.NotValid for a status that may not be set, and errors.NotFound
// if the machine has been removed.
func (m *Machine) SetStatus(ctx context.Context, info status.Info) error {
	return m.setStatus(ctx, "machine", func(d *machineDoc) (statusDoc, error) {
		if err := checkStatus(info, d.Instance != nil); err != nil {
			return statusDoc{}, err
		}
		return newStatusDoc(info), nil
	})
}

// checkStatus says whether a machine's status may be set to info.
func checkStatus(info status.Info, provisioned bool) error {
	switch info.Status {
	case status.Started, status.Stopped:
	case status.Error:
		if info.Message == "" {
			return typedf(errors.NotValid, "cannot set status %q without info", info.Status)
		}
	case status.Pending:
		if provisioned {
			return typedf(errors.NotValid, "cannot set status %q", info.Status)
		}
	case status.Down:
		return typedf(errors.NotValid, "cannot set status %q", info.Status)
	default:
		return typedf(errors.NotValid, "cannot set invalid status %q", info.Status)
	}
	return nil
}

// MergeStatusData lays data over the data of the machine's status and leaves the rest
// of it as it is. It returns an error satisfying errors.NotValid if there is data
// then but the status is not error, and otherwise errs as SetStatus does. Setting
// "transient" to true asks for another try, of which WatchRetries tells.
func (m *Machine) MergeStatusData(ctx context.Context, data map[string]any) error {
	return m.setStatus(ctx, "machine", func(d *machineDoc) (statusDoc, error) {
		merged := make(map[string]any, len(d.Status.Data)+len(data))
		maps.Copy(merged, d.Status.Data)
		maps.Copy(merged, data)
		if len(merged) > 0 && d.Status.Status != status.Error {
			return statusDoc{}, typedf(errors.NotValid, "machine %s is not in an error state", m.id)
		}
		info := d.Status.info()
		if err := checkStatus(info, d.Instance != nil); err != nil {
			return statusDoc{}, err
		}
		merge := statusDoc{Status: info.Status, Message: info.Message, Data: merged, Retry: d.Status.Retry}
		if data["transient"] == true {
			merge.Retry = m.st.c.now()
		}
		return merge, nil
	})
}

// SetInstanceStatus records what the provisioner reports of the instance; any
// status is accepted. It is otherwise like SetStatus.
func (m *Machine) SetInstanceStatus(ctx context.Context, info status.Info) error {
	return m.setStatus(ctx, "instance", func(*machineDoc) (statusDoc, error) {
		return newStatusDoc(info), nil
	})
}

// setStatus writes a status and its history. Whose is "machine" or "instance".
func (m *Machine) setStatus(ctx context.Context, whose string, change func(*machineDoc) (statusDoc, error)) error {
	now := m.st.c.now()
	return m.run(ctx, func(int) ([]store.Op, error) {
		docs, err := m.st.c.store.GetAll(ctx, []store.Key{m.st.key(machinesC, m.id), m.st.key(historyC, m.id)})
		if err != nil {
			return nil, errors.Annotate(err, "cannot set status")
		}
		if docs[0].Rev == 0 {
			return nil, errors.Annotate(errors.NotFoundf("%s", whose), "cannot set status")
		}
		fresh, err := m.st.decodeMachine(docs[0])
		if err != nil {
			return nil, errors.Trace(err)
		}
		s, err := change(fresh.doc)
		if err != nil {
			return nil, err
		}
		if s.Since.IsZero() {
			s.Since = now
		}
		s.Since = s.Since.UTC().Round(0)
		return m.statusOps(docs, fresh.doc, whose, s)
	})
}

// statusOps returns the batch that sets one status of what was read as docs[0]; docs[1] is
// the history.
func (m *Machine) statusOps(docs []store.Doc, read *machineDoc, whose string, s statusDoc) ([]store.Op, error) {
	d := *read
	history, err := decodeHistory(docs[1])
	if err != nil {
		return nil, errors.Trace(err)
	}
	if whose == "instance" {
		history.Instance = history.Instance.add(d.InstanceStatus, s)
		d.InstanceStatus = s
	} else {
		history.Machine = history.Machine.add(d.Status, s)
		d.Status = s
	}
	write, err := m.st.machineOp(m.id, docs[0].Rev, &d)
	if err != nil {
		return nil, errors.Trace(err)
	}
	record, err := writeOp(docs[1].Key, docs[1].Rev, history, nil)
	return []store.Op{write, record}, err
}
