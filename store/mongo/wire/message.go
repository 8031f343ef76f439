package wire

import (
	"encoding/binary"
	"io"

	"github.com/juju/errors"

	"github.com/slipway-project/slipway/store/mongo/bson"
)

// The operation codes of the wire protocol that are in use.
const (
	OpReply       = 1
	OpQuery       = 2004
	OpGetMore     = 2005
	OpKillCursors = 2007
	OpMsg         = 2013
)

const (
	// MaxMessage is the greatest message in bytes, maxMessageSizeBytes of every
	// MongoDB server.
	MaxMessage = 48_000_000
	// MaxDocument is the greatest document in bytes, maxBsonObjectSize of every
	// MongoDB server.
	MaxDocument = 16 << 20
)

// The flags of an OP_MSG. All others below 1<<16 must be refused.
const (
	flagChecksum   = 1
	flagMoreToCome = 2
)

// headerLen is the length of what every message starts with: length, request
// id, id answered to, operation code; four bytes each.
const headerLen = 16

var le = binary.LittleEndian

// Message is one message with its header taken apart.
type Message struct {
	ID   uint32
	To   uint32 // the id of the request that this answers
	Op   uint32
	Body []byte
}

// ReadMessage reads a message. It returns an error satisfying errors.NotValid
// when the length is out of bounds, before anything of that size is allocated,
// and the reader's error as it is.
func ReadMessage(r io.Reader) (Message, error) {
	var h [headerLen]byte
	if _, err := io.ReadFull(r, h[:]); err != nil {
		return Message{}, err
	}
	n := le.Uint32(h[:])
	if n < headerLen || n > MaxMessage {
		return Message{}, errors.NotValidf("message length of %d bytes (at least %d, at most %d)", n, headerLen, MaxMessage)
	}
	m := Message{ID: le.Uint32(h[4:]), To: le.Uint32(h[8:]), Op: le.Uint32(h[12:])}
	m.Body = make([]byte, n-headerLen)
	_, err := io.ReadFull(r, m.Body)
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return m, err
}

// start appends a header whose length finish sets.
func start(b []byte, id, to, op uint32) []byte {
	b = le.AppendUint32(b, 0)
	b = le.AppendUint32(b, id)
	b = le.AppendUint32(b, to)
	return le.AppendUint32(b, op)
}

func finish(b []byte) []byte {
	le.PutUint32(b, uint32(len(b)))
	return b
}

// Sequence is a kind-1 section of an OP_MSG: documents that belong into an
// array of the command, named by Field.
type Sequence struct {
	Field string
	Docs  []bson.Raw
}

// Msg is the content of an OP_MSG.
type Msg struct {
	Body       bson.Raw
	Sequences  []Sequence
	MoreToCome bool // the sender wants no answer, or will send another one
}

// AppendMsg appends an OP_MSG to b, which must be empty.
func AppendMsg(b []byte, id, to uint32, m Msg) []byte {
	b = start(b, id, to, OpMsg)
	flags := uint32(0)
	if m.MoreToCome {
		flags = flagMoreToCome
	}
	b = le.AppendUint32(b, flags)
	b = append(append(b, 0), m.Body...)
	for _, s := range m.Sequences {
		b = append(b, 1)
		at := len(b)
		b = append(append(le.AppendUint32(b, 0), s.Field...), 0)
		for _, d := range s.Docs {
			b = append(b, d...)
		}
		le.PutUint32(b[at:], uint32(len(b)-at))
	}
	return finish(b)
}

// ParseMsg reads the body of an OP_MSG. It returns an error satisfying
// errors.NotValid for a malformed one, and for flags that it does not know.
func ParseMsg(body []byte) (Msg, error) {
	if len(body) < 4 {
		return Msg{}, errors.NotValidf("OP_MSG of %d bytes", len(body))
	}
	flags := le.Uint32(body)
	if unknown := flags & 0xffff &^ (flagChecksum | flagMoreToCome); unknown != 0 {
		return Msg{}, errors.NotValidf("OP_MSG flags %#x", unknown)
	}
	b := body[4:]
	if flags&flagChecksum != 0 {
		if len(b) < 4 {
			return Msg{}, errors.NotValidf("OP_MSG without its checksum")
		}
		b = b[:len(b)-4]
	}
	m := Msg{MoreToCome: flags&flagMoreToCome != 0}
	for len(b) > 0 {
		var err error
		switch kind := b[0]; {
		case kind == 0 && m.Body == nil:
			m.Body, b, err = bson.Read(b[1:])
		case kind == 1:
			var s Sequence
			s, b, err = parseSequence(b[1:])
			m.Sequences = append(m.Sequences, s)
		default:
			err = errors.NotValidf("OP_MSG section of kind %d", kind)
		}
		if err != nil {
			return Msg{}, err
		}
	}
	if m.Body == nil {
		return Msg{}, errors.NotValidf("OP_MSG without a body")
	}
	return m, nil
}

func parseSequence(b []byte) (s Sequence, rest []byte, err error) {
	if len(b) < 5 {
		return s, nil, errors.NotValidf("OP_MSG sequence")
	}
	n := le.Uint32(b)
	if n < 5 || uint64(n) > uint64(len(b)) {
		return s, nil, errors.NotValidf("OP_MSG sequence of %d bytes", n)
	}
	in, rest := b[4:n], b[n:]
	s.Field, in, err = cstring(in)
	for err == nil && len(in) > 0 {
		var d bson.Raw
		d, in, err = bson.Read(in)
		s.Docs = append(s.Docs, d)
	}
	return s, rest, err
}

// The flags of an OP_REPLY.
const (
	replyCursorNotFound = 1
	replyQueryFailure   = 2
	replyAwaitCapable   = 8
)

// AppendReply appends an OP_REPLY to b, which must be empty.
func AppendReply(b []byte, to, flags uint32, cursor int64, docs ...bson.Raw) []byte {
	b = start(b, 0, to, OpReply)
	b = le.AppendUint32(b, flags)
	b = le.AppendUint64(b, uint64(cursor))
	b = le.AppendUint32(b, 0) // first document's place in the cursor
	b = le.AppendUint32(b, uint32(len(docs)))
	for _, d := range docs {
		b = append(b, d...)
	}
	return finish(b)
}

// ParseReply returns the first document in the body of an OP_REPLY.
func ParseReply(body []byte) (bson.Raw, error) {
	const fixed = 20 // flags, cursor id, place, count
	if len(body) < fixed || le.Uint32(body[16:]) == 0 {
		return nil, errors.NotValidf("OP_REPLY without a document")
	}
	doc, _, err := bson.Read(body[fixed:])
	return doc, err
}

// Query is the content of an OP_QUERY.
type Query struct {
	Flags       uint32
	Namespace   string // database.collection
	Skip, Limit int32
	Query       bson.Raw
	Fields      bson.Raw // nil for all
}

// The flags of an OP_QUERY.
const (
	queryTailable        = 2
	querySlaveOk         = 4
	queryNoCursorTimeout = 16
	queryAwaitData       = 32
	queryPartial         = 128
)

// AppendQuery appends an OP_QUERY to b, which must be empty.
func AppendQuery(b []byte, id uint32, q Query) []byte {
	b = le.AppendUint32(start(b, id, 0, OpQuery), q.Flags)
	b = append(append(b, q.Namespace...), 0)
	b = le.AppendUint32(b, uint32(q.Skip))
	b = le.AppendUint32(b, uint32(q.Limit))
	return finish(append(append(b, q.Query...), q.Fields...))
}

// ParseQuery reads the body of an OP_QUERY. It returns an error satisfying
// errors.NotValid for a malformed one.
func ParseQuery(body []byte) (Query, error) {
	var q Query
	if len(body) < 4 {
		return q, errors.NotValidf("OP_QUERY of %d bytes", len(body))
	}
	q.Flags = le.Uint32(body)
	ns, rest, err := cstring(body[4:])
	if err != nil || len(rest) < 8 {
		return q, errors.NotValidf("OP_QUERY of %d bytes", len(body))
	}
	q.Namespace = ns
	q.Skip, q.Limit = int32(le.Uint32(rest)), int32(le.Uint32(rest[4:]))
	if q.Query, rest, err = bson.Read(rest[8:]); err != nil {
		return q, err
	}
	if len(rest) > 0 {
		q.Fields, _, err = bson.Read(rest)
	}
	return q, err
}

// cstring returns the text before the first NUL and the bytes after it.
func cstring(b []byte) (string, []byte, error) {
	for i, x := range b {
		if x == 0 {
			return string(b[:i]), b[i+1:], nil
		}
	}
	return "", nil, errors.NotValidf("text without an end")
}
