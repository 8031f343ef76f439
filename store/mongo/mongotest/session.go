package mongotest

import (
	"fmt"

	"github.com/slipway-project/slipway/store/mongo/bson"
)

// state is how far the transaction of a session has come.
type state int

const (
	none state = iota
	inProgress
	committed
	aborted
)

// session is a logical session: the thing that a transaction and a retryable
// write belong to, whichever connection they come over.
type session struct {
	id     bson.D
	number int64 // txnNumber of its latest transaction or retryable write
	state  state // none for a retryable write
	txn    *txn
	answer bson.D // of the retryable write, once it has written
}

// transient is the label of errors after which a whole transaction may be
// tried again.
const transient = "TransientTransactionError"

// sessionFor finds what a command says of its session. The caller holds e.mu.
// It returns the transaction the command belongs to, nil for none.
func (e *engine) sessionFor(cmd bson.D, name string) (*session, *txn, *cmdError) {
	v, ok := cmd.Get("lsid")
	if !ok {
		return nil, nil, nil
	}
	lsid, _ := v.(bson.D)
	key := string(bson.Marshal(lsid))
	s := e.sessions[key]
	if s == nil {
		s = &session{id: lsid, number: -1}
		e.sessions[key] = s
	}
	v, ok = cmd.Get("txnNumber")
	if !ok {
		return s, nil, nil
	}
	number, _ := bson.Integer(v)
	if number < s.number {
		return s, nil, failf(codeTransactionTooOld, "txnNumber %d is less than last txnNumber %d", number, s.number)
	}
	v, multi := cmd.Get("autocommit")
	if !multi {
		if number > s.number {
			e.renew(s, number, none)
		}
		return s, nil, nil
	}
	if v != false {
		return s, nil, failf(codeInvalidOptions, "'autocommit' must be false")
	}
	if start, _ := cmd.Get("startTransaction"); start == true {
		if number == s.number {
			return s, nil, failf(codeBadValue, "txnNumber %d has been used", number)
		}
		e.renew(s, number, inProgress)
		s.txn = e.begin(s)
		return s, s.txn, nil
	}
	return e.proceed(s, number, name)
}

// renew lets a session use a new number; what was under way is aborted.
func (e *engine) renew(s *session, number int64, st state) {
	if s.txn != nil {
		e.abort(s.txn)
	}
	s.number, s.state, s.txn, s.answer = number, st, nil, nil
}

// proceed finds the transaction that a later command belongs to.
func (e *engine) proceed(s *session, number int64, name string) (*session, *txn, *cmdError) {
	gone := failf(codeNoSuchTransaction, "Given transaction number %d does not match any in-progress transactions.", number).labelled(transient)
	if number != s.number {
		return s, nil, gone
	}
	switch s.state {
	case inProgress:
		return s, s.txn, nil
	case committed:
		if name == "commitTransaction" {
			return s, nil, nil // again: the answer was lost
		}
		return s, nil, failf(codeCommitted, "Transaction %d has been committed.", number)
	}
	return s, nil, gone
}

// endTransaction runs commitTransaction and abortTransaction.
func endTransaction(c *call) (bson.D, *cmdError) {
	if c.session == nil {
		return nil, failf(codeInvalidOptions, "%s must be run within a transaction", c.name)
	}
	if c.txn == nil {
		return bson.New(), nil
	}
	if c.name == "abortTransaction" {
		c.e.abort(c.txn)
		return bson.New(), nil
	}
	c.e.commit(c.txn)
	c.session.txn = nil
	return bson.New(), nil
}

// snapshotOf returns the commit whose state a read outside transactions sees,
// as its read concern says, and whether it is a snapshot read.
func (c *call) snapshotOf() (int64, bool, *cmdError) {
	if c.txn != nil {
		return c.txn.snapshot, false, nil
	}
	v, _ := c.cmd.Get("readConcern")
	concern, _ := v.(bson.D)
	level, _ := concern.Get("level")
	switch level {
	case nil, "local", "available", "majority", "linearizable":
		return c.e.seq, false, nil
	case "snapshot":
	default:
		return 0, false, failf(codeFailedToParse, "read concern level %v", level)
	}
	if c.server.config.WireVersion < 13 {
		return 0, false, failf(codeInvalidOptions, "readConcern level snapshot is only valid in a transaction before 5.0")
	}
	at, ok := concern.Get("atClusterTime")
	if !ok {
		return c.e.seq, true, nil
	}
	ts, isTime := at.(bson.Timestamp)
	if !isTime {
		return 0, false, failf(codeBadValue, "atClusterTime is %T", at)
	}
	seq := int64(ts) - c.e.base
	if seq > c.e.seq || seq < c.e.seq-window {
		return 0, false, failf(codeSnapshotTooOld, "%s", fmt.Sprintf("read timestamp %d is not available", ts))
	}
	return seq, true, nil
}
