package rpc

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/juju/errors"
)

func TestParseMessageRefusesWhatIsNoEnvelope(t *testing.T) {
	tests := []struct{ name, frame string }{
		{"empty", ""},
		{"truncated", `{"request-id":1`},
		{"two values", `{} {}`},
		{"a list", `[]`},
		{"a number", `1`},
		{"a string", `"x"`},
		{"not UTF-8 outside a string", "\xff"},
		{"a negative number", `{"request-id":-1,"type":"T"}`},
		{"a fraction", `{"request-id":1.5}`},
		{"a number as text", `{"request-id":"1"}`},
		{"a number that overflows", `{"request-id":18446744073709551616}`},
		{"a version as text", `{"request-id":1,"version":"3"}`},
		{"a type as number", `{"request-id":1,"type":3}`},
		{"an id as object", `{"request-id":1,"id":{}}`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if m, err := parseMessage([]byte(test.frame)); !errors.Is(err, errMalformed) {
				t.Errorf("parseMessage(%q) = %+v, %v, want malformed", test.frame, m, err)
			}
		})
	}
}

func TestParseMessageReadsErrors(t *testing.T) {
	tests := []struct{ name, frame string }{
		{"new", `{"request-id":1,"error":"e","error-code":"c","error-info":{"k":1},"response":{"a":[1,{"b":"]"}]}}`},
		{"old", `{"RequestId":1,"Error":"e","ErrorCode":"c","error-info":{"k":1},"Response":{"a":[1,{"b":"]"}]}}`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			m, err := parseMessage([]byte(test.frame))
			if err != nil {
				t.Fatal(err)
			}
			if m.id != 1 || string(m.err) != "e" || string(m.code) != "c" || string(m.info) != `{"k":1}` ||
				string(m.response) != `{"a":[1,{"b":"]"}]}` || m.isRequest() {
				t.Errorf("parseMessage(%s) = %+v", test.frame, m)
			}
		})
	}
}

// envelope and oldEnvelope are the two spellings as the standard decoder reads
// them: what parseMessage must agree with.
type envelope struct {
	ID       uint64          `json:"request-id"`
	Type     string          `json:"type"`
	Version  int             `json:"version"`
	Object   string          `json:"id"`
	Method   string          `json:"request"`
	Params   json.RawMessage `json:"params"`
	Err      string          `json:"error"`
	Code     string          `json:"error-code"`
	Response json.RawMessage `json:"response"`
}

type oldEnvelope struct {
	ID       uint64          `json:"RequestId"`
	Type     string          `json:"Type"`
	Version  int             `json:"Version"`
	Object   string          `json:"Id"`
	Method   string          `json:"Request"`
	Params   json.RawMessage `json:"Params"`
	Err      string          `json:"Error"`
	Code     string          `json:"ErrorCode"`
	Response json.RawMessage `json:"Response"`
}

func FuzzParseMessage(f *testing.F) {
	for _, seed := range []string{
		`{"request-id":1,"type":"Provisioner","version":3,"id":"","request":"Life","params":{"entities":[{"tag":"machine-0"}]}}`,
		`{"RequestId":1,"Type":"Provisioner","Version":3,"Id":"1","Request":"Life","Params":{}}`,
		`{"request-id":2,"error":"x","error-code":"y","response":{}}`,
		`{"type":"A","request":"B"}`, `{"request-id":0,"RequestId":7,"errorcode":"c"}`,
		`{"request-id":1,"request-id":2,"tYpe":"\u0041"}`, ` { "params" : [ 1 , "}" , { } ] , "id" : null } `,
		`null`, `[]`, `{`, `{"":{}}`, `{"version":1e2}`, `{"parameterſ":1,"requeſt":"x"}`, `{"request-id":1,"params":"\"{"}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, frame []byte) {
		m, err := parseMessage(bytes.Clone(frame))
		var want envelope
		wantErr := json.Unmarshal(frame, &want)
		if wantErr == nil && want.ID == 0 {
			var old oldEnvelope
			if wantErr = json.Unmarshal(frame, &old); wantErr == nil {
				want = envelope(old)
			}
		}
		if err == nil && wantErr != nil {
			// Only a wrong number of the spelling that is not used may pass.
			return
		}
		if err != nil {
			return
		}
		if m.id != want.ID || string(m.typ) != want.Type && !lossy(m.typ) || m.version != want.Version || !bytes.Equal(m.params, want.Params) ||
			!bytes.Equal(m.response, want.Response) || string(m.code) != want.Code && !lossy(m.code) {
			t.Errorf("parseMessage(%q) = %+v, want %+v", frame, m, want)
		}
	})
}

// lossy reports whether the standard decoder would have replaced bytes of b
// that are not UTF-8.
func lossy(b []byte) bool { return !bytes.Equal(bytes.ToValidUTF8(b, []byte("�")), b) }

func TestEncoderSurvivesAResultThatCannotBeEncoded(t *testing.T) {
	e := newEncoder()
	defer e.release()
	e.reply(3, false, struct{ F func() }{}, nil)
	if got, want := e.buf.String(), `{"request-id":3,"error":"cannot encode the result","response":{}}`; got != want {
		t.Errorf("reply = %s, want %s", got, want)
	}
}
