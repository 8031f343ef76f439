package params_test

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/slipway-project/slipway/params"
)

func TestPlainEntities(t *testing.T) {
	tests := []struct {
		data  string
		plain bool
	}{
		{`{"entities":[{"tag":"machine-0"}]}`, true},
		{`{"entities":[{"tag":""}]}`, true},
		{`{"entities":[{"tag":"machine-0"},{"tag":"machine-0-lxd-1"},{"tag":"user-admin@local"}]}`, true},
		{`{"entities":[{"tag":"a},{b"}]}`, true},
		{`{"entities":[]}`, false},
		{`{"entities":null}`, false},
		{`{}`, false},
		{`null`, false},
		{`{"Entities":[{"Tag":"machine-0"}]}`, false},
		{`{"entities":[{"tag":"machine-0"}] }`, false},
		{`{"entities":[{"tag":"machine-\u0030"}]}`, false},
		{`{"entities":[{"tag":"a\"},{\"tag\":\"b"}]}`, false},
		{`{"entities":[{"tag":"a","tag":"b"}]}`, false},
		{`{"entities":[{"tag":"a","x":1},{"tag":"b"}]}`, false},
		{`{"entities":[{"tag":"a"}],"entities":[{"tag":"b"}]}`, false},
		{`{"entities":[{"tag":"a"}],"other":[{"tag":"b"}]}`, false},
		{"{\"entities\":[{\"tag\":\"ma\u00fcchine\"}]}", false},
		{"{\"entities\":[{\"tag\":\"\xff\"}]}", false},
	}
	for _, test := range tests {
		var got params.Entities
		if plain := got.DecodePlain([]byte(test.data)); plain != test.plain {
			t.Errorf("DecodePlain(%s) = %v, want %v", test.data, plain, test.plain)
		}
		if !test.plain && got.Entities != nil {
			t.Errorf("DecodePlain(%s) left %v", test.data, got)
		}
	}
}

// FuzzPlainEntities compares with what the JSON decoder makes of the same.
func FuzzPlainEntities(f *testing.F) {
	for _, seed := range []string{
		`{"entities":[{"tag":"machine-0"}]}`, `{"entities":[{"tag":"a"},{"tag":"b"}]}`, `{"entities":[{"tag":"a","tag":"b"}]}`,
		`{"entities":[{"tag":"a"}],"entities":[{"tag":"b"}]}`, `{"entities":[{"tag":"\u0041"}]}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if !json.Valid(data) {
			return
		}
		var got, want params.Entities
		if !got.DecodePlain(data) {
			return
		}
		if err := json.Unmarshal(data, &want); err != nil {
			t.Fatalf("DecodePlain took %s, of which the decoder says: %v", data, err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("DecodePlain(%s) = %v, want %v", data, got, want)
		}
	})
}
