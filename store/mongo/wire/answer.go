package wire

import (
	"fmt"

	"github.com/slipway-project/slipway/store/mongo/bson"
)

// The server's error codes that matter here, from MongoDB's error_codes.yml.
const (
	codeCursorNotFound = 43
	codeTooLarge       = 10334 // BSONObjectTooLarge
)

// answer turns a server's answer to r into an OP_REPLY, nil if none is due.
func answer(r request, doc bson.Raw) []byte {
	switch r.kind {
	case kindSilent:
		return nil
	case kindCommand, kindHello:
		return AppendReply(nil, r.id, replyAwaitCapable, 0, doc)
	}
	cursor, ok := doc.Lookup("cursor")
	in, isDoc := cursor.Doc()
	if fine, _ := doc.Lookup("ok"); !ok || !isDoc || !fine.Truth() {
		return failure(r, doc)
	}
	id, _ := cursorID(in)
	var docs []bson.Raw
	_ = in.Each(func(e bson.Element) bool {
		batch, isDoc := e.Doc()
		if isDoc && (e.Key == "firstBatch" || e.Key == "nextBatch") {
			_ = batch.Each(func(e bson.Element) bool {
				if d, ok := e.Doc(); ok {
					docs = append(docs, d)
				}
				return true
			})
		}
		return true
	})
	return AppendReply(nil, r.id, replyAwaitCapable, id, docs...)
}

// failure turns a failed find or getMore into what mgo expects of one.
func failure(r request, doc bson.Raw) []byte {
	c, _ := doc.Lookup("code")
	code, _ := c.Int()
	if r.kind == kindGetMore && code == codeCursorNotFound {
		return AppendReply(nil, r.id, replyCursorNotFound, 0)
	}
	m, _ := doc.Lookup("errmsg")
	text, ok := m.Str()
	if !ok {
		text = "the server's answer holds neither a cursor nor an error"
	}
	return AppendReply(nil, r.id, replyQueryFailure, 0, bson.Build().Str("$err", text).Int32("code", int32(code)).End())
}

// refusal answers a request that is too large to send.
func refusal(r request, size int) []byte {
	text := fmt.Sprintf("message of %d bytes is too large, the limit is %d", size, MaxMessage)
	doc := bson.Build().Double("ok", 0).Str("errmsg", text).Int32("code", codeTooLarge).Str("codeName", "BSONObjectTooLarge").End()
	if r.kind == kindFind || r.kind == kindGetMore {
		return failure(r, doc)
	}
	return AppendReply(nil, r.id, replyAwaitCapable, 0, doc)
}

// cursorID returns the id and the namespace in the cursor of an answer.
func cursorID(cursor bson.Raw) (id int64, ns string) {
	_ = cursor.Each(func(e bson.Element) bool {
		switch e.Key {
		case "id":
			id, _ = e.Int()
		case "ns":
			ns, _ = e.Str()
		}
		return true
	})
	return id, ns
}

// notPrimary reports whether an answer says that the server cannot take writes
// any more, or is going down.
func notPrimary(doc bson.Raw) bool {
	found := false
	check := func(e bson.Element) {
		if c, ok := e.Int(); ok && IsNotPrimary(int(c)) {
			found = true
		}
	}
	_ = doc.Each(func(e bson.Element) bool {
		switch in, isDoc := e.Doc(); {
		case e.Key == "code":
			check(e)
		case e.Key == "writeConcernError" && isDoc:
			if c, ok := in.Lookup("code"); ok {
				check(c)
			}
		case e.Key == "writeErrors" && isDoc:
			_ = in.Each(func(e bson.Element) bool {
				one, _ := e.Doc()
				if c, ok := one.Lookup("code"); ok {
					check(c)
				}
				return true
			})
		}
		return true
	})
	return found
}

// IsNotPrimary reports whether an error code means that another server has to
// be asked: InterruptedAtShutdown, ShutdownInProgress,
// InterruptedDueToReplStateChange, PrimarySteppedDown, NotWritablePrimary,
// NotPrimaryNoSecondaryOk and NotPrimaryOrSecondary.
func IsNotPrimary(code int) bool {
	switch code {
	case 11600, 91, 11602, 189, 10107, 13435, 13436:
		return true
	}
	return false
}
