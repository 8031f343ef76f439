package install

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/state"
	"github.com/slipway-project/slipway/store"
	"github.com/slipway-project/slipway/watcher"
)

// The bounds on the log of one boot, in bytes.
const (
	maxLogHead = 32 << 10  // of its beginning
	maxLogTail = 160 << 10 // of its end
	maxLine    = 4 << 10   // of one line
)

// Log is the log of one boot.
type Log struct {
	Head    []string `json:"head,omitempty"`
	Dropped int      `json:"dropped,omitempty"` // lines between head and tail that are not kept
	Tail    []string `json:"tail,omitempty"`
}

// Len returns how many lines the installer sent.
func (l *Log) Len() int { return len(l.Head) + l.Dropped + len(l.Tail) }

// After returns the lines after the first n. Where lines are not kept, one line says so.
func (l *Log) After(n int) []string {
	var out []string
	if n < len(l.Head) {
		out = append(out, l.Head[max(0, n):]...)
	}
	kept := len(l.Head) + l.Dropped
	if l.Dropped > 0 && n < kept {
		out = append(out, fmt.Sprintf("... %d lines are not kept ...", kept-max(n, len(l.Head))))
	}
	return append(out, l.Tail[min(max(0, n-kept), len(l.Tail)):]...)
}

// add appends lines within the bounds.
func (l *Log) add(lines []string) {
	for _, line := range lines {
		line = shortened(line, maxLine)
		if l.Dropped == 0 && len(l.Tail) == 0 && size(l.Head)+len(line) <= maxLogHead {
			l.Head = append(l.Head, line)
			continue
		}
		l.Tail = append(l.Tail, line)
	}
	over := size(l.Tail) - maxLogTail
	n := 0
	for over > 0 && n < len(l.Tail) {
		over -= len(l.Tail[n]) + 1
		n++
	}
	l.Dropped += n
	l.Tail = slices.Clone(l.Tail[n:])
}

func size(lines []string) int {
	n := len(lines)
	for _, l := range lines {
		n += len(l)
	}
	return n
}

func logID(host string, number int) string { return fmt.Sprintf("%s:%08d", host, number) }

func (is *Installs) logKey(host string, number int) store.Key {
	return is.docs.Key(state.InstallLogCollection, logID(host, number))
}

// readLog returns the log of a boot, empty if there is none.
func (is *Installs) readLog(ctx context.Context, host string, number int) (Log, store.Rev, error) {
	var l Log
	docs, err := is.docs.Get(ctx, []store.Key{is.logKey(host, number)})
	if err != nil || docs[0].Rev == 0 {
		return l, 0, errors.Trace(err)
	}
	err = json.Unmarshal(docs[0].Data, &l)
	return l, docs[0].Rev, errors.Annotate(err, "cannot decode the log of an installer")
}

// Log returns the log of one boot of a host, which is empty if nothing was logged.
func (is *Installs) Log(ctx context.Context, host string, number int) (Log, error) {
	l, _, err := is.readLog(ctx, host, number)
	return l, err
}

// WatchLog returns a watcher of the log of one boot.
func (is *Installs) WatchLog(host string, number int) watcher.NotifyWatcher {
	return is.docs.WatchDoc(state.InstallLogCollection, logID(host, number))
}

// AddLog appends lines to the log of the session's boot. It may be called after the run
// has ended, for the lines about its end.
func (s *Session) AddLog(ctx context.Context, lines []string) error {
	if len(lines) == 0 {
		return nil
	}
	return errors.Trace(s.is.docs.Run(ctx, func(int) ([]store.Op, error) {
		d, order, err := s.is.read(ctx, s.host)
		if err != nil {
			return nil, err
		}
		if d == nil || d.CredentialHash != s.hash {
			return nil, ErrOver
		}
		l, rev, err := s.is.readLog(ctx, s.host, s.number)
		if err != nil {
			return nil, err
		}
		l.add(lines)
		data, err := json.Marshal(l)
		if err != nil {
			return nil, errors.Annotate(err, "cannot encode the log of an installer")
		}
		// Nothing is logged for an order that has been cancelled, or has another boot, meanwhile.
		key, same := s.is.logKey(s.host, s.number), store.Assert(s.is.key(s.host), order)
		if rev == 0 {
			return []store.Op{store.Insert(key, data, nil), same}, nil
		}
		return []store.Op{store.Replace(key, rev, data, nil), same}, nil
	}))
}

// dropLogs returns the operations that remove the logs of boots, and see to it that there
// are no others by then.
func (is *Installs) dropLogs(ctx context.Context, host string, boots []Boot) ([]store.Op, error) {
	if len(boots) == 0 {
		return nil, nil
	}
	keys := make([]store.Key, len(boots))
	for i, b := range boots {
		keys[i] = is.logKey(host, b.Number)
	}
	docs, err := is.docs.Get(ctx, keys)
	if err != nil {
		return nil, errors.Trace(err)
	}
	var ops []store.Op
	for _, d := range docs {
		if d.Rev == 0 {
			ops = append(ops, store.AssertMissing(d.Key))
			continue
		}
		ops = append(ops, store.Remove(d.Key, d.Rev))
	}
	return ops, nil
}
