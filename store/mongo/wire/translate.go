package wire

import (
	"strings"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/store/mongo/bson"
)

// kind says how an answer is turned back.
type kind byte

const (
	kindCommand kind = iota // the document as it is
	kindHello               // likewise; answered from memory when just asked
	kindFind                // a legacy find: documents out of cursor.firstBatch
	kindGetMore             // a legacy getMore: documents out of cursor.nextBatch
	kindSilent              // mgo waits for no answer
)

// request is what one legacy operation becomes.
type request struct {
	kind   kind
	id     uint32 // mgo's id of the operation
	msg    Msg
	write  bool
	cursor int64  // that a getMore reads on
	answer []byte // given without asking the server
}

// bigBody is the size in bytes from which the documents of a write travel
// beside the command: the command itself must stay below MaxDocument.
const bigBody = 8 << 20

// writes are the commands that change data or indexes, with the array, if any,
// that may travel beside the command.
var writes = map[string]string{
	"insert": "documents", "update": "updates", "delete": "deletes",
	"findAndModify": "", "findandmodify": "", "createIndexes": "", "dropIndexes": "", "create": "", "drop": "",
	"dropDatabase": "", "renameCollection": "", "collMod": "",
}

// reads are the commands that a secondary may answer.
var reads = map[string]bool{
	"find": true, "aggregate": true, "count": true, "distinct": true, "listCollections": true, "listIndexes": true,
	"listDatabases": true, "collStats": true, "dbStats": true, "explain": true,
}

// translate turns one legacy message into requests. closeCursor forgets a
// cursor and returns its namespace, "" if unknown.
func translate(m Message, closeCursor func(id int64) string) ([]request, error) {
	switch m.Op {
	case OpQuery:
		q, err := ParseQuery(m.Body)
		if err != nil {
			return nil, err
		}
		db, coll, _ := strings.Cut(q.Namespace, ".")
		if err := q.Query.Validate(); err != nil {
			return nil, err
		}
		if coll == "$cmd" {
			r, err := command(m.ID, db, q)
			return []request{r}, err
		}
		return []request{find(m.ID, db, coll, q)}, nil
	case OpGetMore:
		r, err := getMore(m)
		return []request{r}, err
	case OpKillCursors:
		return killCursors(m, closeCursor)
	}
	return nil, errors.NotSupportedf("legacy operation %d", m.Op)
}

// command translates an OP_QUERY on the collection $cmd.
func command(id uint32, db string, q Query) (request, error) {
	doc, pref := q.Query, bson.Raw(nil)
	first, ok := doc.First()
	if first.Key == "$query" || first.Key == "query" { // a wrapper around the command
		inner, isDoc := first.Doc()
		if !isDoc {
			return request{}, errors.NotValidf("query wrapper")
		}
		if e, found := doc.Lookup("$readPreference"); found {
			pref, _ = e.Doc()
		}
		doc = inner
		first, ok = doc.First()
	}
	if !ok {
		return request{}, errors.NotValidf("empty command")
	}
	r := request{kind: kindCommand, id: id}
	switch strings.ToLower(first.Key) {
	case "getnonce": // mgo asks on each new connection, new servers do not know it
		nonce := bson.Build().Str("nonce", "0000000000000000").Double("ok", 1).End()
		r.answer = AppendReply(nil, id, replyAwaitCapable, 0, nonce)
		return r, nil
	case "ismaster":
		r.kind = kindHello
	case "getmore":
		r.cursor, _ = first.Int()
	}
	array, write := writes[first.Key]
	r.write = write
	if write {
		doc = withoutLegacy(first.Key, doc)
	}
	if array != "" && len(doc) > bigBody {
		doc, r.msg.Sequences = split(doc, array)
	}
	b := bson.Extend(doc).Str("$db", db)
	switch {
	case pref != nil && reads[first.Key]:
		b.Doc("$readPreference", pref)
	case q.Flags&querySlaveOk != 0 && reads[first.Key]:
		b.Doc("$readPreference", bson.Build().Str("mode", "secondaryPreferred").End())
	}
	r.msg.Body = b.End()
	return r, nil
}

// withoutLegacy drops what servers of today refuse in a write command.
func withoutLegacy(name string, doc bson.Raw) bson.Raw {
	_, concern := doc.Lookup("writeConcern")
	if !concern && name != "createIndexes" {
		return doc
	}
	b := bson.Build()
	_ = doc.Each(func(e bson.Element) bool {
		in, isDoc := e.Doc()
		switch {
		case e.Key == "writeConcern" && isDoc:
			if w := without(in, "getLastError", "getlasterror"); len(w) > 5 { // 5: an empty document
				b.Doc(e.Key, w)
			}
		case e.Key == "indexes" && e.Type == bson.TypeArray && isDoc:
			var specs []bson.Raw
			_ = in.Each(func(e bson.Element) bool {
				spec, _ := e.Doc()
				specs = append(specs, without(spec, "ns", "dropDups"))
				return true
			})
			b.Docs(e.Key, specs)
		default:
			b.Element(e.Type, e.Key, e.Value)
		}
		return true
	})
	return b.End()
}

// without returns a copy of doc that lacks some keys.
func without(doc bson.Raw, keys ...string) bson.Raw {
	b := bson.Build()
	_ = doc.Each(func(e bson.Element) bool {
		for _, k := range keys {
			if e.Key == k {
				return true
			}
		}
		b.Element(e.Type, e.Key, e.Value)
		return true
	})
	return b.End()
}

// split takes an array of documents out of a command.
func split(doc bson.Raw, array string) (bson.Raw, []Sequence) {
	s := Sequence{Field: array}
	b := bson.Build()
	_ = doc.Each(func(e bson.Element) bool {
		in, isDoc := e.Doc()
		if e.Key != array || !isDoc {
			b.Element(e.Type, e.Key, e.Value)
			return true
		}
		_ = in.Each(func(e bson.Element) bool {
			if d, ok := e.Doc(); ok {
				s.Docs = append(s.Docs, d)
			}
			return true
		})
		return true
	})
	return b.End(), []Sequence{s}
}

// find translates an OP_QUERY on a collection of data.
func find(id uint32, db, coll string, q Query) request {
	b := bson.Build().Str("find", coll)
	var pref bson.Raw
	if first, _ := q.Query.First(); first.Key == "$query" || first.Key == "query" {
		_ = q.Query.Each(func(e bson.Element) bool {
			switch name := strings.TrimPrefix(e.Key, "$"); name {
			case "query":
				b.Element(e.Type, "filter", e.Value)
			case "orderby":
				b.Element(e.Type, "sort", e.Value)
			case "readPreference":
				pref, _ = e.Doc()
			case "hint", "maxTimeMS", "comment", "min", "max":
				b.Element(e.Type, name, e.Value)
			}
			return true
		})
	} else {
		b.Doc("filter", q.Query)
	}
	if len(q.Fields) > 5 { // 5: an empty document
		b.Doc("projection", q.Fields)
	}
	if q.Skip > 0 {
		b.Int32("skip", q.Skip)
	}
	switch {
	case q.Limit == 1 || q.Limit < 0: // a single batch, then the cursor is closed
		b.Int32("limit", max(q.Limit, -q.Limit)).Bool("singleBatch", true)
	case q.Limit > 0:
		b.Int32("batchSize", q.Limit)
	}
	for _, f := range []struct {
		bit  uint32
		name string
	}{{queryTailable, "tailable"}, {queryNoCursorTimeout, "noCursorTimeout"}, {queryAwaitData, "awaitData"}, {queryPartial, "allowPartialResults"}} {
		if q.Flags&f.bit != 0 {
			b.Bool(f.name, true)
		}
	}
	b.Str("$db", db)
	switch {
	case pref != nil:
		b.Doc("$readPreference", pref)
	case q.Flags&querySlaveOk != 0:
		b.Doc("$readPreference", bson.Build().Str("mode", "secondaryPreferred").End())
	}
	return request{kind: kindFind, id: id, msg: Msg{Body: b.End()}}
}

// getMore translates an OP_GET_MORE.
func getMore(m Message) (request, error) {
	if len(m.Body) < 4 {
		return request{}, errors.NotValidf("OP_GET_MORE")
	}
	ns, rest, err := cstring(m.Body[4:])
	if err != nil || len(rest) < 12 {
		return request{}, errors.NotValidf("OP_GET_MORE")
	}
	db, coll, _ := strings.Cut(ns, ".")
	cursor := int64(le.Uint64(rest[4:]))
	b := bson.Build().Int64("getMore", cursor).Str("collection", coll)
	if n := int32(le.Uint32(rest)); n > 0 {
		b.Int32("batchSize", n)
	}
	return request{kind: kindGetMore, id: m.ID, cursor: cursor, msg: Msg{Body: b.Str("$db", db).End()}}, nil
}

// killCursors translates an OP_KILL_CURSORS, which carries no namespace, to
// one command for each cursor that is known. mgo waits for no answer.
func killCursors(m Message, closeCursor func(int64) string) ([]request, error) {
	if len(m.Body) < 8 || uint64(len(m.Body)-8) < 8*uint64(le.Uint32(m.Body[4:])) {
		return nil, errors.NotValidf("OP_KILL_CURSORS")
	}
	var out []request
	for i := range int(le.Uint32(m.Body[4:])) {
		id := int64(le.Uint64(m.Body[8+8*i:]))
		db, coll, ok := strings.Cut(closeCursor(id), ".")
		if !ok {
			continue
		}
		body := bson.Build().Str("killCursors", coll).Int64s("cursors", id).Str("$db", db).End()
		out = append(out, request{kind: kindSilent, msg: Msg{Body: body}})
	}
	return out, nil
}
