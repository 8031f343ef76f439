package rpc

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/juju/errors"
)

var (
	contextType = reflect.TypeFor[context.Context]()
	errorType   = reflect.TypeFor[error]()
)

// Methods are the methods of one Go type, as requests find them.
type Methods struct {
	byName map[string]*Method
	names  []string // sorted
}

// MethodsOf returns the exported methods of a type. It returns an error
// satisfying errors.NotValid if any of them is not of the shape
//
//	func([ctx context.Context,] [P]) ([R,] error)
//
// with P and R structs, so that nothing is exported to the network by accident. A
// method that waits has a Later as its R.
func MethodsOf(t reflect.Type) (*Methods, error) {
	m := &Methods{byName: make(map[string]*Method)}
	for i := range t.NumMethod() {
		method, err := newMethod(t.Method(i))
		if err != nil {
			return nil, errors.Annotatef(err, "method %s of %v", t.Method(i).Name, t)
		}
		m.byName[method.name] = method
		m.names = append(m.names, method.name)
	}
	slices.Sort(m.names)
	return m, nil
}

// Get returns the method of that name, or false if there is none.
func (m *Methods) Get(name string) (*Method, bool) {
	method, ok := m.byName[name]
	return method, ok
}

// Names returns the names of all methods, sorted. It must not be changed.
func (m *Methods) Names() []string { return m.names }

// Method is one method that requests can call.
type Method struct {
	name   string
	fn     reflect.Value
	hasCtx bool
	params reflect.Type // nil when the method has none
	result reflect.Type // nil when the method has none
	later  bool         // whether it returns a Later
}

func newMethod(m reflect.Method) (*Method, error) {
	t, out := m.Type, &Method{name: m.Name, fn: m.Func}
	in := 1 // after the receiver
	if t.IsVariadic() {
		return nil, errors.NotValidf("a variable number of parameters")
	}
	if in < t.NumIn() && t.In(in) == contextType {
		out.hasCtx = true
		in++
	}
	if in < t.NumIn() {
		out.params = t.In(in)
		in++
	}
	if in < t.NumIn() || out.params != nil && out.params.Kind() != reflect.Struct {
		return nil, errors.NotValidf("parameters of %v: not ([context.Context,] [a struct]):", t)
	}
	results := t.NumOut()
	if results == 0 || results > 2 || t.Out(results-1) != errorType {
		return nil, errors.NotValidf("results of %v: not ([a struct,] error):", t)
	}
	if results == 2 {
		out.result = t.Out(0)
		if l, ok := reflect.Zero(out.result).Interface().(later); ok {
			out.result, out.later = l.resultType(), true
		}
		if out.result.Kind() != reflect.Struct {
			return nil, errors.NotValidf("results of %v: not ([a struct,] error):", t)
		}
		if out.result == noneType {
			out.result = nil
		}
	}
	return out, nil
}

// Name returns the method's name.
func (m *Method) Name() string { return m.name }

// Params returns the type of the parameters, nil if there are none.
func (m *Method) Params() reflect.Type { return m.params }

// Result returns the type of the result, or of what a Later stands for; nil if there
// is none.
func (m *Method) Result() reflect.Type { return m.result }

// PlainDecoder are parameters that read by themselves the form in which nearly all
// requests have them, which is much faster than to find out what any JSON means.
type PlainDecoder interface {
	// DecodePlain reads the parameters as the JSON decoder would, and reports
	// whether it could. Otherwise it has changed nothing. It keeps nothing of
	// data, which is valid JSON.
	DecodePlain(data []byte) bool
}

// Decode reads the parameters from JSON, of which none is as good as an empty
// object. Its error speaks of JSON's types, not of ours. The result is for Call.
func (m *Method) Decode(params []byte) (reflect.Value, error) {
	if m.params == nil {
		return reflect.Value{}, nil
	}
	p := reflect.New(m.params)
	if len(params) == 0 {
		return p.Elem(), nil
	}
	to := p.Interface()
	if plain, ok := to.(PlainDecoder); ok && plain.DecodePlain(params) {
		return p.Elem(), nil
	}
	if err := json.Unmarshal(params, to); err != nil {
		return reflect.Value{}, inJSON(err)
	}
	return p.Elem(), nil
}

// inJSON says in terms of JSON which parameter is of the wrong type; other errors of
// a decoder stay as they are.
func inJSON(err error) error {
	var wrong *json.UnmarshalTypeError
	if !errors.As(err, &wrong) {
		return errors.Trace(err)
	}
	is, _, _ := strings.Cut(wrong.Value, " ") // a number is followed by its value
	got, ok := map[string]string{"bool": "a boolean", "number": "a number", "string": "a string", "array": "an array", "object": "an object"}[is]
	if !ok {
		got = "a " + is
	}
	if wrong.Field == "" {
		return errors.Errorf("parameters: %s instead of %s", got, jsonType(wrong.Type))
	}
	return errors.Errorf("parameter %q: %s instead of %s", wrong.Field, got, jsonType(wrong.Type))
}

// jsonType says what of JSON a Go type is decoded from.
func jsonType(t reflect.Type) string {
	switch k := t.Kind(); {
	case k == reflect.Pointer:
		return jsonType(t.Elem())
	case k == reflect.Bool:
		return "a boolean"
	case k == reflect.String, k == reflect.Slice && t.Elem().Kind() == reflect.Uint8:
		return "a string"
	case k == reflect.Slice, k == reflect.Array:
		return "an array"
	case k == reflect.Map, k == reflect.Struct:
		return "an object"
	case k == reflect.Float32, k == reflect.Float64:
		return "a number"
	case reflect.Int <= k && k <= reflect.Uint64:
		return fmt.Sprintf("a whole number of %d bits", t.Bits())
	}
	return "another type"
}

// Call calls the method of receiver, which must be of the type that the method
// was found in, with what Decode returned. The result of one that waits is a Pending.
func (m *Method) Call(ctx context.Context, receiver, params reflect.Value) (any, error) {
	var space [3]reflect.Value
	args := append(space[:0], receiver)
	if m.hasCtx {
		args = append(args, reflect.ValueOf(&ctx).Elem()) // of the interface's type: nothing has to be looked up
	}
	if m.params != nil {
		args = append(args, params)
	}
	out := m.fn.Call(args)
	if err := out[len(out)-1]; !err.IsNil() {
		return nil, err.Interface().(error)
	}
	if m.later {
		return out[0].Interface().(later).pending(), nil
	}
	if m.result == nil {
		return nil, nil
	}
	return out[0].Interface(), nil
}
