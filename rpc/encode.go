package rpc

import (
	"bytes"
	"encoding/json"
	"strconv"
	"sync"

	"github.com/juju/errors"
)

// maxKept is the size in bytes above which a buffer is not kept for later.
const maxKept = 64 << 10

// encoder builds one frame after another in a buffer it keeps.
type encoder struct {
	buf  bytes.Buffer
	json *json.Encoder
}

var encoders = sync.Pool{New: func() any {
	e := &encoder{}
	e.json = json.NewEncoder(&e.buf)
	e.json.SetEscapeHTML(false)
	return e
}}

// newEncoder returns an empty encoder; release gives it back.
func newEncoder() *encoder {
	return encoders.Get().(*encoder)
}

func (e *encoder) release() {
	if e.buf.Cap() > maxKept {
		return
	}
	e.buf.Reset()
	encoders.Put(e)
}

func (e *encoder) text(s string) { e.buf.WriteString(s) }

func (e *encoder) number(n uint64) {
	e.buf.Write(strconv.AppendUint(e.buf.AvailableBuffer(), n, 10))
}

// value appends v as JSON; nil as an empty object.
func (e *encoder) value(v any) error {
	if v == nil {
		e.text("{}")
		return nil
	}
	if err := e.json.Encode(v); err != nil {
		return errors.Trace(err)
	}
	e.buf.Truncate(e.buf.Len() - 1) // the line end that Encode adds
	return nil
}

// str appends s as a JSON string.
func (e *encoder) str(s string) {
	if err := e.value(s); err != nil {
		e.text(`""`) // not reached: every string can be encoded
	}
}

// request builds the frame of a request.
func (e *encoder) request(id uint64, r Request, params any) error {
	e.text(`{"request-id":`)
	e.number(id)
	e.text(`,"type":`)
	e.str(r.Type)
	if r.Version != 0 {
		e.text(`,"version":`)
		e.buf.Write(strconv.AppendInt(e.buf.AvailableBuffer(), int64(r.Version), 10))
	}
	if r.ID != "" {
		e.text(`,"id":`)
		e.str(r.ID)
	}
	e.text(`,"request":`)
	e.str(r.Method)
	if params != nil {
		e.text(`,"params":`)
		if err := e.value(params); err != nil {
			return err
		}
	}
	e.text("}")
	return nil
}

// spelling is how the keys of a reply are written.
type spelling struct {
	id, response, err, code, info string
}

var (
	newSpelling = spelling{`{"request-id":`, `,"response":`, `,"error":`, `,"error-code":`, `,"error-info":`}
	oldSpelling = spelling{`{"RequestId":`, `,"Response":`, `,"Error":`, `,"ErrorCode":`, `,"ErrorInfo":`}
)

func spellingOf(old bool) *spelling {
	if old {
		return &oldSpelling
	}
	return &newSpelling
}

// reply builds the frame that answers a request: with result, or with failure.
// A result that cannot be encoded turns into a failure.
func (e *encoder) reply(id uint64, old bool, result any, failure error) {
	s := spellingOf(old)
	if failure == nil {
		e.text(s.id)
		e.number(id)
		e.text(s.response)
		if err := e.value(result); err == nil {
			e.text("}")
			return
		} else {
			logger.Errorf("cannot encode a result of type %T: %v", result, err)
			failure = errors.New("cannot encode the result")
		}
		e.buf.Reset()
	}
	e.text(s.id)
	e.number(id)
	e.failure(s, failure)
	e.text(s.response)
	e.text("{}}")
}

// failure appends the members that say how a call failed.
func (e *encoder) failure(s *spelling, failure error) {
	message := failure.Error()
	if message == "" {
		message = "unknown error" // an empty text would read as success
	}
	e.text(s.err)
	e.str(message)
	f, ok := failure.(*Error)
	if !ok {
		return
	}
	if f.Code != "" {
		e.text(s.code)
		e.str(f.Code)
	}
	if len(f.Info) > 0 {
		e.text(s.info)
		if err := e.value(f.Info); err != nil {
			e.text("{}")
		}
	}
}
