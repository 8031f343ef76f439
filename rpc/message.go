package rpc

import (
	"bytes"
	"encoding/json"
	"strconv"

	"github.com/juju/errors"
)

// errMalformed says that a frame is no message; the connection ends with it.
const errMalformed = errors.ConstError("malformed message")

// Request names a method of an object.
type Request struct {
	Type    string // the facade's name
	Version int    // the facade's version; 0 when the peer gave none
	ID      string // the object, where a facade has several; else empty
	Method  string
}

// message is a decoded envelope. Its byte slices alias the frame.
type message struct {
	id       uint64
	old      bool // spelled the old way
	typ      []byte
	version  int
	object   []byte
	method   []byte
	params   []byte // JSON; empty when absent
	err      []byte
	code     []byte
	info     []byte // JSON
	response []byte // JSON
}

// isRequest reports whether the message asks for something, rather than answers.
func (m *message) isRequest() bool { return len(m.typ) > 0 || len(m.method) > 0 }

// parseMessage reads an envelope. It returns an error satisfying
// errors.Is(err, errMalformed) if frame is not a JSON object or a member of the
// envelope has the wrong type.
func parseMessage(frame []byte) (message, error) {
	var m message
	if !json.Valid(frame) {
		return m, errors.Annotate(errMalformed, "not valid JSON")
	}
	w := walker{data: frame}
	w.space()
	if w.data[w.at] == 'n' { // null, which sets nothing
		m.old = true
		return m, nil
	}
	if w.data[w.at] != '{' {
		return m, errors.Annotate(errMalformed, "not an object")
	}
	var newID, oldID uint64
	var newCode, oldCode []byte
	for key, value := range w.members {
		var err error
		switch {
		case is(key, "request-id"):
			err = setUint(&newID, value)
		case is(key, "requestid"):
			err = setUint(&oldID, value)
		case is(key, "type"):
			err = setString(&m.typ, value)
		case is(key, "version"):
			err = setInt(&m.version, value)
		case is(key, "id"):
			err = setString(&m.object, value)
		case is(key, "request"):
			err = setString(&m.method, value)
		case is(key, "params"):
			m.params = value
		case is(key, "error"):
			err = setString(&m.err, value)
		case is(key, "error-code"):
			err = setString(&newCode, value)
		case is(key, "errorcode"):
			err = setString(&oldCode, value)
		case is(key, "error-info"):
			m.info = value
		case is(key, "response"):
			m.response = value
		}
		if err != nil {
			return m, errors.Annotatef(err, "member %q", key)
		}
	}
	m.id, m.code = newID, newCode
	if newID == 0 {
		m.id, m.code, m.old = oldID, oldCode, true
	}
	return m, nil
}

// is reports whether key is name, whatever the case.
func is(key []byte, name string) bool {
	return len(key) >= len(name) && bytes.EqualFold(key, []byte(name))
}

// setUint sets *to from a JSON value; null leaves it alone.
func setUint(to *uint64, value []byte) error {
	if isNull(value) {
		return nil
	}
	n, err := strconv.ParseUint(string(value), 10, 64)
	if err != nil {
		return errors.Annotate(errMalformed, "not an unsigned number")
	}
	*to = n
	return nil
}

// setInt sets *to from a JSON value; null leaves it alone.
func setInt(to *int, value []byte) error {
	if isNull(value) {
		return nil
	}
	n, err := strconv.ParseInt(string(value), 10, strconv.IntSize)
	if err != nil {
		return errors.Annotate(errMalformed, "not a number")
	}
	*to = int(n)
	return nil
}

// setString sets *to from a JSON value; null leaves it alone.
func setString(to *[]byte, value []byte) error {
	if isNull(value) {
		return nil
	}
	if value[0] != '"' {
		return errors.Annotate(errMalformed, "not a string")
	}
	*to = unquote(value)
	return nil
}

func isNull(value []byte) bool { return value[0] == 'n' }

// unquote returns the text of a valid JSON string, without copying it if it can.
func unquote(value []byte) []byte {
	inner := value[1 : len(value)-1]
	if bytes.IndexByte(inner, '\\') < 0 {
		return inner
	}
	var s string
	if json.Unmarshal(value, &s) != nil {
		return inner // not reached: the frame was found valid
	}
	return []byte(s)
}

// walker goes through the members of one JSON object that is known to be valid.
type walker struct {
	data []byte
	at   int
}

// members yields each key, unquoted, and its raw value, of the object that
// starts at the walker's place.
func (w *walker) members(yield func(key, value []byte) bool) {
	w.at++ // the opening brace
	for {
		w.space()
		switch w.data[w.at] {
		case '}':
			return
		case ',':
			w.at++
			continue
		}
		key := unquote(w.value())
		w.space()
		w.at++ // the colon
		w.space()
		if !yield(key, w.value()) {
			return
		}
	}
}

func (w *walker) space() {
	for w.at < len(w.data) {
		switch w.data[w.at] {
		case ' ', '\t', '\r', '\n':
			w.at++
		default:
			return
		}
	}
}

// value returns the raw value at the walker's place, and moves behind it.
func (w *walker) value() []byte {
	start, depth := w.at, 0
	for w.at < len(w.data) {
		switch w.data[w.at] {
		case '"':
			w.str()
			if depth == 0 {
				return w.data[start:w.at]
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 { // the end of what holds a number or a word
				return w.data[start:w.at]
			}
			depth--
			if depth == 0 {
				w.at++
				return w.data[start:w.at]
			}
		case ',', ':', ' ', '\t', '\r', '\n':
			if depth == 0 {
				return w.data[start:w.at]
			}
		}
		w.at++
	}
	return w.data[start:w.at]
}

// str moves behind the string at the walker's place.
func (w *walker) str() {
	for w.at++; w.data[w.at] != '"'; w.at++ {
		if w.data[w.at] == '\\' {
			w.at++
		}
	}
	w.at++
}
