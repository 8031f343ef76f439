package mongotest

import (
	"context"
	"sort"
	"sync"
	"time"

	"github.com/slipway-project/slipway/store/mongo/bson"
)

// window is how many commits back a snapshot outside a transaction may lie.
const window = 256

// engine is the memory of the replica set: documents in versions, transactions
// on them, and the log of operations.
type engine struct {
	mu       sync.Mutex
	freed    sync.Cond // a transaction has ended
	lifetime time.Duration
	seq      int64 // of the latest commit
	base     int64 // makes a cluster time out of a sequence number
	colls    map[string]*collection
	txns     map[*txn]bool
	sessions map[string]*session
	removed  []write // deletions whose records are not yet forgotten
	log      oplog
}

// collection holds the records of one namespace, ordered by id.
type collection struct {
	ns      string
	byID    map[string]*record
	sorted  []*record
	indexes []index
}

// record is one id and its versions, oldest first.
type record struct {
	id       any
	versions []version
	pending  *version // what owner has written
	owner    *txn
}

// version is a document as one commit left it; without a document, removed.
type version struct {
	seq int64
	doc bson.D
	raw bson.Raw
}

// txn is a transaction that is under way.
type txn struct {
	snapshot int64
	begun    time.Time
	writes   []write
	session  *session
}

// write is one change of a transaction, in order.
type write struct {
	coll *collection
	rec  *record
	op   string // insert, update, replace, delete
	desc bson.D // of an update
	ver  version
}

func newEngine(history int, lifetime time.Duration) *engine {
	e := &engine{
		base:     time.Now().Unix() << 32,
		lifetime: lifetime,
		colls:    map[string]*collection{}, txns: map[*txn]bool{}, sessions: map[string]*session{},
	}
	e.freed.L = &e.mu
	e.log.init(history)
	return e
}

// clusterTime is the server's time of a commit.
func (e *engine) clusterTime(seq int64) bson.Timestamp { return bson.Timestamp(e.base + seq) }

// idKey is a map key that is the same for ids that are equal.
func idKey(id any) string {
	if s, ok := id.(string); ok {
		return "s" + s
	}
	if n, ok := id.(float64); ok && n == float64(int64(n)) {
		id = int64(n)
	}
	if n, ok := bson.Integer(id); ok {
		id = n
	}
	return "v" + string(bson.Marshal(bson.New("", id)))
}

// coll returns a collection, made if create is set, else nil if there is none.
func (e *engine) coll(ns string, create bool) *collection {
	c := e.colls[ns]
	if c == nil && create {
		c = &collection{ns: ns, byID: map[string]*record{}}
		e.colls[ns] = c
	}
	return c
}

// place returns where id is in sorted, or belongs.
func (c *collection) place(id any) int {
	return sort.Search(len(c.sorted), func(i int) bool { return bson.Compare(c.sorted[i].id, id) >= 0 })
}

// record returns the record of an id, made if it is missing.
func (c *collection) record(id any) *record {
	k := idKey(id)
	if r := c.byID[k]; r != nil {
		return r
	}
	r := &record{id: id}
	c.byID[k] = r
	i := len(c.sorted)
	if i > 0 && bson.Compare(c.sorted[i-1].id, id) > 0 {
		i = c.place(id)
	}
	c.sorted = append(c.sorted, nil)
	copy(c.sorted[i+1:], c.sorted[i:])
	c.sorted[i] = r
	return r
}

// drop forgets a record that holds nothing.
func (c *collection) drop(r *record) {
	delete(c.byID, idKey(r.id))
	i := c.place(r.id)
	c.sorted = append(c.sorted[:i], c.sorted[i+1:]...)
}

// latest returns what the last commit left.
func (r *record) latest() version {
	if n := len(r.versions); n > 0 {
		return r.versions[n-1]
	}
	return version{}
}

// at returns what a reader sees: t its own writes, else the state after commit
// seq.
func (r *record) at(t *txn, seq int64) version {
	if t != nil && r.owner == t {
		return *r.pending
	}
	for i := len(r.versions) - 1; i >= 0; i-- {
		if r.versions[i].seq <= seq {
			return r.versions[i]
		}
	}
	return version{}
}

// errWait says that a writer outside transactions has to wait for one.
var errWait = failf(0, "wait for a transaction")

// claim makes r writable for t, nil meaning a writer outside transactions.
func (e *engine) claim(r *record, t *txn) *cmdError {
	if r.owner != nil && r.owner != t && time.Since(r.owner.begun) > e.lifetime {
		e.abort(r.owner)
	}
	switch {
	case r.owner != nil && r.owner != t && t == nil:
		return errWait
	case r.owner != nil && r.owner != t, t != nil && r.latest().seq > t.snapshot:
		return failf(codeWriteConflict, "WriteConflict error: this operation conflicted with another operation. "+
			"Please retry your operation or multi-document transaction.")
	}
	return nil
}

// put writes a version: at once outside transactions, else with the commit.
func (e *engine) put(c *collection, r *record, t *txn, op string, doc, desc bson.D) *cmdError {
	if err := e.claim(r, t); err != nil {
		return err
	}
	w := write{coll: c, rec: r, op: op, desc: desc, ver: version{doc: doc}}
	if doc != nil {
		w.ver.raw = bson.Marshal(doc)
		if len(w.ver.raw) > 16<<20 {
			return failf(codeTooLarge, "document of %d bytes is larger than the maximum 16777216", len(w.ver.raw))
		}
	}
	if t == nil {
		e.seq++
		e.apply(w, nil)
		e.log.publish()
		return nil
	}
	r.owner, r.pending = t, &w.ver
	t.writes = append(t.writes, w)
	c.indexAdd(r, doc)
	return nil
}

// apply makes a write the latest version of its record.
func (e *engine) apply(w write, s *session) {
	w.ver.seq = e.seq
	w.rec.versions = append(w.rec.versions, w.ver)
	w.coll.indexAdd(w.rec, w.ver.doc)
	if w.ver.doc == nil {
		e.removed = append(e.removed, w)
	}
	e.prune(w.coll, w.rec)
	e.log.add(change{seq: e.seq, op: w.op, ns: w.coll.ns, id: w.rec.id, doc: w.ver.doc, desc: w.desc, session: s})
}

// oldest returns the earliest commit that a reader can still ask for.
func (e *engine) oldest() int64 {
	oldest := e.seq - window
	for t := range e.txns {
		oldest = min(oldest, t.snapshot)
	}
	return oldest
}

// prune drops the versions of r, and the removed documents, that no reader can
// ask for any more.
func (e *engine) prune(c *collection, r *record) {
	oldest := e.oldest()
	for len(e.removed) > 0 && e.removed[0].ver.seq <= oldest {
		w := e.removed[0]
		e.removed = e.removed[1:]
		if w.rec.owner == nil && w.rec.latest().doc == nil && w.coll.byID[idKey(w.rec.id)] == w.rec {
			for _, v := range w.rec.versions {
				w.coll.indexRemove(w.rec, v.doc)
			}
			w.coll.drop(w.rec)
		}
	}
	keep := 0
	for i := range r.versions {
		if r.versions[i].seq <= oldest {
			keep = i
		}
	}
	if keep < 32 { // in batches: dropping copies the rest
		return
	}
	for _, v := range r.versions[:keep] {
		c.indexRemove(r, v.doc)
	}
	r.versions = append([]version(nil), r.versions[keep:]...)
}

func (e *engine) begin(s *session) *txn {
	t := &txn{snapshot: e.seq, begun: time.Now(), session: s}
	e.txns[t] = true
	return t
}

// commit makes all writes of t visible at once.
func (e *engine) commit(t *txn) {
	if len(t.writes) > 0 {
		e.seq++
	}
	for _, w := range t.writes {
		w.rec.owner, w.rec.pending = nil, nil
	}
	delete(e.txns, t)
	for _, w := range t.writes {
		w.coll.indexRemove(w.rec, w.ver.doc) // apply adds it again
		e.apply(w, t.session)
	}
	t.session.state = committed
	e.log.publish()
	e.freed.Broadcast()
}

// abort forgets all writes of t.
func (e *engine) abort(t *txn) {
	if !e.txns[t] {
		return
	}
	delete(e.txns, t)
	for _, w := range t.writes {
		w.coll.indexRemove(w.rec, w.ver.doc)
		if w.rec.owner != t {
			continue
		}
		w.rec.owner, w.rec.pending = nil, nil
		if len(w.rec.versions) == 0 {
			w.coll.drop(w.rec)
		}
	}
	t.session.state = aborted
	t.session.txn = nil
	e.freed.Broadcast()
}

// abortAll ends all transactions, as an election does.
func (e *engine) abortAll() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for t := range e.txns {
		e.abort(t)
	}
}

// wait waits until a transaction has ended. The caller holds e.mu.
func (e *engine) wait(ctx context.Context) *cmdError {
	stop := context.AfterFunc(ctx, func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.freed.Broadcast()
	})
	defer stop()
	if ctx.Err() == nil {
		e.freed.Wait()
	}
	if ctx.Err() != nil {
		return failf(codeMaxTimeExpired, "operation exceeded time limit")
	}
	return nil
}

// index is a declared index; only single values and array elements of its
// first field are looked up by it.
type index struct {
	spec    bson.D
	field   string
	records map[string]map[*record]int // by value; how many versions hold it
}

// addIndex declares an index and fills it.
func (c *collection) addIndex(spec bson.D, field string) {
	c.indexes = append(c.indexes, index{spec, field, map[string]map[*record]int{}})
	last := c.indexes[len(c.indexes)-1:]
	for _, r := range c.sorted {
		for _, v := range r.versions {
			each(last, v.doc, func(ix *index, k string) { ix.add(k, r) })
		}
	}
}

func (ix *index) add(k string, r *record) {
	if ix.records[k] == nil {
		ix.records[k] = map[*record]int{}
	}
	ix.records[k][r]++
}

// each calls f for each index and each value that doc has in it.
func each(indexes []index, doc bson.D, f func(ix *index, k string)) {
	for i := range indexes {
		v, ok := doc.Get(indexes[i].field)
		if !ok {
			continue
		}
		if a, isArray := v.(bson.A); isArray {
			for _, x := range a {
				f(&indexes[i], idKey(x))
			}
			continue
		}
		f(&indexes[i], idKey(v))
	}
}

func (c *collection) indexAdd(r *record, doc bson.D) {
	each(c.indexes, doc, func(ix *index, k string) { ix.add(k, r) })
}

func (c *collection) indexRemove(r *record, doc bson.D) {
	each(c.indexes, doc, func(ix *index, k string) {
		if ix.records[k][r]--; ix.records[k][r] <= 0 {
			delete(ix.records[k], r)
		}
	})
}
