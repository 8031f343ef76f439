package state

import (
	"context"
	"slices"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/core/status"
	"github.com/slipway-project/slipway/store"
)

// maxHistory is how many statuses of each kind are kept of one machine, the
// current one among them. The oldest go first.
const maxHistory = 50

// historyDoc holds what the statuses of a machine have been. It is written with
// the first change of one, so that a new machine is one document.
type historyDoc struct {
	Machine  statusList `json:"machine,omitempty"`
	Instance statusList `json:"instance,omitempty"`
}

// statusList is a history, oldest first.
type statusList []statusDoc

// add returns the history with s at its end; the first time also with what was
// before s.
func (l statusList) add(before, s statusDoc) statusList {
	if len(l) == 0 {
		l = append(l, before)
	}
	l = append(l, s)
	return l[max(0, len(l)-maxHistory):]
}

func decodeHistory(d store.Doc) (*historyDoc, error) {
	if d.Rev == 0 {
		return &historyDoc{}, nil
	}
	return decode[historyDoc](d)
}

// StatusHistory returns what the machine's status has been, newest first: at
// most limit statuses, or all that are kept if limit is 0.
func (m *Machine) StatusHistory(ctx context.Context, limit int) ([]status.Info, error) {
	h, err := m.history(ctx)
	if err != nil {
		return nil, errors.Trace(err)
	}
	return h.Machine.newest(m.doc.Status, limit), nil
}

// InstanceStatusHistory is StatusHistory for the instance's status.
func (m *Machine) InstanceStatusHistory(ctx context.Context, limit int) ([]status.Info, error) {
	h, err := m.history(ctx)
	if err != nil {
		return nil, errors.Trace(err)
	}
	return h.Instance.newest(m.doc.InstanceStatus, limit), nil
}

func (m *Machine) history(ctx context.Context) (*historyDoc, error) {
	docs, err := m.st.c.store.GetAll(ctx, []store.Key{m.st.key(historyC, m.id)})
	if err != nil {
		return nil, errors.Annotatef(err, "cannot get status history of machine %s", m.id)
	}
	return decodeHistory(docs[0])
}

func (l statusList) newest(current statusDoc, limit int) []status.Info {
	if len(l) == 0 {
		l = statusList{current}
	}
	infos := make([]status.Info, len(l))
	for i, s := range l {
		infos[i] = s.info()
	}
	slices.Reverse(infos)
	if limit > 0 && limit < len(infos) {
		infos = infos[:limit]
	}
	return infos
}
