package mongotest

import (
	"bufio"
	"context"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/store/mongo/bson"
	"github.com/slipway-project/slipway/store/mongo/wire"
)

// conn is a client's connection. One goroutine serves it.
type conn struct {
	server *Server
	member int
	nc     net.Conn
	ctx    context.Context // ends when the connection is closed
	cancel context.CancelFunc
	once   sync.Once
	user   string // logged in as; "" for no one
	login  *scram
}

func newConn(s *Server, member int, nc net.Conn) *conn {
	c := &conn{server: s, member: member, nc: nc}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c
}

// close ends the connection and what it waits for. It may be called by any
// goroutine.
func (c *conn) close() {
	c.once.Do(func() {
		c.cancel()
		c.nc.Close()
	})
}

// request is one message and what reading it gave.
type request struct {
	m   wire.Message
	err error
}

// serve answers requests until the connection ends. It reads ahead by one, to
// notice that a client is gone while a command still waits.
func (c *conn) serve() error {
	requests := make(chan request)
	done := make(chan struct{})
	defer func() {
		c.close()
		<-done
	}()
	go func() {
		defer close(done)
		br := bufio.NewReaderSize(c.nc, 16<<10)
		for {
			m, err := wire.ReadMessage(br)
			if err != nil {
				c.cancel()
			}
			select {
			case requests <- request{m, err}:
			case <-c.ctx.Done():
			}
			if err != nil {
				return
			}
		}
	}()
	for {
		var r request
		select {
		case r = <-requests:
		case <-c.ctx.Done():
			return c.ctx.Err()
		}
		if r.err != nil {
			return r.err
		}
		out, err := c.answer(r.m)
		if err != nil {
			return err
		}
		if out == nil {
			continue
		}
		if _, err := c.nc.Write(out); err != nil {
			return err
		}
	}
}

// answer runs a request and encodes the answer; nil if none is wanted.
func (c *conn) answer(m wire.Message) ([]byte, error) {
	switch m.Op {
	case wire.OpMsg:
		msg, err := wire.ParseMsg(m.Body)
		if err != nil {
			return nil, err
		}
		cmd, err := bson.Unmarshal(msg.Body)
		if err != nil {
			return nil, err
		}
		for _, s := range msg.Sequences {
			docs := bson.A{}
			for _, raw := range s.Docs {
				d, err := bson.Unmarshal(raw)
				if err != nil {
					return nil, err
				}
				docs = append(docs, d)
			}
			cmd = append(cmd, bson.E{K: s.Field, V: docs})
		}
		doc, err := c.run(cmd)
		if err != nil || msg.MoreToCome {
			return nil, err
		}
		return wire.AppendMsg(nil, 0, m.ID, wire.Msg{Body: bson.Marshal(doc)}), nil
	case wire.OpQuery: // only the handshake, as servers since 5.1
		q, err := wire.ParseQuery(m.Body)
		if err != nil {
			return nil, err
		}
		first, _ := q.Query.First()
		if !strings.HasSuffix(q.Namespace, ".$cmd") || !strings.EqualFold(first.Key, "ismaster") {
			doc := failf(codeUnsupportedQuery, "Unsupported OP_QUERY command: %s. The client driver may require an upgrade.", first.Key).doc()
			return wire.AppendReply(nil, m.ID, 0, 0, bson.Marshal(doc)), nil
		}
		cmd, err := bson.Unmarshal(q.Query)
		if err != nil {
			return nil, err
		}
		doc, err := c.run(append(cmd, bson.E{K: "$db", V: "admin"}))
		if err != nil {
			return nil, err
		}
		return wire.AppendReply(nil, m.ID, 8, 0, bson.Marshal(doc)), nil
	}
	return nil, errors.NotSupportedf("wire operation %d", m.Op)
}

// errCut ends a connection because a fault says so.
var errCut = errors.New("cut by an injected fault")

// run runs a command with the faults that strike it.
func (c *conn) run(cmd bson.D) (bson.D, error) {
	if len(cmd) == 0 {
		return failf(codeFailedToParse, "empty command").doc(), nil
	}
	if c.server.config.Observe != nil {
		c.server.config.Observe(cmd)
	}
	fault, struck := c.server.strike(cmd[0].K)
	if struck {
		switch fault.Effect {
		case CutBefore:
			return nil, errCut
		case StepDown:
			c.server.StepDown()
		case Fail:
			return c.failed(cmd, failf(fault.Code, "injected failure")).doc(), nil
		}
	}
	out, err := c.execute(cmd)
	if struck && fault.Effect == CutAfter {
		return nil, errCut
	}
	if err != nil {
		return c.failed(cmd, err).doc(), nil
	}
	if _, multi := cmd.Get("autocommit"); cmd[0].K == "commitTransaction" || cmd[0].K == "update" && !multi {
		c.server.written.Add(1)
	}
	return append(out, bson.E{K: "ok", V: 1.0}), nil
}

// failed adds the labels that a server gives to an error.
func (c *conn) failed(cmd bson.D, err *cmdError) *cmdError {
	_, multi := cmd.Get("autocommit")
	_, numbered := cmd.Get("txnNumber")
	ending := cmd[0].K == "commitTransaction" || cmd[0].K == "abortTransaction"
	switch {
	case multi && !ending && (err.code == codeWriteConflict || wire.IsNotPrimary(err.code) || err.code == codeNoSuchTransaction):
		return err.labelled(transient)
	case numbered && wire.IsNotPrimary(err.code):
		return err.labelled("RetryableWriteError")
	}
	return err
}

// execute finds the command, checks who may run it and where, and runs it.
func (c *conn) execute(cmd bson.D) (bson.D, *cmdError) {
	name := cmd[0].K
	spec, ok := commands[name]
	if !ok {
		return nil, failf(codeCommandNotFound, "no such command: '%s'", name)
	}
	if c.server.config.Users != nil && c.user == "" && !spec.anyone {
		return nil, failf(codeUnauthorized, "Command %s requires authentication", name)
	}
	db, _ := cmd.Get("$db")
	call := &call{server: c.server, e: c.server.engine, conn: c, cmd: cmd, name: name, ctx: c.ctx}
	call.db, _ = db.(string)
	if call.db == "" {
		return nil, failf(codeInvalidNamespace, "invalid $db")
	}
	reign, primary := c.server.isPrimary(c.member)
	if spec.where == onPrimary && !primary {
		return nil, failf(codeNotPrimary, "not primary")
	}
	if spec.where == onRead && !primary && !secondaryOk(cmd) {
		return nil, failf(codeNotPrimaryNoOk, "not primary and secondaryOk=false")
	}
	var cancel context.CancelFunc
	if ms, ok := bson.Integer(get(cmd, "maxTimeMS")); ok && ms > 0 && name != "getMore" {
		call.ctx, cancel = context.WithTimeout(c.ctx, time.Duration(ms)*time.Millisecond)
		defer cancel()
	}
	if spec.unlocked {
		return spec.run(call)
	}
	return call.locked(spec, reign)
}

// secondaryOk reports whether a read may be answered by a secondary.
func secondaryOk(cmd bson.D) bool {
	pref, _ := get(cmd, "$readPreference").(bson.D)
	mode, _ := get(pref, "mode").(string)
	return mode != "" && mode != "primary"
}

// locked runs a command on the engine, with its session.
func (c *call) locked(spec command, reign context.Context) (out bson.D, err *cmdError) {
	c.e.mu.Lock()
	defer c.e.mu.Unlock()
	if spec.where == onPrimary && reign.Err() != nil {
		return nil, failf(codeInterrupted, "operation was interrupted by a change of state")
	}
	if c.session, c.txn, err = c.e.sessionFor(c.cmd, c.name); err != nil {
		return nil, err
	}
	if c.txn != nil && c.server.config.Standalone {
		return nil, failf(codeIllegalOperation, "Transaction numbers are only allowed on a replica set member or mongos")
	}
	_, numbered := c.cmd.Get("txnNumber")
	retryable := numbered && c.session != nil && c.session.state == none
	if retryable && c.session.answer != nil {
		return append(bson.D(nil), c.session.answer...), nil // it was done before
	}
	out, err = spec.run(c)
	if err != nil && c.txn != nil {
		c.e.abort(c.txn)
	}
	if err == nil && retryable && c.wrote {
		c.session.answer = append(bson.D(nil), out...)
	}
	return out, err
}

// settle runs one statement, and again after each transaction that it has to
// wait for. Only statements outside transactions wait.
func (c *call) settle(statement func() *cmdError) *cmdError {
	for {
		err := statement()
		if err != errWait {
			return err
		}
		if err := c.e.wait(c.ctx); err != nil {
			return err
		}
	}
}

// get returns the value at key, nil if there is none.
func get(d bson.D, key string) any {
	v, _ := d.Get(key)
	return v
}
