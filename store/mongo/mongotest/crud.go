package mongotest

import (
	"iter"
	"maps"
	"slices"
	"sort"
	"strings"

	"github.com/slipway-project/slipway/store/mongo/bson"
)

// maxBatch is how many bytes of documents a batch holds.
const maxBatch = 16 << 20

// found is a document that a query has found.
type found struct {
	rec *record
	ver version
}

// query finds the documents of coll that match filter, in the order of their
// ids, at most limit if that is not zero. coll may be nil.
func (c *call) query(coll *collection, filter bson.D, seq int64, limit int) ([]found, *cmdError) {
	if coll == nil {
		return nil, nil
	}
	m, err := compile(filter)
	if err != nil {
		return nil, err
	}
	var out []found
	for r := range coll.candidates(filter) {
		v := r.at(c.txn, seq)
		if v.doc != nil && m(v.doc) {
			if out = append(out, found{r, v}); len(out) == limit {
				break
			}
		}
	}
	return out, nil
}

// candidates yields, in the order of their ids, records among which all that
// match filter are.
func (c *collection) candidates(filter bson.D) iter.Seq[*record] {
	lo, hi := 0, len(c.sorted)
	var set map[*record]int // what an index says, if one helps
	indexed := false
	for _, e := range filter {
		ops, isOps := e.V.(bson.D)
		isOps = isOps && len(ops) > 0 && strings.HasPrefix(ops[0].K, "$")
		switch {
		case e.K != "_id" && !isOps && !indexed:
			set, indexed = c.byIndex(e.K, e.V)
		case e.K == "_id" && !isOps:
			return slices.Values(c.byIDs(e.V))
		case e.K == "_id":
			for _, op := range ops {
				switch op.K {
				case "$in":
					ids, _ := op.V.(bson.A)
					return slices.Values(c.byIDs(ids...))
				case "$gt", "$gte":
					lo = max(lo, c.place(op.V))
				case "$lt", "$lte":
					end := c.place(op.V)
					if op.K == "$lte" && end < len(c.sorted) {
						end++
					}
					hi = min(hi, end)
				}
			}
		}
	}
	if lo >= hi {
		return slices.Values[[]*record](nil)
	}
	if !indexed {
		return slices.Values(c.sorted[lo:hi])
	}
	if len(set)*8 < hi-lo { // sorting few is cheaper than passing many by
		out := slices.Collect(maps.Keys(set))
		sortByID(out)
		return slices.Values(out)
	}
	return func(yield func(*record) bool) {
		for _, r := range c.sorted[lo:hi] {
			if set[r] > 0 && !yield(r) {
				return
			}
		}
	}
}

func (c *collection) byIDs(ids ...any) []*record {
	var out []*record
	seen := map[*record]bool{}
	for _, id := range ids {
		if r := c.byID[idKey(id)]; r != nil && !seen[r] {
			seen[r] = true
			out = append(out, r)
		}
	}
	sortByID(out)
	return out
}

// byIndex returns the records that an index has for a value, and whether there
// is an index on the field.
func (c *collection) byIndex(field string, v any) (map[*record]int, bool) {
	for i := range c.indexes {
		if c.indexes[i].field == field && v != nil {
			return c.indexes[i].records[idKey(v)], true
		}
	}
	return nil, false
}

func sortByID(rs []*record) {
	sort.Slice(rs, func(i, j int) bool { return bson.Compare(rs[i].id, rs[j].id) < 0 })
}

// sortDocs orders documents as a sort specification says.
func sortDocs(docs []bson.D, spec bson.D) *cmdError {
	for _, e := range spec {
		if n, ok := bson.Integer(e.V); !ok || n != 1 && n != -1 {
			return failf(codeBadValue, "sort order of '%s'", e.K)
		}
	}
	sort.SliceStable(docs, func(i, j int) bool {
		for _, e := range spec {
			a, _ := lookup(docs[i], e.K)
			b, _ := lookup(docs[j], e.K)
			n, _ := bson.Integer(e.V)
			if c := bson.Compare(a, b) * int(n); c != 0 {
				return c < 0
			}
		}
		return false
	})
	return nil
}

// number returns an optional number of the command.
func (c *call) number(key string) int {
	v := get(c.cmd, key)
	n, ok := bson.Integer(v)
	if !ok {
		n = int64(bson.Float(v))
	}
	return int(n)
}

func find(c *call) (bson.D, *cmdError) {
	ns, err := c.namespace()
	if err != nil {
		return nil, err
	}
	seq, snapshot, err := c.snapshotOf()
	if err != nil {
		return nil, err
	}
	filter, _ := get(c.cmd, "filter").(bson.D)
	order, _ := get(c.cmd, "sort").(bson.D)
	byID := len(order) == 0 || order[0].K == "_id" && bson.Compare(order[0].V, int64(1)) == 0
	enough := 0
	if limit := c.number("limit"); byID && limit > 0 {
		enough = limit + c.number("skip")
	}
	hits, err := c.query(c.e.coll(ns, false), filter, seq, enough)
	if err != nil {
		return nil, err
	}
	projection, _ := get(c.cmd, "projection").(bson.D)
	docs := make([]bson.D, len(hits))
	raws := make([]bson.Raw, len(hits))
	for i, h := range hits {
		docs[i], raws[i] = h.ver.doc, h.ver.raw
	}
	// Hits come in the order of ids already.
	if !byID {
		if err := sortDocs(docs, order); err != nil {
			return nil, err
		}
		for i, d := range docs {
			raws[i] = bson.Marshal(d)
		}
	}
	skip := min(c.number("skip"), len(raws))
	docs, raws = docs[skip:], raws[skip:]
	if limit := c.number("limit"); limit > 0 && limit < len(raws) {
		docs, raws = docs[:limit], raws[:limit]
	}
	if len(projection) > 0 {
		for i := range raws {
			d, err := project(docs[i], projection)
			if err != nil {
				return nil, err
			}
			raws[i] = bson.Marshal(d)
		}
	}
	out := c.open(ns, raws)
	if snapshot {
		cur := out[0].V.(bson.D)
		out[0].V = append(cur, bson.E{K: "atClusterTime", V: c.e.clusterTime(seq)})
	}
	return out, nil
}

// open answers with the first batch of docs and a cursor on the rest.
func (c *call) open(ns string, docs []bson.Raw) bson.D {
	size := 101
	if _, ok := c.cmd.Get("batchSize"); ok {
		size = c.number("batchSize")
	} else if cur, ok := get(c.cmd, "cursor").(bson.D); ok {
		if v, ok := cur.Get("batchSize"); ok {
			n, _ := bson.Integer(v)
			size = int(n)
		}
	}
	cur := &cursor{ns: ns, docs: docs}
	batch := cur.take(size)
	id := int64(0)
	if single, _ := get(c.cmd, "singleBatch").(bool); len(cur.docs) > 0 && !single {
		id = c.server.addCursor(cur)
	}
	return bson.New("cursor", bson.New("firstBatch", batch, "id", id, "ns", ns))
}

func count(c *call) (bson.D, *cmdError) {
	ns, err := c.namespace()
	if err != nil {
		return nil, err
	}
	filter, _ := get(c.cmd, "query").(bson.D)
	hits, err := c.query(c.e.coll(ns, false), filter, c.e.seq, 0)
	return bson.New("n", int32(len(hits))), err
}

// statements runs f for each statement of a write command and gathers what
// fails. In a transaction the first failure ends everything.
func (c *call) statements(list bson.A, f func(i int, st bson.D) *cmdError) (bson.A, *cmdError) {
	failures := bson.A{}
	ordered := get(c.cmd, "ordered") != false
	for i, v := range list {
		st, ok := v.(bson.D)
		if !ok {
			return nil, failf(codeBadValue, "statement %d of %s is no document", i, c.name)
		}
		err := c.settle(func() *cmdError { return f(i, st) })
		if err == nil {
			continue
		}
		if c.txn != nil && err.code != codeDuplicateKey {
			return nil, err
		}
		failures = append(failures, bson.New("index", int32(i), "code", int32(err.code), "errmsg", err.msg))
		if c.txn != nil {
			c.e.abort(c.txn)
		}
		if ordered || c.txn != nil {
			break
		}
	}
	return failures, nil
}

// result is the answer of a write command.
func result(n int, failures bson.A, more ...any) bson.D {
	d := append(bson.New("n", int32(n)), bson.New(more...)...)
	if len(failures) > 0 {
		d = append(d, bson.E{K: "writeErrors", V: failures})
	}
	return d
}

func insert(c *call) (bson.D, *cmdError) {
	ns, err := c.namespace()
	if err != nil {
		return nil, err
	}
	docs, _ := get(c.cmd, "documents").(bson.A)
	coll := c.e.coll(ns, true)
	n := 0
	failures, err := c.statements(docs, func(_ int, doc bson.D) *cmdError {
		err := c.insertOne(coll, doc)
		if err == nil {
			n++
		}
		return err
	})
	return result(n, failures), err
}

// insertOne inserts a document, whose id must be new.
func (c *call) insertOne(coll *collection, doc bson.D) *cmdError {
	id, ok := doc.Get("_id")
	if !ok {
		return failf(codeNotImplemented, "the double wants an _id from the client")
	}
	if doc[0].K != "_id" { // it is stored first
		doc = append(bson.New("_id", id), doc.Without("_id")...)
	}
	rec := coll.record(id)
	snapshot := c.e.seq
	if c.txn != nil {
		snapshot = c.txn.snapshot
	}
	if rec.at(c.txn, snapshot).doc != nil {
		return failf(codeDuplicateKey, "E11000 duplicate key error collection: %s index: _id_ dup key: { _id: %v }", coll.ns, id)
	}
	err := c.e.put(coll, rec, c.txn, "insert", doc, nil)
	if err == nil {
		c.wrote = true
	} else if len(rec.versions) == 0 && rec.owner == nil {
		coll.drop(rec)
	}
	return err
}

func update(c *call) (bson.D, *cmdError) {
	ns, err := c.namespace()
	if err != nil {
		return nil, err
	}
	list, _ := get(c.cmd, "updates").(bson.A)
	coll := c.e.coll(ns, true)
	matched, modified := 0, 0
	upserted := bson.A{}
	failures, err := c.statements(list, func(i int, st bson.D) *cmdError {
		q, _ := get(st, "q").(bson.D)
		u, isDoc := get(st, "u").(bson.D)
		if !isDoc {
			return failf(codeNotImplemented, "the double knows no update by a pipeline")
		}
		multi, upsert := get(st, "multi") == true, get(st, "upsert") == true
		hits, err := c.query(coll, q, c.reading(), 0)
		if err != nil {
			return err
		}
		if len(hits) == 0 && upsert {
			doc, err := upsertDoc(q, u)
			if err != nil {
				return err
			}
			if err := c.insertOne(coll, doc); err != nil {
				return err
			}
			matched++
			upserted = append(upserted, bson.New("index", int32(i), "_id", get(doc, "_id")))
			return nil
		}
		if !multi && len(hits) > 1 {
			hits = hits[:1]
		}
		if err := c.claimAll(hits); err != nil {
			return err
		}
		for _, h := range hits {
			changed, _, err := c.change(coll, h, u)
			if err != nil {
				return err
			}
			matched++
			if changed {
				modified++
			}
		}
		return nil
	})
	out := result(matched, failures, "nModified", int32(modified))
	if len(upserted) > 0 {
		out = append(out, bson.E{K: "upserted", V: upserted})
	}
	return out, err
}

// claimAll makes sure that a statement does not have to wait half-way.
func (c *call) claimAll(hits []found) *cmdError {
	for _, h := range hits {
		if err := c.e.claim(h.rec, c.txn); err != nil {
			return err
		}
	}
	return nil
}

// reading is the commit whose state a write's filter sees.
func (c *call) reading() int64 {
	if c.txn != nil {
		return c.txn.snapshot
	}
	return c.e.seq
}

// change applies an update to a document and returns the new one.
func (c *call) change(coll *collection, h found, u bson.D) (bool, bson.D, *cmdError) {
	doc, desc, err := updated(h.ver.doc, u)
	if err != nil {
		return false, nil, err
	}
	if bson.Compare(doc, h.ver.doc) == 0 {
		return false, doc, nil // writes nothing, like MongoDB
	}
	op := "replace"
	if desc != nil {
		op = "update"
	}
	if err := c.e.put(coll, h.rec, c.txn, op, doc, desc); err != nil {
		return false, nil, err
	}
	c.wrote = true
	return true, doc, nil
}

func remove(c *call) (bson.D, *cmdError) {
	ns, err := c.namespace()
	if err != nil {
		return nil, err
	}
	list, _ := get(c.cmd, "deletes").(bson.A)
	coll := c.e.coll(ns, true)
	n := 0
	failures, err := c.statements(list, func(_ int, st bson.D) *cmdError {
		q, _ := get(st, "q").(bson.D)
		hits, err := c.query(coll, q, c.reading(), 0)
		if err != nil {
			return err
		}
		if limit, _ := bson.Integer(get(st, "limit")); limit == 1 && len(hits) > 1 {
			hits = hits[:1]
		}
		if err := c.claimAll(hits); err != nil {
			return err
		}
		for _, h := range hits {
			if err := c.e.put(coll, h.rec, c.txn, "delete", nil, nil); err != nil {
				return err
			}
			c.wrote = true
			n++
		}
		return nil
	})
	return result(n, failures), err
}

func findAndModify(c *call) (bson.D, *cmdError) {
	ns, err := c.namespace()
	if err != nil {
		return nil, err
	}
	q, _ := get(c.cmd, "query").(bson.D)
	u, isUpdate := get(c.cmd, "update").(bson.D)
	if _, ok := c.cmd.Get("sort"); ok || !isUpdate {
		return nil, failf(codeNotImplemented, "the double's findAndModify only updates, and does not sort")
	}
	coll := c.e.coll(ns, true)
	var out bson.D
	err = c.settle(func() *cmdError {
		hits, err := c.query(coll, q, c.reading(), 0)
		if err != nil {
			return err
		}
		var before, after any
		existing := len(hits) > 0
		info := bson.New("n", int32(0), "updatedExisting", existing)
		switch {
		case existing:
			before = hits[0].ver.doc
			_, doc, err := c.change(coll, hits[0], u)
			if err != nil {
				return err
			}
			after = doc
			info[0].V = int32(1)
		case get(c.cmd, "upsert") == true:
			doc, err := upsertDoc(q, u)
			if err != nil {
				return err
			}
			if err := c.insertOne(coll, doc); err != nil {
				return err
			}
			after = doc
			info[0].V = int32(1)
			info = append(info, bson.E{K: "upserted", V: get(doc, "_id")})
		}
		if get(c.cmd, "new") == true {
			before = after
		}
		out = bson.New("lastErrorObject", info, "value", before)
		return nil
	})
	return out, err
}
