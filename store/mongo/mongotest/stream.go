package mongotest

import (
	"context"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"github.com/slipway-project/slipway/store/mongo/bson"
)

// change is one entry of the log of operations.
type change struct {
	seq     int64
	part    int // place within the commit
	op      string
	ns      string
	id      any
	doc     bson.D
	desc    bson.D
	session *session
}

// place is a position in the log: after part of commit seq.
type place struct {
	seq  int64
	part int
}

func (p place) before(q place) bool { return p.seq < q.seq || p.seq == q.seq && p.part < q.part }

// oplog is the log of operations. The engine's lock guards it.
type oplog struct {
	limit   int
	entries []change
	lost    place         // the latest entry that is no longer kept
	grown   chan struct{} // closed when entries have been added
}

func (l *oplog) init(limit int) {
	l.limit = limit
	l.grown = make(chan struct{})
}

// add appends a change; publish wakes those who wait.
func (l *oplog) add(c change) {
	if n := len(l.entries); n > 0 && l.entries[n-1].seq == c.seq {
		c.part = l.entries[n-1].part + 1
	}
	l.entries = append(l.entries, c)
	if len(l.entries) > 2*l.limit { // in batches: dropping copies the rest
		l.trim(l.limit)
	}
}

func (l *oplog) trim(keep int) {
	cut := len(l.entries) - keep
	if cut <= 0 {
		return
	}
	l.lost = place{l.entries[cut-1].seq, l.entries[cut-1].part}
	l.entries = append([]change(nil), l.entries[cut:]...)
}

func (l *oplog) publish() {
	close(l.grown)
	l.grown = make(chan struct{})
}

func (e *engine) dropHistory() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.log.trim(0)
	if p := (place{e.seq, 1 << 30}); e.log.lost.before(p) {
		e.log.lost = p
	}
	e.log.publish()
}

// after returns the entries after a position.
func (l *oplog) after(p place) []change {
	lo, hi := 0, len(l.entries)
	for lo < hi {
		mid := (lo + hi) / 2
		if e := l.entries[mid]; p.before(place{e.seq, e.part}) {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	return l.entries[lo:]
}

// token is the resume token of a position: opaque hexadecimal text.
func token(p place) bson.D {
	return bson.New("_data", hex.EncodeToString(fmt.Appendf(nil, "%016x%08x", p.seq, p.part)))
}

func parseToken(v any) (place, *cmdError) {
	d, _ := v.(bson.D)
	text, _ := get(d, "_data").(string)
	raw, err := hex.DecodeString(text)
	var p place
	if err == nil {
		_, err = fmt.Sscanf(string(raw), "%016x%08x", &p.seq, &p.part)
	}
	if err != nil || len(raw) != 24 {
		return place{}, failf(codeResumeToken, "resume token cannot be read")
	}
	return p, nil
}

// cursor is what a client reads on with getMore: documents, or a change stream.
type cursor struct {
	ns   string
	docs []bson.Raw

	stream bool
	scope  string // the namespace, or "db." for a whole database, or "" for all
	at     place
	stages []stage
	lookup bool // updates carry the whole document
	done   bool // after an invalidate event
}

// take returns the next batch.
func (c *cursor) take(size int) bson.A {
	batch, n := bson.A{}, 0
	for len(c.docs) > 0 && len(batch) < size && (n == 0 || n+len(c.docs[0]) <= maxBatch) {
		n += len(c.docs[0])
		batch = append(batch, c.docs[0])
		c.docs = c.docs[1:]
	}
	return batch
}

func (s *Server) addCursor(c *cursor) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cursorSeq++
	id := s.cursorSeq<<20 | 0xcafe // no small number, as real ones
	s.cursors[id] = c
	return id
}

// openStream answers an aggregation that starts with $changeStream.
func (c *call) openStream(ns string, spec bson.D, stages []stage) (bson.D, *cmdError) {
	cur := &cursor{ns: ns, scope: ns, stream: true, stages: stages, at: place{c.e.seq, 1 << 30}}
	if strings.HasSuffix(ns, ".$cmd.aggregate") {
		cur.scope = c.db + "."
	}
	for _, e := range spec {
		var err *cmdError
		switch e.K {
		case "resumeAfter", "startAfter":
			cur.at, err = parseToken(e.V)
		case "startAtOperationTime":
			ts, _ := e.V.(bson.Timestamp)
			cur.at = place{int64(ts) - c.e.base - 1, 1 << 30}
		case "fullDocument":
			cur.lookup = e.V == "updateLookup"
			if e.V != "updateLookup" && e.V != "default" {
				err = failf(codeBadValue, "fullDocument %v", e.V)
			}
		case "showExpandedEvents":
		case "allChangesForCluster":
			cur.scope = ""
		default:
			err = failf(codeNotImplemented, "the double knows no $changeStream option '%s'", e.K)
		}
		if err != nil {
			return nil, err
		}
	}
	if cur.at.before(c.e.log.lost) {
		return nil, historyLost()
	}
	id := c.server.addCursor(cur)
	return bson.New("cursor", bson.New("firstBatch", bson.A{}, "id", id, "ns", ns, "postBatchResumeToken", token(cur.at)),
		"operationTime", c.e.clusterTime(c.e.seq)), nil
}

func historyLost() *cmdError {
	return failf(codeHistoryLost, "Resume of change stream was not possible, as the resume point may no longer be in the oplog.")
}

// events moves the cursor over what has been logged, and returns at most size
// events for it.
func (c *cursor) events(e *engine, size int) (bson.A, *cmdError) {
	if c.at.before(e.log.lost) {
		return nil, historyLost()
	}
	batch, n := bson.A{}, 0
	for _, ch := range e.log.after(c.at) {
		if len(batch) >= size || n > maxBatch || c.done {
			break
		}
		c.at = place{ch.seq, ch.part}
		if !strings.HasPrefix(ch.ns, c.scope) || !strings.HasSuffix(c.scope, ".") && c.scope != "" && ch.ns != c.scope {
			continue
		}
		doc := c.event(e, ch)
		for _, st := range c.stages {
			docs, err := st([]bson.D{doc})
			if err != nil {
				return nil, err
			}
			if doc = nil; len(docs) > 0 {
				doc = docs[0]
			} else {
				break
			}
		}
		if doc != nil {
			raw := bson.Marshal(doc)
			n += len(raw)
			batch = append(batch, raw)
		}
		if ch.op == "dropDatabase" || ch.op == "drop" && ch.ns == c.scope {
			c.done = true
			batch = append(batch, bson.Marshal(bson.New("_id", token(c.at), "operationType", "invalidate",
				"clusterTime", e.clusterTime(ch.seq))))
		}
	}
	return batch, nil
}

// event is a change the way a change stream reports it.
func (c *cursor) event(e *engine, ch change) bson.D {
	db, coll, _ := strings.Cut(ch.ns, ".")
	d := bson.New("_id", token(place{ch.seq, ch.part}), "operationType", ch.op, "clusterTime", e.clusterTime(ch.seq),
		"wallTime", bson.DateTime(time.Now().UnixMilli()))
	if ch.session != nil {
		d = append(d, bson.New("lsid", ch.session.id, "txnNumber", ch.session.number)...)
	}
	switch ch.op {
	case "insert", "replace":
		d = append(d, bson.E{K: "fullDocument", V: ch.doc})
	case "update":
		d = append(d, bson.E{K: "updateDescription", V: ch.desc})
		if c.lookup {
			var now any
			if co := e.coll(ch.ns, false); co != nil {
				if r := co.byID[idKey(ch.id)]; r != nil && r.latest().doc != nil {
					now = r.latest().doc
				}
			}
			d = append(d, bson.E{K: "fullDocument", V: now})
		}
	case "dropDatabase":
		return append(d, bson.E{K: "ns", V: bson.New("db", db)})
	case "drop":
		return append(d, bson.E{K: "ns", V: bson.New("db", db, "coll", coll)})
	}
	return append(d, bson.New("ns", bson.New("db", db, "coll", coll), "documentKey", bson.New("_id", ch.id))...)
}

// getMore reads on. On a change stream it waits for something to report, at
// most maxTimeMS, one second if that is not given.
func getMore(c *call) (bson.D, *cmdError) {
	id, _ := bson.Integer(c.cmd[0].V)
	c.server.mu.Lock()
	cur := c.server.cursors[id]
	c.server.mu.Unlock()
	name, _ := get(c.cmd, "collection").(string)
	if cur == nil || cur.ns != c.db+"."+name {
		return nil, failf(codeCursorNotFound, "cursor id %d not found", id)
	}
	size := 1 << 30
	if _, ok := c.cmd.Get("batchSize"); ok {
		size = c.number("batchSize")
	}
	if cur.stream {
		return c.moreEvents(id, cur, size)
	}
	batch := cur.take(size)
	if len(cur.docs) == 0 {
		c.server.dropCursor(id)
		id = 0
	}
	return bson.New("cursor", bson.New("nextBatch", batch, "id", id, "ns", cur.ns)), nil
}

func (s *Server) dropCursor(id int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.cursors[id]
	delete(s.cursors, id)
	return ok
}

func (c *call) moreEvents(id int64, cur *cursor, size int) (bson.D, *cmdError) {
	wait := time.Second
	if ms := c.number("maxTimeMS"); ms > 0 {
		wait = time.Duration(ms) * time.Millisecond
	}
	ctx, cancel := context.WithTimeout(c.ctx, wait)
	defer cancel()
	for {
		c.e.mu.Lock()
		batch, err := cur.events(c.e, size)
		at, grown := cur.at, c.e.log.grown
		c.e.mu.Unlock()
		if err != nil {
			c.server.dropCursor(id)
			return nil, err
		}
		if len(batch) > 0 || cur.done || ctx.Err() != nil {
			if cur.done {
				c.server.dropCursor(id)
				id = 0
			}
			return bson.New("cursor", bson.New("nextBatch", batch, "id", id, "ns", cur.ns, "postBatchResumeToken", token(at))), nil
		}
		select {
		case <-grown:
		case <-ctx.Done():
		}
	}
}

func killCursors(c *call) (bson.D, *cmdError) {
	list, _ := get(c.cmd, "cursors").(bson.A)
	killed, missing := bson.A{}, bson.A{}
	for _, v := range list {
		id, _ := bson.Integer(v)
		if c.server.dropCursor(id) {
			killed = append(killed, id)
		} else {
			missing = append(missing, id)
		}
	}
	return bson.New("cursorsKilled", killed, "cursorsNotFound", missing, "cursorsAlive", bson.A{}, "cursorsUnknown", bson.A{}), nil
}
