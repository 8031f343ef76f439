package apiserver

import (
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/slipway-project/slipway/params"
)

// maxEntities bounds how many entities of one call are told.
const maxEntities = 1000

// naming are the keys of parameters and results under which an entity is named,
// in lower case, the most telling first. Only what stands under them is ever
// told of a call, so that no secret is.
func naming() []string {
	return []string{
		"machine", "tag", "machine-tag", "user-tag", "model-tag", "entity-tag", "host-tag", "uuid", "id",
		"username", "name", "machine-names", "names", "keys",
	}
}

// settingsKey is the key of objects whose own keys are names: of settings.
const settingsKey = "config"

var errorType = reflect.TypeFor[*params.Error]()

// entitiesOf returns what a call was about, and how many entities there are
// beyond maxEntities. A bulk call is about one entity for each of its
// parameters, which the result's entry at the same place names better and gives
// a code. Of other calls, everything that is named in the parameters and the
// result counts.
func entitiesOf(args reflect.Value, result any) ([]Entity, int) {
	var out []Entity
	asked, bulk := listIn(args)
	answered, _ := listIn(reflect.ValueOf(result))
	if !bulk {
		for _, v := range []reflect.Value{args, reflect.ValueOf(result)} {
			for _, name := range namesIn(v) {
				if !slices.Contains(out, Entity{Name: name}) {
					out = append(out, Entity{Name: name})
				}
			}
		}
	}
	for i := range min(asked, maxEntities) {
		var e Entity
		element := elementOf(args, i)
		if answered == asked {
			answer := elementOf(reflect.ValueOf(result), i)
			e = Entity{Name: nameIn(answer), Code: codeIn(answer)}
		}
		if e.Name == "" {
			e.Name = nameIn(element)
		}
		if e.Name == "" {
			e.Name = "#" + strconv.Itoa(i) // one that has no name yet
		}
		out = append(out, e)
	}
	if len(out) > maxEntities {
		return out[:maxEntities], len(out) - maxEntities
	}
	return out, max(0, asked-maxEntities)
}

// keyOf returns the key of a field, in lower case.
func keyOf(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	if name == "" {
		name = f.Name
	}
	return strings.ToLower(name)
}

// list returns the field that is the list of a bulk call's parameters or
// results: of objects, or of names.
func list(v reflect.Value) (reflect.Value, bool) {
	if v.Kind() != reflect.Struct {
		return reflect.Value{}, false
	}
	for i := range v.NumField() {
		if v.Field(i).Kind() != reflect.Slice {
			continue
		}
		switch v.Field(i).Type().Elem().Kind() {
		case reflect.Struct, reflect.Pointer:
			return v.Field(i), true
		case reflect.String:
			if slices.Contains(naming(), keyOf(v.Type().Field(i))) {
				return v.Field(i), true
			}
		}
	}
	return reflect.Value{}, false
}

func listIn(v reflect.Value) (length int, ok bool) {
	l, ok := list(v)
	if !ok {
		return 0, false
	}
	return l.Len(), true
}

func elementOf(v reflect.Value, i int) reflect.Value {
	l, _ := list(v)
	return reflect.Indirect(l.Index(i))
}

// nameIn returns the most telling name in an element of a list.
func nameIn(v reflect.Value) string {
	switch v.Kind() {
	case reflect.String:
		return shorten(v.String()) // of a list of names
	case reflect.Struct:
	default:
		return ""
	}
	best, rank := "", len(naming())
	for i := range v.NumField() {
		if r := slices.Index(naming(), keyOf(v.Type().Field(i))); r >= 0 && r < rank && isName(v.Field(i)) {
			best, rank = shorten(v.Field(i).String()), r
		}
	}
	if best != "" {
		for _, key := range []string{"action", "access", "model-tag"} { // of changes to people's rights
			if text := under(v, key); text != "" && text != best {
				best += " " + text
			}
		}
		return shorten(best)
	}
	for i := range v.NumField() { // a result within a result
		f := reflect.Indirect(v.Field(i))
		if f.Kind() == reflect.Struct && v.Field(i).Type() != errorType && keyOf(v.Type().Field(i)) == "result" {
			return nameIn(f)
		}
	}
	return ""
}

// under returns the text under a key of an object, empty if there is none.
func under(v reflect.Value, key string) string {
	for i := range v.NumField() {
		if keyOf(v.Type().Field(i)) == key && isName(v.Field(i)) {
			return shorten(v.Field(i).String())
		}
	}
	return ""
}

// isName reports whether a value may be a name.
func isName(v reflect.Value) bool {
	return v.Kind() == reflect.String && v.Len() > 0 && v.Type() != reflect.TypeFor[params.Secret]()
}

// namesIn returns every name at the top of parameters or a result, settings'
// names too.
func namesIn(v reflect.Value) []string {
	if v.Kind() != reflect.Struct {
		return nil
	}
	var out []string
	for i := range v.NumField() {
		f, key := v.Field(i), keyOf(v.Type().Field(i))
		switch {
		case key == settingsKey && f.Kind() == reflect.Map && f.Type().Key().Kind() == reflect.String:
			for _, k := range f.MapKeys() {
				out = append(out, shorten(k.String()))
			}
		case isName(f) && slices.Contains(naming(), key):
			out = append(out, shorten(f.String()))
		}
	}
	slices.Sort(out)
	return out
}

// codeIn returns the code of the error in an entry of a bulk call's results.
func codeIn(v reflect.Value) string {
	if v.Kind() != reflect.Struct {
		return ""
	}
	for i := range v.NumField() {
		if v.Type().Field(i).Type == errorType && !v.Field(i).IsNil() {
			return outcome(v.Field(i).Interface().(*params.Error))
		}
	}
	return ""
}
