package wire

// Inside the package: the translation proper is not exported.

import (
	"bytes"
	"testing"

	"github.com/slipway-project/slipway/store/mongo/bson"
)

// FuzzFromDriver feeds foreign bytes to the translation toward the server.
func FuzzFromDriver(f *testing.F) {
	cmd := bson.Build().Str("insert", "c").Docs("documents", []bson.Raw{bson.Build().Str("_id", "a").End()}).End()
	wrapped := bson.Build().Doc("$query", cmd).Doc("$orderby", bson.Build().End()).End()
	for _, q := range []Query{
		{Namespace: "db.$cmd", Limit: -1, Query: cmd},
		{Namespace: "db.$cmd", Query: wrapped},
		{Namespace: "db.c", Limit: 5, Query: wrapped, Fields: bson.Build().Int32("a", 1).End()},
		{Namespace: "db.$cmd", Query: bson.Build().Str("createIndexes", "c").Int64s("indexes", 1).End()},
	} {
		f.Add(uint32(OpQuery), AppendQuery(nil, 1, q)[headerLen:])
	}
	f.Add(uint32(OpGetMore), append([]byte("\x00\x00\x00\x00db.c\x00"), make([]byte, 12)...))
	f.Add(uint32(OpKillCursors), append([]byte("\x00\x00\x00\x00\x01\x00\x00\x00"), make([]byte, 8)...))
	f.Fuzz(func(t *testing.T, op uint32, body []byte) {
		reqs, err := translate(Message{ID: 1, Op: op, Body: body}, func(int64) string { return "db.c" })
		if err != nil {
			return
		}
		for _, r := range reqs {
			if r.answer != nil {
				continue
			}
			b := AppendMsg(nil, 1, 0, r.msg)
			m, err := ReadMessage(bytes.NewReader(b))
			if err != nil {
				t.Fatal(err)
			}
			msg, err := ParseMsg(m.Body)
			if err != nil {
				t.Fatalf("what is sent cannot be read: %v", err)
			}
			if _, ok := msg.Body.Lookup("$db"); !ok {
				t.Fatal("a request without $db")
			}
		}
	})
}

// FuzzFromServer feeds foreign bytes to the translation toward the driver.
func FuzzFromServer(f *testing.F) {
	docs := []bson.Raw{bson.Build().Str("_id", "a").End()}
	for _, doc := range []bson.Raw{
		bson.Build().Double("ok", 1).End(),
		bson.Build().Double("ok", 0).Int32("code", 43).Str("errmsg", "x").End(),
		bson.Build().Doc("cursor", bson.Build().Docs("firstBatch", docs).Int64("id", 1).Str("ns", "a.b").End()).Double("ok", 1).End(),
	} {
		for k := range kindSilent + 1 {
			f.Add(byte(k), AppendMsg(nil, 2, 7, Msg{Body: doc}))
		}
	}
	f.Add(byte(0), AppendMsg(nil, 2, 7, Msg{Body: docs[0], Sequences: []Sequence{{"f", docs}}}))
	f.Fuzz(func(t *testing.T, k byte, b []byte) {
		m, err := ReadMessage(bytes.NewReader(b))
		if err != nil {
			return
		}
		doc, err := parseAnswer(m, 7)
		if err != nil {
			return
		}
		notPrimary(doc)
		parseHello(doc)
		out := answer(request{kind: kind(k) % (kindSilent + 1), id: 3}, doc)
		if out == nil {
			return
		}
		r, err := ReadMessage(bytes.NewReader(out))
		if err != nil {
			t.Fatal(err)
		}
		// mgo reads each document by its own length, without looking at ours.
		rest := r.Body[20:]
		for range le.Uint32(r.Body[16:]) {
			if _, rest, err = bson.Read(rest); err != nil {
				t.Fatal(err)
			}
		}
		if len(rest) > 0 {
			t.Fatalf("%d bytes too many", len(rest))
		}
	})
}

func FuzzParseMsg(f *testing.F) {
	doc := bson.Build().Double("ok", 1).End()
	f.Add(AppendMsg(nil, 1, 0, Msg{Body: doc, Sequences: []Sequence{{"f", []bson.Raw{doc, doc}}}})[headerLen:])
	f.Fuzz(func(t *testing.T, body []byte) {
		if m, err := ParseMsg(body); err == nil {
			if _, err := ParseMsg(AppendMsg(nil, 1, 0, m)[headerLen:]); err != nil {
				t.Fatalf("written again: %v", err)
			}
		}
	})
}
