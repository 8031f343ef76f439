package state_test

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/slipway-project/slipway/state"
	"github.com/slipway-project/slipway/store"
)

func TestRedactTakesSecretsOut(t *testing.T) {
	secret := func(provider, setting string) bool { return provider == "rack" && setting == "rack-token" }
	for _, c := range []struct{ collection, before, after string }{
		{"users", `{"name":"bob","password-hash":"$argon2id$x","access":"login"}`, `{"name":"bob","access":"login"}`},
		{"users", `{"name": "bob"}`, `{"name":"bob"}`},
		{"machines", `{"life":"alive","password-hash":"abc","big":12345678901234567890}`, `{"life":"alive","big":12345678901234567890}`},
		{"model-config", `{"attrs":{"type":"rack","rack-token":"hush","n":1}}`, `{"attrs":{"type":"rack","n":1}}`},
		{"model-config", `{"attrs":{"type":"other","rack-token":"public"}}`, `{"attrs":{"type":"other","rack-token":"public"}}`},
		{"history", `{"password-hash":"not one"}`, `{"password-hash":"not one"}`},
	} {
		got, err := state.Redact(store.Key{Collection: c.collection, ID: "_:x"}, []byte(c.before), secret)
		if err != nil || !reflect.DeepEqual(object(t, got), object(t, []byte(c.after))) {
			t.Errorf("Redact %s = %s, %v; want %s", c.before, got, err, c.after)
		}
	}
	for _, collection := range []string{"users", "model-config"} {
		if _, err := state.Redact(store.Key{Collection: collection, ID: "_:x"}, []byte("no JSON"), secret); err == nil {
			t.Errorf("a damaged document of %s was redacted", collection)
		}
	}
}

// object decodes a JSON object, numbers as they are written.
func object(t *testing.T, text []byte) map[string]json.RawMessage {
	t.Helper()
	var v map[string]json.RawMessage
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatal(err)
	}
	if attrs, ok := v["attrs"]; ok { // order does not matter there either
		for name, value := range object(t, attrs) {
			v["attrs."+name] = value
		}
		delete(v, "attrs")
	}
	return v
}
