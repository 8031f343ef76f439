package metal3v1alpha1

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"

	"github.com/juju/errors"
	"gopkg.in/yaml.v3"
)

// Secret is a named set of values. It prints as [redacted].
type Secret struct {
	Name      string
	Namespace string
	data      map[string]string
}

// NewSecret returns a secret that holds data.
func NewSecret(namespace, name string, data map[string]string) Secret {
	return Secret{Name: name, Namespace: namespace, data: data}
}

// Value returns the value stored under key.
func (s Secret) Value(key string) (value string, ok bool) {
	value, ok = s.data[key]
	return value, ok
}

// String tells which secret it is, but nothing of what it holds.
func (s Secret) String() string { return s.Namespace + "/" + s.Name + " [redacted]" }

// GoString is String, so that %#v tells no more.
func (s Secret) GoString() string { return s.String() }

// Documents is what a file of YAML documents holds, in the order of the file.
type Documents struct {
	Hosts   []*BareMetalHost
	Secrets []Secret
	// Warnings are one line each: fields and kinds that we do not know and that
	// have been left out.
	Warnings []string
}

// SecretFor returns the secret called name in namespace.
func (d *Documents) SecretFor(namespace, name string) (Secret, bool) {
	for _, s := range d.Secrets {
		if s.Name == name && s.Namespace == namespace {
			return s, true
		}
	}
	return Secret{}, false
}

// maxDocuments bounds how much one file may ask for.
const maxDocuments = 100_000

// Decode reads YAML (or JSON) documents of the kinds BareMetalHost, Secret and
// List. Other kinds are left out with a warning. The error says in which line what
// is wrong, and satisfies errors.NotValid.
func Decode(r io.Reader) (*Documents, error) {
	out := new(Documents)
	d := yaml.NewDecoder(r)
	for n := 1; ; n++ {
		var node yaml.Node
		err := d.Decode(&node)
		if err == io.EOF {
			return out, nil
		}
		if err != nil {
			return nil, errors.NewNotValid(nil, fmt.Sprintf("document %d is not YAML: %v", n, err))
		}
		if n > maxDocuments {
			return nil, errors.NotValidf("more than %d documents in one file", maxDocuments)
		}
		if err := out.add(&node); err != nil {
			return nil, err
		}
	}
}

// add takes in one document.
func (d *Documents) add(node *yaml.Node) error {
	if node.Kind == yaml.DocumentNode {
		node = node.Content[0]
	}
	if node.Tag == "!!null" {
		return nil // nothing but comments between two separators
	}
	var value any
	if err := node.Decode(&value); err != nil {
		return errors.NewNotValid(nil, fmt.Sprintf("line %d: %v", node.Line, err))
	}
	fields, ok := value.(map[string]any)
	if !ok {
		return errors.NewNotValid(nil, fmt.Sprintf("line %d: want a document with apiVersion and kind", node.Line))
	}
	data, err := json.Marshal(fields)
	if err != nil {
		return errors.NewNotValid(nil, fmt.Sprintf("line %d: %v", node.Line, err))
	}
	switch kind, _ := fields["kind"].(string); kind {
	case Kind:
		return d.addHost(node.Line, data, fields)
	case "Secret":
		return d.addSecret(node.Line, data)
	case "List":
		return d.addList(node)
	case "":
		return errors.NewNotValid(nil, fmt.Sprintf("line %d: document without kind; want %s or Secret", node.Line, Kind))
	default:
		d.Warnings = append(d.Warnings, fmt.Sprintf("line %d: a %s is left out", node.Line, kind))
		return nil
	}
}

// addList takes in the items of a document of kind List.
func (d *Documents) addList(node *yaml.Node) error {
	for i := 0; i+1 < len(node.Content); i += 2 {
		if node.Content[i].Value != "items" {
			continue
		}
		for _, item := range node.Content[i+1].Content {
			if item.Kind == yaml.AliasNode {
				item = item.Alias
			}
			if err := d.add(item); err != nil {
				return err
			}
		}
	}
	return nil
}

// addHost takes in a host.
func (d *Documents) addHost(line int, data []byte, fields map[string]any) error {
	h := new(BareMetalHost)
	if err := json.Unmarshal(data, h); err != nil {
		return errors.NewNotValid(nil, fmt.Sprintf("line %d: %s: %v", line, Kind, plain(err)))
	}
	if h.Metadata.Name == "" {
		return errors.NewNotValid(nil, fmt.Sprintf("line %d: %s without metadata.name", line, Kind))
	}
	if h.APIVersion != APIVersion {
		return errors.NewNotValid(nil, fmt.Sprintf("line %d: %s %q: apiVersion %q, want %q", line, Kind, h.Metadata.Name, h.APIVersion, APIVersion))
	}
	spec, _ := fields["spec"].(map[string]any)
	for _, f := range unknown("spec", spec, reflect.TypeFor[BareMetalHostSpec]()) {
		d.Warnings = append(d.Warnings, fmt.Sprintf("line %d: %s %q: field %s is not supported and left out", line, Kind, h.Metadata.Name, f))
	}
	d.Hosts = append(d.Hosts, h)
	return nil
}

// addSecret takes in a secret. Its values never reach an error.
func (d *Documents) addSecret(line int, data []byte) error {
	var s struct {
		Metadata   ObjectMeta        `json:"metadata"`
		Data       map[string]string `json:"data"`
		StringData map[string]string `json:"stringData"`
	}
	if err := json.Unmarshal(data, &s); err != nil {
		return errors.NewNotValid(nil, fmt.Sprintf("line %d: Secret: %v", line, plain(err)))
	}
	if s.Metadata.Name == "" {
		return errors.NewNotValid(nil, fmt.Sprintf("line %d: Secret without metadata.name", line))
	}
	values := make(map[string]string)
	for key, encoded := range s.Data {
		value, err := base64.StdEncoding.DecodeString(strings.TrimSpace(encoded))
		if err != nil {
			return errors.NewNotValid(nil, fmt.Sprintf("line %d: Secret %q: data.%s is not base64; plain text belongs in stringData", line, s.Metadata.Name, key))
		}
		values[key] = string(value)
	}
	for key, value := range s.StringData {
		values[key] = value
	}
	d.Secrets = append(d.Secrets, NewSecret(s.Metadata.Namespace, s.Metadata.Name, values))
	return nil
}

// plain says what is wrong without quoting the value or naming Go types.
func plain(err error) error {
	var kind *json.UnmarshalTypeError
	if errors.As(err, &kind) {
		return errors.Errorf("%s is a %s, want a %s", kind.Field, strings.Fields(kind.Value)[0], kind.Type.Kind())
	}
	return err
}

// unknown returns the paths of keys in fields that no field of t has, sorted.
func unknown(path string, fields map[string]any, t reflect.Type) []string {
	known := make(map[string]reflect.Type)
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		known[name] = f.Type
	}
	var out []string
	for key, value := range fields {
		inner, ok := known[key]
		if !ok {
			out = append(out, path+"."+key)
			continue
		}
		if inner.Kind() == reflect.Pointer {
			inner = inner.Elem()
		}
		if m, ok := value.(map[string]any); ok && inner.Kind() == reflect.Struct {
			out = append(out, unknown(path+"."+key, m, inner)...)
		}
	}
	slices.Sort(out)
	return out
}

// Encode writes hosts and secrets as YAML documents, which Decode reads back.
// What it writes holds passwords if secrets do.
func Encode(w io.Writer, docs *Documents) error {
	for _, h := range docs.Hosts {
		c := h.Copy()
		c.APIVersion, c.Kind = APIVersion, Kind
		if err := encodeOne(w, c); err != nil {
			return errors.Annotatef(err, "cannot write host %s", h.Metadata.Name)
		}
	}
	for _, s := range docs.Secrets {
		err := encodeOne(w, map[string]any{
			"apiVersion": "v1",
			"kind":       "Secret",
			"metadata":   ObjectMeta{Name: s.Name, Namespace: s.Namespace},
			"stringData": s.data,
		})
		if err != nil {
			return errors.Annotatef(err, "cannot write secret %s", s.Name)
		}
	}
	return nil
}

// encodeOne writes one document with its separator.
func encodeOne(w io.Writer, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return errors.Trace(err)
	}
	var generic any
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	if err := d.Decode(&generic); err != nil {
		return errors.Trace(err)
	}
	text, err := yaml.Marshal(numbers(generic))
	if err != nil {
		return errors.Trace(err)
	}
	_, err = fmt.Fprintf(w, "---\n%s", text)
	return errors.Trace(err)
}

// numbers turns json.Number, which YAML would quote, into integers or floats.
func numbers(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for key := range v {
			v[key] = numbers(v[key])
		}
	case []any:
		for i := range v {
			v[i] = numbers(v[i])
		}
	case json.Number:
		if i, err := v.Int64(); err == nil {
			return i
		}
		f, _ := v.Float64()
		return f
	}
	return v
}
